package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Packing moves numbers and computes nothing, so AVX2 serves both paths.
func genPack() {
	genPackRows()
	genPackTranspose()
}

// genPackRows copies 16 columns of rows that are ldb bytes apart.
func genPackRows() {
	function("packRowsAVX2", "func(rows int, b *float32, ldb int, to *float32)",
		"copies 16 columns of rows ≥ 1 rows, ldb bytes apart, side by side.")
	n, b, ldb, to := arg("rows"), arg("b"), arg("ldb"), arg("to")
	row := func(i int) {
		lo, hi := YMM(), YMM()
		VMOVUPS(Mem{Base: b}, lo)
		VMOVUPS(Mem{Base: b, Disp: 32}, hi)
		VMOVUPS(lo, Mem{Base: to, Disp: 64 * i})
		VMOVUPS(hi, Mem{Base: to, Disp: 64*i + 32})
		ADDQ(ldb, b)
	}
	const unroll = 4
	SUBQ(Imm(unroll), n)
	JL(LabelRef("rest"))
	Label("loop")
	for i := range unroll {
		row(i)
	}
	ADDQ(U32(64*unroll), to)
	SUBQ(Imm(unroll), n)
	JGE(LabelRef("loop"))
	Label("rest")
	ADDQ(Imm(unroll), n)
	JZ(LabelRef("done"))
	Label("one")
	row(0)
	ADDQ(Imm(64), to)
	DECQ(n)
	JNZ(LabelRef("one"))
	Label("done")
	finish()
}

// genPackTranspose turns 8 rows into 8 columns of a panel, 8×8 numbers at a
// time. Loading the rows i and i+4 into the two halves of a vector leaves only
// shuffles within halves.
func genPackTranspose() {
	function("packTransposeAVX2", "func(blocks int, b *float32, ldb int, to *float32)",
		"writes 8 rows of 8·blocks numbers, ldb bytes apart, as 8 columns of a panel; blocks ≥ 1.")
	blocks, b, ldb, to := arg("blocks"), arg("b"), arg("ldb"), arg("to")
	in := newRows(b, ldb, 8)
	Label("block")
	for half := range 2 { // columns 0..3 and 4..7 of the block
		var r [4]reg.VecVirtual
		for i := range r {
			lo, both := XMM(), YMM()
			VMOVUPS(in.at(i, 16*half), lo)
			VINSERTF128(Imm(1), in.at(i+4, 16*half), lo.AsY(), both)
			r[i] = both
		}
		a, c, d, e := YMM(), YMM(), YMM(), YMM()
		VUNPCKLPS(r[1], r[0], a)
		VUNPCKHPS(r[1], r[0], c)
		VUNPCKLPS(r[3], r[2], d)
		VUNPCKHPS(r[3], r[2], e)
		for i, pair := range [2][2]reg.VecVirtual{{a, d}, {c, e}} {
			lo, hi := YMM(), YMM()
			VUNPCKLPD(pair[1], pair[0], lo)
			VUNPCKHPD(pair[1], pair[0], hi)
			VMOVUPS(lo, Mem{Base: to, Disp: 64 * (4*half + 2*i)})
			VMOVUPS(hi, Mem{Base: to, Disp: 64 * (4*half + 2*i + 1)})
		}
	}
	in.step(Imm(32))
	ADDQ(U32(8*64), to)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	finish()
}
