package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	. "github.com/mmcloughlin/avo/operand"
)

// What waits for memory: see vec.go, decoder.go and pack.go. A vector of 8 is two of NEON's.

// genVecNEON follows [genVec].
func genVecNEON() {
	n := newNEON("addBiasVecs", "func(rows, vecs int, x *float32, ldx int, bias *float32)",
		"adds vecs ≥ 1 vectors of 8 to each of rows ≥ 1 rows, ldx bytes apart.")
	rows, x, ldx := n.arg("rows"), n.arg("x"), n.arg("ldx")
	at, vecs, bias := n.general(), n.general(), n.general()
	n.label("row")
	n.line("MOVD %s, %s", x, at)
	n.line("MOVD %s, %s", n.parameter("vecs"), vecs)
	n.line("MOVD %s, %s", n.parameter("bias"), bias)
	n.label("vec")
	n.store8(n.sum8(n.load8(at, 0), n.load8(bias, 0)), at, 0)
	n.advance(32, at, bias)
	n.repeat("vec", vecs)
	n.line("ADD %s, %s", ldx, x)
	n.repeat("row", rows)
	n.finish()

	for _, width := range []int{8, 4, 1} {
		genColSumNEON(width)
	}
	elementwise("scaleTo", "func(vecs int, d, x *float32, s float32)", "writes s·x of vecs ≥ 1 vectors of 8 to d.",
		"d", "x", "s", func(n *neon, x, s []Op) Op { return n.product(x[0], s[0]) })
	elementwise("axpy", "func(vecs int, alpha float32, x, y *float32)", "adds alpha·x to y, vecs ≥ 1 vectors of 8.",
		"y", "x y", "alpha", func(n *neon, x, s []Op) Op { return n.sum(n.product(x[0], s[0]), x[1]) })
	genScatterAddNEON()
	sumUp("sumSquares", "func(groups int, x *float32, sums *float64)",
		"adds the squares of groups ≥ 1 groups of 16 to the 16 sums.", "x", func(n *neon, x []Op, sum Op) {
			n.line("VFMLA V%d.D2, V%d.D2, V%d.D2", x[0], x[0], sum)
		})
	genAdamWNEON()
}

// genDecoderNEON follows [genDecoder].
func genDecoderNEON() {
	elementwise("normScale", "func(vecs int, y, x, w *float32, s float32)",
		"writes (s·x)·w of vecs ≥ 1 vectors of 8 to y.",
		"y", "x w", "s", func(n *neon, x, s []Op) Op { return n.product(n.product(x[0], s[0]), x[1]) })
	sumUp("dot3", "func(groups int, a, b, c *float32, sums *float64)",
		"adds (a·b)·c of groups ≥ 1 groups of 16 to the 16 sums.", "a b c", func(n *neon, x []Op, sum Op) {
			n.word("FMUL 2D", x[0], x[1], x[0])
			n.word("FMUL 2D", x[0], x[2], x[0])
			n.word("FADD 2D", x[0], sum, sum)
		})
	sumUp("dot", "func(groups int, a, b *float32, sums *float64)",
		"adds a·b of groups ≥ 1 groups of 16 to the 16 sums.", "a b", func(n *neon, x []Op, sum Op) {
			n.line("VFMLA V%d.D2, V%d.D2, V%d.D2", x[0], x[1], sum)
		})
	elementwise("softmaxGrad", "func(vecs int, p, d *float32, dot, scale float32)",
		"writes (p·(d-dot))·scale of vecs ≥ 1 vectors of 8 to d.",
		"d", "p d", "dot scale", func(n *neon, x, s []Op) Op {
			return n.product(n.product(n.difference(x[1], s[0]), x[0]), s[1])
		})
	elementwise("normInputGrad", "func(vecs int, x, w, dy, dx *float32, rstd, c float32)",
		"adds rstd·(dy·w - x·c) of vecs ≥ 1 vectors of 8 to dx.",
		"dx", "x w dy dx", "rstd c", func(n *neon, x, s []Op) Op {
			g := n.difference(n.product(x[2], x[1]), n.product(x[0], s[1]))
			return n.sum(n.product(g, s[0]), x[3])
		})
	for _, width := range []int{4, 1} {
		genNormWeightGradNEON(width)
	}
	genRotateNEON()
}

func (n *neon) product(a, b Op) Op {
	d := n.fresh()
	n.mul(b, a, d)
	return d
}

func (n *neon) sum(a, b Op) Op {
	d := n.fresh()
	n.add(b, a, d)
	return d
}

