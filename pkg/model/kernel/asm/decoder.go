package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The kernels of a decoder. Those for AVX2 alone wait for memory and fuse nothing, as in
// vec.go; SwiGLU has an exponential and a division for each number.
func genDecoder() {
	genNormScale()
	genDot3()
	genDotGrad()
	genNormInputGrad()
	for _, width := range []int{4, 1} {
		genNormWeightGrad(width)
	}
	genRotate()
	for _, v := range isas {
		genSwiGLU(v)
		genSwiGLUGrad(v)
	}
}

// advance moves pointers on by a number of bytes.
func advance(by int, ps ...reg.GPVirtual) {
	for _, p := range ps {
		ADDQ(Imm(uint64(by)), p)
	}
}

func genNormScale() {
	v := avx2
	function("normScaleAVX2", "func(vecs int, y, x, w *float32, s float32)",
		"writes (s·x)·w of vecs ≥ 1 vectors of 8 to y.")
	n, y, x, w, s := arg("vecs"), arg("y"), arg("x"), arg("w"), v.broadcast("s")
	Label("loop")
	r := v.reg()
	VMULPS(Mem{Base: x}, s, r)
	VMULPS(Mem{Base: w}, r, r)
	VMOVUPS(r, Mem{Base: y})
	advance(32, x, w, y)
	DECQ(n)
	JNZ(LabelRef("loop"))
	finish()
}

// sums64 loads the 16 partial sums of a float64 sum and returns how to store them.
func sums64(v isa) (acc []reg.VecVirtual, store func()) {
	sums := arg("sums")
	acc = v.regs(4)
	for i, r := range acc {
		VMOVUPD(Mem{Base: sums, Disp: 32 * i}, r)
	}
	return acc, func() {
		for i, r := range acc {
			VMOVUPD(r, Mem{Base: sums, Disp: 32 * i})
		}
	}
}

// genDot3: the product of two float32 is exact in float64, that of three is not.
func genDot3() {
	v := avx2
	function("dot3AVX2", "func(groups int, a, b, c *float32, sums *float64)",
		"adds (a·b)·c of groups ≥ 1 groups of 16 to the 16 sums.")
	n, a, b, c := arg("groups"), arg("a"), arg("b"), arg("c")
	acc, store := sums64(v)
	Label("loop")
	for i, r := range acc {
		x, y := v.reg(), v.reg()
		VCVTPS2PD(Mem{Base: a, Disp: 16 * i}, x)
		VCVTPS2PD(Mem{Base: b, Disp: 16 * i}, y)
		VMULPD(y, x, x)
		VCVTPS2PD(Mem{Base: c, Disp: 16 * i}, y)
		VMULPD(y, x, x)
		VADDPD(x, r, r)
	}
	advance(64, a, b, c)
	DECQ(n)
	JNZ(LabelRef("loop"))
	store()
	finish()
}

// genDotGrad makes the two kernels of the gradient of softmax.
func genDotGrad() {
	v := avx2
	function("dotAVX2", "func(groups int, a, b *float32, sums *float64)",
		"adds a·b of groups ≥ 1 groups of 16 to the 16 sums.")
	n, a, b := arg("groups"), arg("a"), arg("b")
	acc, store := sums64(v)
	Label("loop")
	for i, r := range acc {
		x, y := v.reg(), v.reg()
		VCVTPS2PD(Mem{Base: a, Disp: 16 * i}, x)
		VCVTPS2PD(Mem{Base: b, Disp: 16 * i}, y)
		VFMADD231PD(y, x, r) // the product is exact
	}
	advance(64, a, b)
	DECQ(n)
	JNZ(LabelRef("loop"))
	store()
	finish()

	function("softmaxGradAVX2", "func(vecs int, p, d *float32, dot, scale float32)",
		"writes (p·(d-dot))·scale of vecs ≥ 1 vectors of 8 to d.")
	vecs, p, d, dot, scale := arg("vecs"), arg("p"), arg("d"), v.broadcast("dot"), v.broadcast("scale")
	Label("loop")
	x := v.load(Mem{Base: d})
	VSUBPS(dot, x, x)
	VMULPS(Mem{Base: p}, x, x)
	VMULPS(scale, x, x)
	VMOVUPS(x, Mem{Base: d})
	advance(32, p, d)
	DECQ(vecs)
	JNZ(LabelRef("loop"))
	finish()
}

func genNormInputGrad() {
	v := avx2
	function("normInputGradAVX2", "func(vecs int, x, w, dy, dx *float32, rstd, c float32)",
		"adds rstd·(dy·w - x·c) of vecs ≥ 1 vectors of 8 to dx.")
	n, x, w, dy, dx := arg("vecs"), arg("x"), arg("w"), arg("dy"), arg("dx")
	rstd, c := v.broadcast("rstd"), v.broadcast("c")
	Label("loop")
	g, t := v.load(Mem{Base: dy}), v.reg()
	VMULPS(Mem{Base: w}, g, g)
	VMULPS(Mem{Base: x}, c, t)
	VSUBPS(t, g, g)
	VMULPS(rstd, g, g)
	VADDPS(Mem{Base: dx}, g, g)
	VMOVUPS(g, Mem{Base: dx})
	advance(32, x, w, dy, dx)
	DECQ(n)
	JNZ(LabelRef("loop"))
	finish()
}

