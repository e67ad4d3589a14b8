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

func genRowMax(v isa) {
	TEXT("rowMax"+v.name, NOSPLIT, "func(groups int, x *float32, top *float32)")
	Doc("rowMax" + v.name + " raises the 16 numbers at top to the maxima of groups ≥ 1 groups of 16.")
	Pragma("noescape")
	n, x, top := arg("groups"), arg("x"), arg("top")
	acc := v.regs(group / v.bytes)
	for i, r := range acc {
		VMOVUPS(Mem{Base: top, Disp: i * v.bytes}, r)
	}
	Label("loop")
	for i, r := range acc {
		VMAXPS(Mem{Base: x, Disp: i * v.bytes}, r, r)
	}
	ADDQ(Imm(group), x)
	DECQ(n)
	JNZ(LabelRef("loop"))
	for i, r := range acc {
		VMOVUPS(r, Mem{Base: top, Disp: i * v.bytes})
	}
	VZEROUPPER()
	RET()
}

// genRowExp: z = (x-top)·invTemp, p = exp z, sums += p, dots += p·max(z, expMin).
func genRowExp(v isa) {
	TEXT("rowExp"+v.name, NOSPLIT, "func(groups int, x, p *float32, top, invTemp float32, sums, dots *float32)")
	Doc("rowExp" + v.name + " writes exp((x-top)·invTemp) of groups ≥ 1 groups of 16 to p and adds it, and its product with the exponent, to the 16 sums and dots.")
	Pragma("noescape")
	n, x, p, sums, dots := arg("groups"), arg("x"), arg("p"), arg("sums"), arg("dots")
	top, invTemp := v.broadcast("top"), v.broadcast("invTemp")
	k := v.curves()
	s, d := v.regs(group/v.bytes), v.regs(group/v.bytes)
	for i := range s {
		VMOVUPS(Mem{Base: sums, Disp: i * v.bytes}, s[i])
		VMOVUPS(Mem{Base: dots, Disp: i * v.bytes}, d[i])
	}
	Label("loop")
	z, kept := make([]reg.VecVirtual, len(s)), v.regs(len(s))
	for i := range z {
		z[i] = v.load(Mem{Base: x, Disp: i * v.bytes})
		VSUBPS(top, z[i], z[i])
		VMULPS(invTemp, z[i], z[i])
	}
	k.clamp(z)
	for i := range z {
		VMOVUPS(z[i], kept[i])
	}
	for i, e := range k.exp(z) {
		VMOVUPS(e, Mem{Base: p, Disp: i * v.bytes})
		VADDPS(e, s[i], s[i])
		VFMADD231PS(e, kept[i], d[i])
	}
	ADDQ(Imm(group), x)
	ADDQ(Imm(group), p)
	DECQ(n)
	JNZ(LabelRef("loop"))
	for i := range s {
		VMOVUPS(s[i], Mem{Base: sums, Disp: i * v.bytes})
		VMOVUPS(d[i], Mem{Base: dots, Disp: i * v.bytes})
	}
	VZEROUPPER()
	RET()
}

// genEntropyGrad: d = p·(g + ge·(log p + h)).
func genEntropyGrad(v isa) {
	TEXT("entropyGrad"+v.name, NOSPLIT, "func(groups int, d, p *float32, base, slope, h float32)")
	Doc("entropyGrad" + v.name + " writes p·(base + slope·(log p + h)) of groups ≥ 1 groups of 16 to d.")
	Pragma("noescape")
	n, d, p := arg("groups"), arg("d"), arg("p")
	g, ge, h := v.broadcast("base"), v.broadcast("slope"), v.broadcast("h")
	Label("loop")
	for i := range group / v.bytes {
		x := v.load(Mem{Base: p, Disp: i * v.bytes})
		l := v.load(float("smallest", 0x1p-126))
		VMAXPS(x, l, l)
		l = v.log(l)
		VADDPS(h, l, l)
		VFMADD213PS(g, ge, l)
		VMULPS(x, l, l)
		VMOVUPS(l, Mem{Base: d, Disp: i * v.bytes})
	}
	ADDQ(Imm(group), p)
	ADDQ(Imm(group), d)
	DECQ(n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
