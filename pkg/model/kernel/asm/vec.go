package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// These kernels wait for memory, so AVX2 serves both paths. None fuses a
// multiplication with an addition: the portable version has the same bits.
func genVec() {
	genAddBias()
	for _, width := range []int{8, 4, 1} {
		genColSum(width)
	}
	genScaleTo()
	genAxpy()
	genScatterAdd()
	genSumSquares()
	genAdamW()
}

func genAddBias() {
	v := avx2
	function("addBiasAVX2", "func(rows, vecs int, x *float32, ldx int, bias *float32)",
		"adds vecs ≥ 1 vectors of 8 to each of rows ≥ 1 rows, ldx bytes apart.")
	rows, x, ldx, bias := arg("rows"), arg("x"), arg("ldx"), arg("bias")
	size := arg("vecs")
	SHLQ(Imm(5), size)
	ADDQ(size, bias) // the ends: offsets run from -size to 0
	ADDQ(size, x)
	NEGQ(size)
	Label("row")
	at := copyOf(size)
	Label("vec")
	s := v.load(Mem{Base: x, Index: at, Scale: 1})
	VADDPS(Mem{Base: bias, Index: at, Scale: 1}, s, s)
	VMOVUPS(s, Mem{Base: x, Index: at, Scale: 1})
	ADDQ(Imm(32), at)
	JNZ(LabelRef("vec"))
	ADDQ(ldx, x)
	DECQ(rows)
	JNZ(LabelRef("row"))
	finish()
}

// genColSum keeps the sums of width vectors of columns in registers.
func genColSum(width int) {
	v := avx2
	function(fmt.Sprintf("colSum%dAVX2", 8*width), "func(rows int, x *float32, ldx int, out *float32)",
		fmt.Sprintf("adds rows ≥ 1 rows of %d columns, ldx bytes apart, to out.", 8*width))
	rows, x, ldx, out := arg("rows"), arg("x"), arg("ldx"), arg("out")
	acc := v.regs(width)
	for i, r := range acc {
		VMOVUPS(Mem{Base: out, Disp: 32 * i}, r)
	}
	Label("row")
	for i, r := range acc {
		VADDPS(Mem{Base: x, Disp: 32 * i}, r, r)
	}
	ADDQ(ldx, x)
	DECQ(rows)
	JNZ(LabelRef("row"))
	for i, r := range acc {
		VMOVUPS(r, Mem{Base: out, Disp: 32 * i})
	}
	finish()
}

func genScaleTo() {
	v := avx2
	function("scaleToAVX2", "func(vecs int, d, x *float32, s float32)",
		"writes s·x of vecs ≥ 1 vectors of 8 to d.")
	n, d, x, s := arg("vecs"), arg("d"), arg("x"), v.broadcast("s")
	Label("loop")
	r := v.reg()
	VMULPS(Mem{Base: x}, s, r)
	VMOVUPS(r, Mem{Base: d})
	ADDQ(Imm(32), x)
	ADDQ(Imm(32), d)
	DECQ(n)
	JNZ(LabelRef("loop"))
	finish()
}

func genAxpy() {
	v := avx2
	function("axpyAVX2", "func(vecs int, alpha float32, x, y *float32)",
		"adds alpha·x to y, vecs ≥ 1 vectors of 8.")
	n, x, y, alpha := arg("vecs"), arg("x"), arg("y"), v.broadcast("alpha")
	Label("loop")
	r := v.reg()
	VMULPS(Mem{Base: x}, alpha, r)
	VADDPS(Mem{Base: y}, r, r)
	VMOVUPS(r, Mem{Base: y})
	ADDQ(Imm(32), x)
	ADDQ(Imm(32), y)
	DECQ(n)
	JNZ(LabelRef("loop"))
	finish()
}

