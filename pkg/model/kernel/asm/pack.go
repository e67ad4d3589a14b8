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
	genPackStrips()
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

// genPackStrips copies a block of a transposed matrix as the strips of 6 rows that tiles read.
func genPackStrips() {
	function("packStripsAVX2", "func(kb, strips int, a *float32, lda int, to *float32, strip int)",
		"copies kb ≥ 1 rows of 6·strips numbers, lda bytes apart, as strips ≥ 1 strips, strip bytes apart, of kb times",
		"6 numbers.")
	kb, a, lda, to, strip := arg("kb"), arg("a"), arg("lda"), arg("to"), arg("strip")
	Label("row")
	n, from, at := arg("strips"), copyOf(a), copyOf(to)
	Label("strip")
	four, two := XMM(), XMM()
	VMOVUPS(Mem{Base: from}, four)
	VMOVSD(Mem{Base: from, Disp: 16}, two)
	VMOVUPS(four, Mem{Base: at})
	VMOVSD(two, Mem{Base: at, Disp: 16})
	ADDQ(Imm(24), from)
	ADDQ(strip, at)
	DECQ(n)
	JNZ(LabelRef("strip"))
	ADDQ(lda, a)
	ADDQ(Imm(24), to)
	DECQ(kb)
	JNZ(LabelRef("row"))
	RET()
}