func (n *neon) difference(a, b Op) Op {
	d := n.fresh()
	n.sub(b, a, d)
	return d
}

func (n *neon) sum8(a, b [2]Op) [2]Op { return [2]Op{n.sum(a[0], b[0]), n.sum(a[1], b[1])} }

// load8 and store8 move 8 numbers.
func (n *neon) load8(p string, disp int) [2]Op {
	x := [2]Op{n.fresh(), n.fresh()}
	n.line("FLDPQ %d(%s), (F%d, F%d)", disp, p, x[0], x[1])
	return x
}

func (n *neon) store8(x [2]Op, p string, disp int) {
	n.line("FSTPQ (F%d, F%d), %d(%s)", x[0], x[1], disp, p)
}

// spread loads a number into every lane.
func (n *neon) spread(p string, disp int) Op {
	v := n.fresh()
	n.line("FMOVS %d(%s), F%d", disp, p, v)
	n.line("VDUP V%d.S[0], V%d.S4", v, v)
	return v
}

func (n *neon) advance(by int, ps ...string) {
	for _, p := range ps {
		n.line("ADD $%d, %s", by, p)
	}
}

// repeat jumps back as often as count says.
func (n *neon) repeat(label, count string) {
	n.line("SUBS $1, %s", count)
	n.jump("BNE", label)
}

// elementwise writes a function that computes each number at out from those at the pointers of from and
// from scalars.
func elementwise(name, signature, does, out, from, scalars string, f func(n *neon, x, s []Op) Op) {
	n := newNEON(name+"Vecs", signature, does)
	vecs, pointers := n.arg("vecs"), map[string]string{}
	for _, p := range strings.Fields(from + " " + out) {
		if pointers[p] == "" {
			pointers[p] = n.arg(p)
		}
	}
	var s []Op
	for _, p := range strings.Fields(scalars) {
		s = append(s, n.broadcast(p))
	}
	n.label("loop")
	var x [2][]Op
	for _, p := range strings.Fields(from) {
		for i, v := range n.load8(pointers[p], 0) {
			x[i] = append(x[i], v)
		}
	}
	n.store8([2]Op{f(n, x[0], s), f(n, x[1], s)}, pointers[out], 0)
	n.advance(32, slices.Sorted(maps.Values(pointers))...)
	n.repeat("loop", vecs)
	n.finish()
}

// sumUp writes a function that adds to 16 sums in float64; add gets two numbers of each pointer of from.
func sumUp(name, signature, does, from string, add func(n *neon, x []Op, sum Op)) {
	n := newNEON(name+"Vecs", signature, does)
	groups, sums := n.arg("groups"), n.arg("sums")
	var ps []string
	for _, p := range strings.Fields(from) {
		ps = append(ps, n.arg(p))
	}
	var acc [8]Op
	for i := range acc {
		acc[i] = n.load(in(sums, i))
	}
	n.label("loop")
	for i := 0; i < len(acc); i += 2 {
		var low, high []Op
		for _, p := range ps {
			x, lo, hi := n.load(in(p, i/2)), n.fresh(), n.fresh()
			n.unary("FCVTL", x, lo)
			n.unary("FCVTL2", x, hi)
			low, high = append(low, lo), append(high, hi)
		}
		add(n, low, acc[i])
		add(n, high, acc[i+1])
	}
	n.advance(64, ps...)
	n.repeat("loop", groups)
	for i, r := range acc {
		n.store(r, in(sums, i))
	}
	n.finish()
}

// genColSumNEON keeps the sums of width vectors of 8 columns in registers.
func genColSumNEON(width int) {
	n := newNEON(fmt.Sprintf("colSum%dVecs", 8*width), "func(rows int, x *float32, ldx int, out *float32)",
		fmt.Sprintf("adds rows ≥ 1 rows of %d columns, ldx bytes apart, to out.", 8*width))
	rows, x, ldx, out := n.arg("rows"), n.arg("x"), n.arg("ldx"), n.arg("out")
	acc := make([][2]Op, width)
	for i := range acc {
		acc[i] = n.load8(out, 32*i)
	}
	n.label("row")
	for i, r := range acc {
		for j, v := range n.load8(x, 32*i) {
			n.add(v, r[j], r[j])
		}
	}
	n.line("ADD %s, %s", ldx, x)
	n.repeat("row", rows)
	for i, r := range acc {
		n.store8(r, out, 32*i)
	}
	n.finish()
}