// genNormWeightGrad keeps the sums of width vectors of columns in registers.
func genNormWeightGrad(width int) {
	v := avx2
	function(fmt.Sprintf("normWeightGrad%dAVX2", 8*width), "func(rows int, x, rstd, dy *float32, ld int, dw *float32)",
		fmt.Sprintf("adds dy·(x·rstd) of rows ≥ 1 rows of %d columns, ld bytes apart, to dw.", 8*width))
	rows, x, rstd, dy, ld, dw := arg("rows"), arg("x"), arg("rstd"), arg("dy"), arg("ld"), arg("dw")
	acc := v.regs(width)
	for i, r := range acc {
		VMOVUPS(Mem{Base: dw, Disp: 32 * i}, r)
	}
	Label("row")
	s := v.reg()
	VBROADCASTSS(Mem{Base: rstd}, s)
	for i, r := range acc {
		t := v.reg()
		VMULPS(Mem{Base: x, Disp: 32 * i}, s, t)
		VMULPS(Mem{Base: dy, Disp: 32 * i}, t, t)
		VADDPS(t, r, r)
	}
	advance(4, rstd)
	ADDQ(ld, x)
	ADDQ(ld, dy)
	DECQ(rows)
	JNZ(LabelRef("row"))
	for i, r := range acc {
		VMOVUPS(r, Mem{Base: dw, Disp: 32 * i})
	}
	finish()
}

// genRotate turns the pairs of the heads of one row.
func genRotate() {
	v := avx2
	function("rotateAVX2", "func(heads, vecs int, x *float32, half int, cos, sin *float32, sign float32)",
		"turns vecs ≥ 1 vectors of 8 pairs of each of heads ≥ 1 heads, the elements of a pair half bytes apart.")
	heads, x, half, sign := arg("heads"), arg("x"), arg("half"), v.broadcast("sign")
	Label("head")
	cos, sin, vecs := arg("cos"), arg("sin"), arg("vecs")
	a := copyOf(x)
	Label("vec")
	c, s := v.load(Mem{Base: cos}), v.reg()
	VMULPS(Mem{Base: sin}, sign, s)
	first, second := v.load(Mem{Base: a}), v.load(Mem{Base: a, Index: half, Scale: 1})
	t, u := v.reg(), v.reg()
	VMULPS(first, s, t)
	VMULPS(second, s, u)
	VMULPS(first, c, first)
	VMULPS(second, c, second)
	VSUBPS(u, first, first)
	VADDPS(t, second, second)
	VMOVUPS(first, Mem{Base: a})
	VMOVUPS(second, Mem{Base: a, Index: half, Scale: 1})
	advance(32, a, cos, sin)
	DECQ(vecs)
	JNZ(LabelRef("vec"))
	LEAQ(Mem{Base: x, Index: half, Scale: 2}, x)
	DECQ(heads)
	JNZ(LabelRef("head"))
	finish()
}

// sigmoids returns σ of the group of 16 numbers at g.
func sigmoids(v isa, k *lanewise, g reg.GPVirtual) []Op {
	xs := make([]Op, group/v.bytes)
	for i := range xs {
		xs[i] = v.load(Mem{Base: g, Disp: i * v.bytes})
		k.beginSigmoid(xs[i])
	}
	scale, q := k.expm1Core(xs...)
	for i := range xs {
		xs[i] = k.finishSigmoid(scale[i], q[i])
	}
	return xs
}

var sigmoidNames = append([]string{"signBit"}, expNames...)

// genSwiGLU: out = (g·σ(g))·u. The assembler reads g as a register, so the arguments have longer names.
func genSwiGLU(v isa) {
	function("swiGLU"+v.name, "func(groups int, gate, up, out *float32)",
		"writes (gate·σ(gate))·up of groups ≥ 1 groups of 16 to out.")
	n, g, u, out := arg("groups"), arg("gate"), arg("up"), arg("out")
	k := v.with([]string{"one", "expMin", "expMax"}, sigmoidNames)
	Label("loop")
	for i, s := range sigmoids(v, k, g) {
		VMULPS(Mem{Base: g, Disp: i * v.bytes}, s, s)
		VMULPS(Mem{Base: u, Disp: i * v.bytes}, s, s)
		VMOVUPS(s, Mem{Base: out, Disp: i * v.bytes})
	}
	advance(group, g, u, out)
	DECQ(n)
	JNZ(LabelRef("loop"))
	finish()
}

// genSwiGLUGrad: du = d·(g·σ), dg = ((d·u)·σ)·(1 + g·(1-σ)).
func genSwiGLUGrad(v isa) {
	function("swiGLUGrad"+v.name, "func(groups int, gate, up, d *float32)",
		"overwrites gate and up, groups ≥ 1 groups of 16, with their gradients; d is that of swiGLU's result.")
	n, g, u, d := arg("groups"), arg("gate"), arg("up"), arg("d")
	k := v.with([]string{"one", "expMin", "expMax"}, sigmoidNames)
	Label("loop")
	for i, s := range sigmoids(v, k, g) {
		at := func(p reg.GPVirtual) Mem { return Mem{Base: p, Disp: i * v.bytes} }
		x, dy := v.load(at(g)), v.load(at(d))
		dg, slope := v.reg(), v.reg()
		VMULPS(at(u), dy, dg)
		VMULPS(s, dg, dg)
		VSUBPS(s, k.held["one"], slope)
		VFMADD213PS(k.held["one"], x, slope)
		VMULPS(slope, dg, dg)
		VMULPS(x, s, s)
		VMULPS(dy, s, s)
		VMOVUPS(s, at(u))
		VMOVUPS(dg, at(g))
	}
	advance(group, g, u, d)
	DECQ(n)
	JNZ(LabelRef("loop"))
	finish()
}
