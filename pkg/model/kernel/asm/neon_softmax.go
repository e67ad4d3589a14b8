package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
)

// A group of 16 numbers is 4 vectors.
const neonGroup = group / 16

func genSoftmaxNEON() {
	genRowMaxNEON()
	genRowExpNEON()
	genEntropyGradNEON()
}

// in is the memory of vector i of the group at p.
func in(p string, i int) string { return fmt.Sprintf("%d(%s)", 16*i, p) }

// fold reduces a group to one number, as halve and [fold] do together.
func (n *neon) fold(r []Op, op func(a, b, to Op)) Op {
	op(r[2], r[0], r[0])
	op(r[3], r[1], r[1])
	op(r[1], r[0], r[0])
	t := n.fresh()
	n.line("VEXT $8, V%d.B16, V%d.B16, V%d.B16", r[0], r[0], t)
	op(t, r[0], r[0])
	n.line("VDUP V%d.S[1], V%d.S4", r[0], t)
	op(t, r[0], r[0])
	return r[0]
}

func genRowMaxNEON() {
	n := newNEON("rowMax", "func(n int, x *float32) float32", "returns the largest of n ≥ 16 numbers.")
	count, x, end := n.arg("n"), n.arg("x"), n.general()
	n.line("ADD %s<<2, %s, %s", count, x, end)
	n.line("SUB $%d, %s", group, end)
	acc := make([]Op, neonGroup)
	for i := range acc {
		acc[i] = n.load(in(end, i))
	}
	// The larger; b unless a number is larger, as VMAXPS.
	pick := func(b, a, to Op) {
		larger := n.fresh()
		n.word("FCMGT", a, b, larger)
		n.line("VBSL V%d.B16, V%d.B16, V%d.B16", b, a, larger)
		n.move(larger, to)
	}
	n.label("loop")
	n.line("CMP %s, %s", end, x)
	n.jump("BHS", "done")
	for i, r := range acc {
		pick(n.load(in(x, i)), r, r)
	}
	n.line("ADD $%d, %s", group, x)
	n.jump("B", "loop")
	n.label("done")
	n.line("FMOVS F%d, %s", n.fold(acc, pick), n.parameter("ret"))
	n.finish()
}

// genRowExpNEON follows [genRowExp].
func genRowExpNEON() {
	n := newNEON("rowExp", "func(groups int, x, p, tail *float32, top, invTemp float32) (sum, dot float32)",
		"writes exp((x-top)·invTemp) of groups ≥ 0 groups of 16 to p, and that of the group at tail over",
		"it, if tail is not nil.",
		"It returns the sum of all and their dot product with the exponents, each by 16 partial sums.")
	count, x, p, tail := n.arg("groups"), n.arg("x"), n.arg("p"), n.arg("tail")
	top, invTemp := n.broadcast("top"), n.broadcast("invTemp")
	k := n.with(append([]string{"one", "expMin", "expMax"}, expNames...)...)
	s, d := make([]Op, neonGroup), make([]Op, neonGroup)
	for i := range s {
		s[i], d[i] = n.zero(), n.zero()
	}
	n.label("loop")
	n.line("SUBS $1, %s", count)
	n.jump("BMI", "tail")
	n.label("body")
	for i := range s {
		z := n.load(in(x, i))
		n.sub(top, z, z)
		n.mul(invTemp, z, z)
		k.clamp(z)
		kept := n.fresh()
		n.move(z, kept)
		e := k.exp(z)
		n.store(e, in(p, i))
		n.add(e, s[i], s[i])
		n.fusedAdd(e, kept, d[i])
	}
	n.line("ADD $%d, %s", group, x)
	n.line("ADD $%d, %s", group, p)
	n.jump("B", "loop")
	n.label("tail")
	n.jump(fmt.Sprintf("CBZ %s,", tail), "sum")
	n.line("MOVD %s, %s", tail, x)
	n.line("MOVD %s, %s", tail, p)
	n.line("MOVD ZR, %s", tail)
	n.line("MOVD ZR, %s", count)
	n.jump("B", "body")
	n.label("sum")
	n.line("FMOVS F%d, %s", n.fold(s, n.add), n.parameter("sum"))
	n.line("FMOVS F%d, %s", n.fold(d, n.add), n.parameter("dot"))
	n.finish()
}

