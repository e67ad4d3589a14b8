package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Rows are read in groups of 16 numbers, whatever the width of a vector, so
// that the partial sums are the same on every path.
const group = 64 // bytes

func genSoftmax() {
	for _, v := range isas {
		genRowMax(v)
		genRowExp(v)
		genEntropyGrad(v)
	}
}

// halve folds the groups in the registers to 4 numbers in an XMM register: lane
// i and lane i+8 by op, then i and i+4.
func (v isa) halve(r []reg.VecVirtual, op func(a, b, to Op)) reg.VecVirtual {
	if v.bytes == 64 {
		hi := YMM()
		VEXTRACTF64X4(Imm(1), r[0], hi)
		op(hi, r[0].AsY(), r[0].AsY())
	} else {
		op(r[1], r[0], r[0])
	}
	hi := XMM()
	VEXTRACTF128(Imm(1), r[0].AsY(), hi)
	op(hi, r[0].AsX(), hi)
	return hi
}

// fold reduces halve's 4 numbers to one.
func fold(x reg.VecVirtual, op func(a, b, to Op)) {
	t := XMM()
	VPERMILPD(Imm(1), x, t)
	op(t, x, x)
	VMOVSHDUP(x, t)
	op(t, x, x)
}

func genRowMax(v isa) {
	function("rowMax"+v.name, "func(n int, x *float32) float32",
		"returns the largest of n ≥ 16 numbers.")
	n, x := arg("n"), arg("x")
	end := GP64() // of the last whole group; the one that ends with x overlaps it
	LEAQ(Mem{Base: x, Index: n, Scale: 4, Disp: -group}, end)
	acc := v.regs(group / v.bytes)
	for i, r := range acc {
		VMOVUPS(Mem{Base: end, Disp: i * v.bytes}, r)
	}
	Label("loop")
	CMPQ(x, end)
	JAE(LabelRef("done"))
	for i, r := range acc {
		VMAXPS(Mem{Base: x, Disp: i * v.bytes}, r, r)
	}
	ADDQ(Imm(group), x)
	JMP(LabelRef("loop"))
	Label("done")
	pick := func(a, b, to Op) { VMAXPS(a, b, to) }
	top := v.halve(acc, pick)
	fold(top, pick)
	Store(top, ReturnIndex(0))
	finish()
}

// genRowExp: z = (x-top)·invTemp, p = exp z, sum = Σ p, dot = Σ p·max(z, expMin).
func genRowExp(v isa) {
	function("rowExp"+v.name, "func(groups int, x, p, tail *float32, top, invTemp float32) (sum, dot float32)",
		"writes exp((x-top)·invTemp) of groups ≥ 0 groups of 16 to p, and that of the group at tail over "+
			"it, if tail is not nil.",
		"It returns the sum of all and their dot product with the exponents, each by 16 partial sums.")
	n, x, p, tail := arg("groups"), arg("x"), arg("p"), arg("tail")
	top, invTemp := v.broadcast("top"), v.broadcast("invTemp")
	k := v.with([]string{"one", "expMin", "expMax"}, expNames)
	s, d := v.regs(group/v.bytes), v.regs(group/v.bytes)
	for i := range s {
		v.zero(s[i])
		v.zero(d[i])
	}
	Label("loop")
	DECQ(n)
	JS(LabelRef("tail"))
	Label("body")
	for i := range s {
		z := v.load(Mem{Base: x, Disp: i * v.bytes})
		VSUBPS(top, z, z)
		VMULPS(invTemp, z, z)
		k.clamp(z)
		kept := v.reg()
		VMOVUPS(z, kept)
		e := k.exp(z)
		VMOVUPS(e, Mem{Base: p, Disp: i * v.bytes})
		VADDPS(e, s[i], s[i])
		VFMADD231PS(e, kept, d[i])
	}
	ADDQ(Imm(group), x)
	ADDQ(Imm(group), p)
	JMP(LabelRef("loop"))
	Label("tail")
	TESTQ(tail, tail)
	JZ(LabelRef("sum"))
	MOVQ(tail, x)
	MOVQ(tail, p)
	XORQ(tail, tail)
	XORQ(n, n)
	JMP(LabelRef("body"))
	Label("sum")
	add := func(a, b, to Op) { VADDPS(a, b, to) }
	for i, r := range [][]reg.VecVirtual{s, d} {
		total := v.halve(r, add)
		fold(total, add)
		Store(total, ReturnIndex(i))
	}
	finish()
}

// genEntropyGrad: d = p·(g + ge·(log p + h)).
func genEntropyGrad(v isa) {
	function("entropyGrad"+v.name, "func(groups int, d, p *float32, base, slope, h float32)",
		"writes p·(base + slope·(log p + h)) of groups ≥ 1 groups of 16 to d.")
	n, d, p := arg("groups"), arg("d"), arg("p")
	g, ge, h := v.broadcast("base"), v.broadcast("slope"), v.broadcast("h")
	k := v.with(nil, logNames)
	Label("loop")
	for i := range group / v.bytes {
		x := v.load(Mem{Base: p, Disp: i * v.bytes})
		var l Op = v.load(k.k("smallest"))
		VMAXPS(x, l, l)
		l = k.log(l)
		VADDPS(h, l, l)
		VFMADD213PS(g, ge, l)
		VMULPS(x, l, l)
		VMOVUPS(l, Mem{Base: d, Disp: i * v.bytes})
	}
	ADDQ(Imm(group), p)
	ADDQ(Imm(group), d)
	DECQ(n)
	JNZ(LabelRef("loop"))
	finish()
}