func genScatterAddNEON() {
	n := newNEON("scatterAddVecs",
		"func(rows, vecs int, ids *int, x *float32, ldx int, out *float32, ldo int)",
		"adds vecs ≥ 1 vectors of 8 of each of rows ≥ 1 rows of x, ldx bytes apart, to row ids[i] of",
		"out, ldo bytes apart.")
	rows, ids, x, ldx := n.arg("rows"), n.arg("ids"), n.arg("x"), n.arg("ldx")
	out, ldo := n.arg("out"), n.arg("ldo")
	from, to, vecs := n.general(), n.general(), n.general()
	n.label("row")
	n.line("MOVD.P 8(%s), %s", ids, to)
	n.line("MADD %s, %s, %s, %s", ldo, out, to, to)
	n.line("MOVD %s, %s", x, from)
	n.line("MOVD %s, %s", n.parameter("vecs"), vecs)
	n.label("vec")
	n.store8(n.sum8(n.load8(from, 0), n.load8(to, 0)), to, 0)
	n.advance(32, from, to)
	n.repeat("vec", vecs)
	n.line("ADD %s, %s", ldx, x)
	n.repeat("row", rows)
	n.finish()
}

// genAdamWNEON follows [genAdamW].
func genAdamWNEON() {
	n := newNEON("adamWVecs", "func(vecs int, w, grad, m, v *float32, c *float32)",
		"updates vecs ≥ 1 vectors of 8 weights.")
	vecs, w, grad, m, v, c := n.arg("vecs"), n.arg("w"), n.arg("grad"), n.arg("m"), n.arg("v"), n.arg("c")
	var k [9]Op
	for i := range k {
		k[i] = n.spread(c, 4*i)
	}
	decay, beta1, rest1, beta2, rest2, step, invBias, eps, scale := k[0], k[1], k[2], k[3], k[4], k[5], k[6], k[7], k[8]
	n.label("loop")
	ws, gs, ms, vs := n.load8(w, 0), n.load8(grad, 0), n.load8(m, 0), n.load8(v, 0)
	for i := range 2 {
		g := n.product(gs[i], scale)
		ms[i] = n.sum(n.product(ms[i], beta1), n.product(g, rest1))
		vs[i] = n.sum(n.product(vs[i], beta2), n.product(n.product(g, g), rest2))
	}
	n.store8(ms, m, 0)
	n.store8(vs, v, 0)
	for i := range 2 {
		root, by := n.fresh(), n.product(ms[i], step)
		n.unary("FSQRT", vs[i], root)
		n.div(n.sum(n.product(root, invBias), eps), by, by)
		ws[i] = n.difference(n.product(ws[i], decay), by)
	}
	n.store8(ws, w, 0)
	n.advance(32, w, grad, m, v)
	n.repeat("loop", vecs)
	n.finish()
}

func genNormWeightGradNEON(width int) {
	n := newNEON(fmt.Sprintf("normWeightGrad%dVecs", 8*width),
		"func(rows int, x, rstd, dy *float32, ld int, dw *float32)",
		fmt.Sprintf("adds dy·(x·rstd) of rows ≥ 1 rows of %d columns, ld bytes apart, to dw.", 8*width))
	rows, x, rstd, dy, ld, dw := n.arg("rows"), n.arg("x"), n.arg("rstd"), n.arg("dy"), n.arg("ld"), n.arg("dw")
	acc := make([][2]Op, width)
	for i := range acc {
		acc[i] = n.load8(dw, 32*i)
	}
	n.label("row")
	s := n.spread(rstd, 0)
	for i, r := range acc {
		xs, dys := n.load8(x, 32*i), n.load8(dy, 32*i)
		for j := range r {
			n.add(n.product(n.product(xs[j], s), dys[j]), r[j], r[j])
		}
	}
	n.advance(4, rstd)
	n.line("ADD %s, %s", ld, x)
	n.line("ADD %s, %s", ld, dy)
	n.repeat("row", rows)
	for i, r := range acc {
		n.store8(r, dw, 32*i)
	}
	n.finish()
}

