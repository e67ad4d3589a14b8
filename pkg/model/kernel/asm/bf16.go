package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/reg"
)

// The kernels of bf16 matmuls. Their elements are pairs of bf16 numbers in 32 bits, so the tiles
// are those of float32 with another multiply-add.
func genBF16() {
	for _, s := range tileShapes[avx512] {
		genTile(avx512, "BF16", VDPBF16PS, s[0], s[1])
	}
	genPeak(avx512, "BF16", VDPBF16PS)
	genRound()
	genPairRows()
}

// genRound rounds numbers to bf16; neighbours in a row are pairs.
func genRound() {
	function("roundBF16", "func(vecs int, x, to *float32)", "rounds vecs ≥ 1 vectors of 32 numbers to 16 pairs.")
	n, x, to := arg("vecs"), arg("x"), arg("to")
	Label("loop")
	low, high := ZMM(), ZMM()
	VMOVUPS(Mem{Base: x}, low)
	VMOVUPS(Mem{Base: x, Disp: 64}, high)
	VCVTNE2PS2BF16(low, high, high)
	VMOVUPS(high, Mem{Base: to})
	ADDQ(U32(128), x)
	ADDQ(Imm(64), to)
	DECQ(n)
	JNZ(LabelRef("loop"))
	finish()
}

// genPairRows rounds numbers to bf16; neighbours in a column are pairs.
func genPairRows() {
	function("pairRowsBF16", "func(pairs, vecs int, x *float32, ld int, to *float32, ldt int)",
		"rounds vecs ≥ 1 vectors of 16 numbers of each of 2·pairs ≥ 2 rows, ld bytes apart, and interleaves two rows "+
			"each; the results are ldt bytes apart.")
	pairs, x, ld, to, ldt := arg("pairs"), arg("x"), arg("ld"), arg("to"), arg("ldt")
	order := GLOBL("interleave", 8|16) // RODATA|NOPTR
	for i := range 16 {
		DATA(4*i, U32(i|(16+i)<<16))
	}
	index := ZMM()
	VMOVUPS(order, index)
	Label("pair")
	n, from, into := arg("vecs"), copyOf(x), copyOf(to)
	Label("vec")
	first, second := ZMM(), ZMM()
	VMOVUPS(Mem{Base: from}, first)
	VMOVUPS(Mem{Base: from, Index: ld, Scale: 1}, second)
	VCVTNE2PS2BF16(first, second, second)
	VPERMW(second, index, second)
	VMOVUPS(second, Mem{Base: into})
	ADDQ(Imm(64), from)
	ADDQ(Imm(64), into)
	DECQ(n)
	JNZ(LabelRef("vec"))
	LEAQ(Mem{Base: x, Index: ld, Scale: 2}, x)
	ADDQ(ldt, to)
	DECQ(pairs)
	JNZ(LabelRef("pair"))
	finish()
}

// An evex is an instruction that Go's assembler does not know, on three 512-bit registers:
// EVEX.512.pp.0F38.W0 opcode (Intel's manual, volume 2, 2.7).
type evex struct{ prefix, opcode uint32 }

const f3, f2 = 2, 3 // values of pp

var evexes = map[string]evex{"VDPBF16PS": {f3, 0x52}, "VCVTNE2PS2BF16": {f2, 0x72}}

// VDPBF16PS adds the products of the pairs in x and y to the float32 in sum.
func VDPBF16PS(x, y, sum Op) {
	Instruction(&ir.Instruction{Opcode: "VDPBF16PS", Operands: []Op{x, y, sum}, Inputs: []Op{x, y, sum},
		Outputs: []Op{sum}, ISA: []string{"AVX512_BF16"}})
}

// VCVTNE2PS2BF16 rounds the float32 in low and high to the lower and the upper half of to.
func VCVTNE2PS2BF16(low, high, to Op) {
	Instruction(&ir.Instruction{Opcode: "VCVTNE2PS2BF16", Operands: []Op{low, high, to}, Inputs: []Op{low, high},
		Outputs: []Op{to}, ISA: []string{"AVX512_BF16"}})
}

// encodeEVEX replaces such instructions by a comment with their text and by their bytes.
var encodeEVEX = pass.FunctionPass(func(f *ir.Function) error {
	var nodes []ir.Node
	for _, n := range f.Nodes {
		i, ok := n.(*ir.Instruction)
		if !ok || evexes[i.Opcode].opcode == 0 {
			nodes = append(nodes, n)
			continue
		}
		var id [3]uint32
		text := i.Opcode
		for j, o := range i.Operands {
			id[j] = uint32(o.(reg.Physical).PhysicalIndex())
			text += " " + o.Asm()
		}
		first, last := evexes[i.Opcode].bytes(id[0], id[1], id[2])
		nodes = append(nodes, ir.NewComment(text),
			&ir.Instruction{Opcode: "LONG", Operands: []Op{U32(first)}},
			&ir.Instruction{Opcode: "WORD", Operands: []Op{U16(last)}})
	}
	f.Nodes = nodes
	return nil
})

// bytes is the instruction with operands in Go's order, little-endian. R, X, B, V and vvvv are
// stored inverted.
func (e evex) bytes(rm, v, r uint32) (first uint32, last uint16) {
	not := func(id, bit uint32) uint32 { return id>>bit&1 ^ 1 }
	p0 := not(r, 3)<<7 | not(rm, 4)<<6 | not(rm, 3)<<5 | not(r, 4)<<4 | 2
	p1 := (^v&15)<<3 | 4 | e.prefix
	p2 := uint32(2<<5) | not(v, 4)<<3
	return 0x62 | p0<<8 | p1<<16 | p2<<24, uint16(e.opcode | (0xc0|r&7<<3|rm&7)<<8)
}