// genScatterAdd adds rows to the rows of out that ids names, in order. Rows of
// out may repeat, so each is read back and written every time: two loads, an
// addition and a store for each vector.
func genScatterAdd() {
	v := avx2
	function("scatterAddAVX2", "func(rows, vecs int, ids *int, x *float32, ldx int, out *float32, ldo int)",
		"adds vecs ≥ 1 vectors of 8 of each of rows ≥ 1 rows of x, ldx bytes apart, to row ids[i] of "+
			"out, ldo bytes apart.")
	rows, ids, x, ldx, out, ldo := arg("rows"), arg("ids"), arg("x"), arg("ldx"), arg("out"), arg("ldo")
	size := arg("vecs")
	SHLQ(Imm(5), size)
	ADDQ(size, x) // the ends: offsets run from -size to 0
	ADDQ(size, out)
	NEGQ(size)
	Label("row")
	to := GP64()
	MOVQ(Mem{Base: ids}, to)
	IMULQ(ldo, to)
	ADDQ(out, to)
	at := copyOf(size)
	Label("vec")
	r := v.reg()
	VMOVUPS(Mem{Base: x, Index: at, Scale: 1}, r)
	VADDPS(Mem{Base: to, Index: at, Scale: 1}, r, r)
	VMOVUPS(r, Mem{Base: to, Index: at, Scale: 1})
	ADDQ(Imm(32), at)
	JNZ(LabelRef("vec"))
	ADDQ(Imm(8), ids)
	ADDQ(ldx, x)
	DECQ(rows)
	JNZ(LabelRef("row"))
	finish()
}

// genSumSquares has 16 partial sums in float64. The square of a float32 is
// exact in float64, so here fusing changes nothing.
func genSumSquares() {
	v := avx2
	function("sumSquaresAVX2", "func(groups int, x *float32, sums *float64)",
		"adds the squares of groups ≥ 1 groups of 16 to the 16 sums.")
	n, x, sums := arg("groups"), arg("x"), arg("sums")
	acc := v.regs(4)
	for i, r := range acc {
		VMOVUPD(Mem{Base: sums, Disp: 32 * i}, r)
	}
	Label("loop")
	for i, r := range acc {
		d := v.reg()
		VCVTPS2PD(Mem{Base: x, Disp: 16 * i}, d)
		VFMADD231PD(d, d, r)
	}
	ADDQ(Imm(64), x)
	DECQ(n)
	JNZ(LabelRef("loop"))
	for i, r := range acc {
		VMOVUPD(r, Mem{Base: sums, Disp: 32 * i})
	}
	finish()
}

// genAdamW reads the coefficients in the order of adamCoefficients.
func genAdamW() {
	v := avx2
	function("adamWAVX2", "func(vecs int, w, grad, m, v *float32, c *float32)",
		"updates vecs ≥ 1 vectors of 8 weights.")
	n, w, g, m, vv, c := arg("vecs"), arg("w"), arg("grad"), arg("m"), arg("v"), arg("c")
	k := v.regs(9)
	for i, r := range k {
		VBROADCASTSS(Mem{Base: c, Disp: 4 * i}, r)
	}
	decay, beta1, rest1, beta2, rest2, step, invBias, eps, scale := k[0], k[1], k[2], k[3], k[4], k[5], k[6], k[7], k[8]
	Label("loop")
	gi := v.reg()
	VMULPS(Mem{Base: g}, scale, gi)
	mi, t := v.reg(), v.reg()
	VMULPS(Mem{Base: m}, beta1, mi)
	VMULPS(gi, rest1, t)
	VADDPS(t, mi, mi)
	VMOVUPS(mi, Mem{Base: m})
	vi := v.reg()
	VMULPS(gi, gi, gi)
	VMULPS(Mem{Base: vv}, beta2, vi)
	VMULPS(gi, rest2, gi)
	VADDPS(gi, vi, vi)
	VMOVUPS(vi, Mem{Base: vv})
	VSQRTPS(vi, vi)
	VMULPS(vi, invBias, vi)
	VADDPS(vi, eps, vi)
	VMULPS(mi, step, mi)
	VDIVPS(vi, mi, mi)
	wi := v.reg()
	VMULPS(Mem{Base: w}, decay, wi)
	VSUBPS(mi, wi, wi)
	VMOVUPS(wi, Mem{Base: w})
	for _, p := range []Op{w, g, m, vv} {
		ADDQ(Imm(32), p)
	}
	DECQ(n)
	JNZ(LabelRef("loop"))
	finish()
}