func genRotateNEON() {
	n := newNEON("rotateVecs", "func(heads, vecs int, x *float32, half int, cos, sin *float32, sign float32)",
		"turns vecs ≥ 1 vectors of 8 pairs of each of heads ≥ 1 heads, the elements of a pair half bytes apart.")
	heads, x, half, sign := n.arg("heads"), n.arg("x"), n.arg("half"), n.broadcast("sign")
	cos, sin, vecs, a, b := n.general(), n.general(), n.general(), n.general(), n.general()
	n.label("head")
	n.line("MOVD %s, %s", n.parameter("cos"), cos)
	n.line("MOVD %s, %s", n.parameter("sin"), sin)
	n.line("MOVD %s, %s", n.parameter("vecs"), vecs)
	n.line("MOVD %s, %s", x, a)
	n.line("ADD %s, %s, %s", half, x, b)
	n.line("ADD %s<<1, %s, %s", half, x, x)
	n.label("vec")
	cs, ss, first, second := n.load8(cos, 0), n.load8(sin, 0), n.load8(a, 0), n.load8(b, 0)
	for i, c := range cs {
		s, u, v := n.product(ss[i], sign), first[i], second[i]
		first[i] = n.difference(n.product(u, c), n.product(v, s))
		second[i] = n.sum(n.product(v, c), n.product(u, s))
	}
	n.store8(first, a, 0)
	n.store8(second, b, 0)
	n.advance(32, a, b, cos, sin)
	n.repeat("vec", vecs)
	n.repeat("head", heads)
	n.finish()
}

// genPackNEON follows [genPack].
func genPackNEON() {
	n := newNEON("packRowsVecs", "func(rows int, b *float32, ldb int, to *float32)",
		"copies 16 columns of rows ≥ 1 rows, ldb bytes apart, side by side.")
	rows, b, ldb, to := n.arg("rows"), n.arg("b"), n.arg("ldb"), n.arg("to")
	n.label("loop")
	low, high := n.load8(b, 0), n.load8(b, 32)
	n.store8(low, to, 0)
	n.store8(high, to, 32)
	n.line("ADD %s, %s", ldb, b)
	n.advance(64, to)
	n.repeat("loop", rows)
	n.finish()

	// 4 numbers of each row at a time: the 4×4 of rows 0 to 3 and those of rows 4 to 7 are transposed.
	n = newNEON("packTransposeVecs", "func(blocks int, b *float32, ldb int, to *float32)",
		"writes 8 rows of 8·blocks numbers, ldb bytes apart, as 8 columns of a panel; blocks ≥ 1.")
	blocks, ldb, to := n.arg("blocks"), n.arg("ldb"), n.arg("to")
	var row [8]string
	for i := range row {
		if i == 0 {
			row[i] = n.arg("b")
			continue
		}
		row[i] = n.general()
		n.line("ADD %s, %s, %s", ldb, row[i-1], row[i])
	}
	n.line("LSL $1, %s", blocks)
	n.label("block")
	var columns [2][4]Op
	for half := range columns {
		var r [4]Op
		for i := range r {
			r[i] = n.fresh()
			n.line("FMOVQ.P 16(%s), F%d", row[4*half+i], r[i])
		}
		turn := func(instruction, lanes string, x, y Op) Op {
			d := n.fresh()
			n.line(instruction+" V%d."+lanes+", V%d."+lanes+", V%d."+lanes, y, x, d)
			return d
		}
		a, c := turn("VTRN1", "S4", r[0], r[1]), turn("VTRN2", "S4", r[0], r[1])
		d, e := turn("VTRN1", "S4", r[2], r[3]), turn("VTRN2", "S4", r[2], r[3])
		columns[half] = [4]Op{turn("VTRN1", "D2", a, d), turn("VTRN1", "D2", c, e),
			turn("VTRN2", "D2", a, d), turn("VTRN2", "D2", c, e)}
	}
	for i := range 4 {
		n.store8([2]Op{columns[0][i], columns[1][i]}, to, 64*i)
	}
	n.advance(4*64, to)
	n.repeat("block", blocks)
	n.finish()

	n = newNEON("packStripsVecs", "func(kb, strips int, a *float32, lda int, to *float32, strip int)",
		"copies kb ≥ 1 rows of 6·strips numbers, lda bytes apart, as strips ≥ 1 strips, strip bytes apart, of kb times",
		"6 numbers.")
	kb, a, lda, strip := n.arg("kb"), n.arg("a"), n.arg("lda"), n.arg("strip")
	to = n.arg("to")
	from, at, strips := n.general(), n.general(), n.general()
	n.label("row")
	n.line("MOVD %s, %s", a, from)
	n.line("MOVD %s, %s", to, at)
	n.line("MOVD %s, %s", n.parameter("strips"), strips)
	n.label("strip")
	four, two := n.load(in(from, 0)), n.fresh()
	n.line("FMOVD 16(%s), F%d", from, two)
	n.store(four, in(at, 0))
	n.line("FMOVD F%d, 16(%s)", two, at)
	n.advance(24, from)
	n.line("ADD %s, %s", strip, at)
	n.repeat("strip", strips)
	n.line("ADD %s, %s", lda, a)
	n.advance(24, to)
	n.repeat("row", kb)
	n.finish()
}
