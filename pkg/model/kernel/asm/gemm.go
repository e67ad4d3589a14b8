package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A panel of packed B is 16 columns wide: two AVX2 vectors or one of AVX-512.
const panelBytes = 64

// tileShapes are the tiles of C, rows × columns. Tall tiles reuse each load of B
// most; low ones span several panels, to have enough independent sums to hide
// the latency of the multiply-add. 12×8 is for a last panel that is half empty.
var tileShapes = map[isa][][2]int{
	avx2: {{6, 16}, {5, 16}, {4, 16}, {3, 32}, {3, 16}, {2, 48}, {2, 16}, {1, 64}, {1, 16}, {12, 8}},
	avx512: {{12, 32}, {12, 16}, {8, 32}, {8, 16}, {6, 32}, {6, 16}, {4, 64}, {4, 16}, {3, 64}, {3, 16},
		{2, 64}, {2, 16}, {1, 64}, {1, 16}},
}

func genGemm() {
	for _, v := range isas {
		for _, s := range tileShapes[v] {
			genTile(v, v.name, fusedAdd, s[0], s[1])
		}
		genPeak(v, v.name, fusedAdd)
	}
}

// fusedAdd adds x·y to sum.
func fusedAdd(x, y, sum Op) { VFMADD231PS(x, y, sum) }

// genTile writes the kernel of a tile of C: for strips blocks of height rows
// below each other,
//
//	C (+)= A·B,  A height×kb by element strides, B packed panels of 16 columns
//
// All strides are in bytes. The sum over k is in ascending order, one fused
// multiply-add at a time, from 0.
func genTile(v isa, name string, multiplyAdd func(x, y, sum Op), height, width int) {
	const unroll = 2
	function(fmt.Sprintf("tile%dx%d%s", height, width, name),
		"func(strips, kb int, a *float32, rowStride, kStride, stripStride int, b *float32, "+
			"panelStride int, c *float32, ldc int, add bool)")
	perPanel := panelBytes / v.bytes
	perRow := width / v.lanes()
	panels := (perRow + perPanel - 1) / perPanel

	strips := arg("strips")
	a, rowStride, kStride := arg("a"), arg("rowStride"), arg("kStride")
	b, panelStride := arg("b"), arg("panelStride")
	c, ldc := arg("c"), arg("ldc")

	Label("strip")
	acc := v.regs(height * perRow)
	for _, r := range acc {
		v.zero(r)
	}
	aRows := newRows(a, rowStride, height)
	// The next panels come from memory if A has few rows: ask for them early. With one row,
	// memory is the limit, and asking costs time.
	ahead := 0
	if v == avx512 && panels > 1 && height > 1 || v == avx2 && height == 6 {
		ahead = panels
	}
	bRows := newRows(b, panelStride, panels+ahead)
	// The side with fewer vectors stays in registers while the other streams by.
	holdB := perRow <= height
	if need := len(acc) + min(perRow, height) + 1; need > v.count() {
		panic(fmt.Sprintf("tile %dx%d needs %d %s registers", height, width, need, v.name))
	}
	loadA := func(i int) reg.VecVirtual {
		r := v.reg()
		VBROADCASTSS(aRows.at(i, 0), r)
		return r
	}
	loadB := func(j, disp int) reg.VecVirtual {
		r := v.reg()
		VMOVUPS(bRows.at(j/perPanel, disp+j%perPanel*v.bytes), r)
		return r
	}
	step := func(disp int) {
		if holdB {
			bv := make([]reg.VecVirtual, perRow)
			for j := range bv {
				bv[j] = loadB(j, disp)
			}
			for i := range height {
				av := loadA(i)
				for j, r := range bv {
					multiplyAdd(r, av, acc[i*perRow+j])
				}
			}
		} else {
			av := make([]reg.VecVirtual, height)
			for i := range av {
				av[i] = loadA(i)
			}
			for j := range perRow {
				bv := loadB(j, disp)
				for i, r := range av {
					multiplyAdd(bv, r, acc[i*perRow+j])
				}
			}
		}
		for j := range ahead {
			PREFETCHT1(bRows.at(panels+j, disp))
		}
		aRows.step(kStride)
	}
	k := arg("kb")
	SUBQ(Imm(unroll), k)
	JL(LabelRef("rest"))
	Label("loop")
	for u := range unroll {
		step(u * panelBytes)
	}
	bRows.step(Imm(unroll * panelBytes))
	SUBQ(Imm(unroll), k)
	JGE(LabelRef("loop"))
	Label("rest")
	ADDQ(Imm(unroll), k)
	JZ(LabelRef("store"))
	Label("one")
	step(0)
	bRows.step(Imm(panelBytes))
	DECQ(k)
	JNZ(LabelRef("one"))

	Label("store")
	cRows := newRows(c, ldc, height)
	add := arg8("add")
	TESTB(add, add)
	JZ(LabelRef("overwrite"))
	for i, r := range acc {
		VADDPS(cRows.at(i/perRow, i%perRow*v.bytes), r, r)
	}
	Label("overwrite")
	for i, r := range acc {
		VMOVUPS(r, cRows.at(i/perRow, i%perRow*v.bytes))
	}
	stripStride := arg("stripStride")
	ADDQ(stripStride, a)
	LEAQ(Mem{Base: cRows.ptr[len(cRows.ptr)-1], Index: ldc, Scale: 1}, c)
	for range (height - 1) % 3 {
		ADDQ(ldc, c)
	}
	DECQ(strips)
	JNZ(LabelRef("strip"))
	finish()
}

func arg8(name string) reg.GPVirtual {
	r := GP8()
	Load(Param(name), r)
	return r
}

// genPeak writes the loop that measures the peak of a core: multiply-adds of
// registers, with twelve independent sums to hide their latency.
func genPeak(v isa, name string, multiplyAdd func(x, y, sum Op)) {
	const sums = 12
	TEXT("peak"+name, NOSPLIT, "func(turns int)")
	Doc(fmt.Sprintf("peak%s does turns ≥ 1 times %d multiply-adds of vectors.", name, sums))
	turns := arg("turns")
	acc := v.regs(sums)
	for _, r := range acc {
		v.zero(r)
	}
	x := v.reg()
	v.zero(x)
	Label("loop")
	for _, r := range acc {
		multiplyAdd(x, x, r)
	}
	DECQ(turns)
	JNZ(LabelRef("loop"))
	finish()
}