// genEntropyGradNEON follows [genEntropyGrad].
func genEntropyGradNEON() {
	n := newNEON("entropyGrad", "func(groups int, d, p *float32, base, slope, h float32)",
		"writes p·(base + slope·(log p + h)) of groups ≥ 1 groups of 16 to d.")
	count, d, p := n.arg("groups"), n.arg("d"), n.arg("p")
	base, slope, h := n.broadcast("base"), n.broadcast("slope"), n.broadcast("h")
	k := n.with(logNames...)
	n.label("loop")
	for i := range neonGroup {
		x, l := n.load(in(p, i)), n.fresh()
		n.max(x, k.k("smallest"), l)
		l = k.log(l)
		n.add(h, l, l)
		n.fusedScale(base, slope, l)
		n.mul(x, l, l)
		n.store(l, in(d, i))
	}
	n.line("ADD $%d, %s", group, p)
	n.line("ADD $%d, %s", group, d)
	n.line("SUBS $1, %s", count)
	n.jump("BNE", "loop")
	n.finish()
}

// sigmoids follows [sigmoids], two vectors at a time.
func (n *neon) sigmoids(k *lanewise, g string, first int) []Op {
	xs := make([]Op, 2)
	for i := range xs {
		xs[i] = n.load(in(g, first+i))
		k.beginSigmoid(xs[i])
	}
	scale, q := k.expm1Core(xs...)
	for i := range xs {
		xs[i] = k.finishSigmoid(scale[i], q[i])
	}
	return xs
}

// genSwiGLUNEON follows [genSwiGLU] and [genSwiGLUGrad].
func genSwiGLUNEON() {
	names := append([]string{"one", "expMin", "expMax"}, sigmoidNames...)
	n := newNEON("swiGLU", "func(groups int, gate, up, out *float32)",
		"writes (gate·σ(gate))·up of groups ≥ 1 groups of 16 to out.")
	count, g, u, out := n.arg("groups"), n.arg("gate"), n.arg("up"), n.arg("out")
	k := n.with(names...)
	n.label("loop")
	for first := 0; first < neonGroup; first += 2 {
		for i, s := range n.sigmoids(k, g, first) {
			n.mul(n.load(in(g, first+i)), s, s)
			n.mul(n.load(in(u, first+i)), s, s)
			n.store(s, in(out, first+i))
		}
	}
	for _, p := range []string{g, u, out} {
		n.line("ADD $%d, %s", group, p)
	}
	n.line("SUBS $1, %s", count)
	n.jump("BNE", "loop")
	n.finish()

	n = newNEON("swiGLUGrad", "func(groups int, gate, up, d *float32)",
		"overwrites gate and up, groups ≥ 1 groups of 16, with their gradients; d is that of swiGLU's result.")
	count, g, u = n.arg("groups"), n.arg("gate"), n.arg("up")
	d := n.arg("d")
	k = n.with(names...)
	n.label("loop")
	for first := 0; first < neonGroup; first += 2 {
		for i, s := range n.sigmoids(k, g, first) {
			x, dy := n.load(in(g, first+i)), n.load(in(d, first+i))
			dg, slope := n.fresh(), n.fresh()
			n.mul(n.load(in(u, first+i)), dy, dg)
			n.mul(s, dg, dg)
			n.sub(s, k.k("one"), slope)
			n.fusedScale(k.k("one"), x, slope)
			n.mul(slope, dg, dg)
			n.mul(x, s, s)
			n.mul(dy, s, s)
			n.store(s, in(u, first+i))
			n.store(dg, in(g, first+i))
		}
	}
	for _, p := range []string{g, u, d} {
		n.line("ADD $%d, %s", group, p)
	}
	n.line("SUBS $1, %s", count)
	n.jump("BNE", "loop")
	n.finish()
}
