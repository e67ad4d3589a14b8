package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// constant returns the memory of a constant in every lane, as wide as the
// widest vector. It is defined on first use.
func constant(name string, bits uint32) Mem {
	if m, ok := constants[name]; ok {
		return m
	}
	m := GLOBL(name, 8|16) // RODATA|NOPTR
	for i := range 16 {
		DATA(4*i, U32(bits))
	}
	constants[name] = m
	return m
}

var constants = map[string]Mem{}

func float(name string, x float32) Mem { return constant(name, math.Float32bits(x)) }

// The constants of exp.go and log.go in package kernel; its tests compare the
// assembly with the portable version.
const (
	log2E      = 1.44269504088896341
	ln2Hi      = 0.693359375
	ln2Lo      = -2.12194440054690583e-4
	roundMagic = 12582912 + 127
)

var (
	expCoefficients = [5]float32{0.5, 0.1666654348373413, 0.04166628047823906, 0.008366597816348076, 0.0013946472899988294}
	logCoefficients = [4]float32{2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9}
)

// horner evaluates c[0] + c[1]·x + ... with fused multiply-adds.
func (v isa) horner(name string, c []float32, x reg.VecVirtual) reg.VecVirtual {
	p := v.load(float(fmt.Sprint(name, len(c)-1), c[len(c)-1]))
	for i := len(c) - 2; i >= 0; i-- {
		VFMADD213PS(float(fmt.Sprint(name, i), c[i]), x, p)
	}
	return p
}

func (v isa) load(m Op) reg.VecVirtual {
	r := v.reg()
	VMOVUPS(m, r)
	return r
}

// broadcast loads a scalar parameter into every lane.
func (v isa) broadcast(name string) reg.VecVirtual {
	m, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	r := v.reg()
	VBROADCASTSS(m.Addr, r)
	return r
}

// curves holds the constants of the exponential that stay in registers over a
// loop.
type curves struct {
	isa
	one, expMin, expMax, tanhMax reg.VecVirtual
}

func (v isa) curves() *curves {
	return &curves{
		isa: v,
		one: v.load(float("one", 1)), tanhMax: v.load(float("tanhMax", 10)),
		expMin: v.load(float("expMin", -87.9)), expMax: v.load(float("expMax", 88.9)),
	}
}

// each calls f for every index. The curves work on several vectors at once,
// step by step, so that neighbouring instructions don't wait for each other.
func each(xs []reg.VecVirtual, f func(i int, x reg.VecVirtual)) {
	for i, x := range xs {
		f(i, x)
	}
}

// expm1Core returns 2ⁿ and q with exp x = 2ⁿ·(1+q); it overwrites x.
func (v isa) expm1Core(xs []reg.VecVirtual) (scale, q []reg.VecVirtual) {
	n := len(xs)
	magic := float("roundMagic", roundMagic)
	coefficient := func(i int) Mem { return float(fmt.Sprint("expE", i), expCoefficients[i]) }
	t, r2, lo, hi := v.regs(n), v.regs(n), v.regs(n), v.regs(n)
	scale = v.regs(n)
	each(xs, func(i int, _ reg.VecVirtual) { VMOVUPS(magic, t[i]) })
	each(xs, func(i int, x reg.VecVirtual) { VFMADD231PS(float("log2E", log2E), x, t[i]) })
	each(xs, func(i int, _ reg.VecVirtual) { VPSLLD(Imm(23), t[i], scale[i]) })
	each(xs, func(i int, _ reg.VecVirtual) { VSUBPS(magic, t[i], t[i]) })
	each(xs, func(i int, x reg.VecVirtual) { VFNMADD231PS(float("ln2Hi", ln2Hi), t[i], x) })
	each(xs, func(i int, x reg.VecVirtual) { VFNMADD231PS(float("ln2Lo", ln2Lo), t[i], x) })
	each(xs, func(i int, _ reg.VecVirtual) { VMOVUPS(coefficient(2), hi[i]) })
	each(xs, func(i int, x reg.VecVirtual) { VFMADD231PS(coefficient(3), x, hi[i]) })
	each(xs, func(i int, x reg.VecVirtual) { VMULPS(x, x, r2[i]) })
	each(xs, func(i int, _ reg.VecVirtual) { VMOVUPS(coefficient(0), lo[i]) })
	each(xs, func(i int, x reg.VecVirtual) { VFMADD231PS(coefficient(1), x, lo[i]) })
	each(xs, func(i int, _ reg.VecVirtual) { VFMADD231PS(coefficient(4), r2[i], hi[i]) })
	each(xs, func(i int, _ reg.VecVirtual) { VFMADD213PS(lo[i], r2[i], hi[i]) })
	each(xs, func(i int, x reg.VecVirtual) { VFMADD213PS(x, r2[i], hi[i]) })
	return scale, hi
}

// clamp bounds x to where exp is neither 0 nor infinite by more than a step.
// Minimum and maximum return their first operand here if it is NaN.
func (c *curves) clamp(xs []reg.VecVirtual) {
	each(xs, func(_ int, x reg.VecVirtual) { VMINPS(x, c.expMax, x) })
	each(xs, func(_ int, x reg.VecVirtual) { VMAXPS(x, c.expMin, x) })
}

// exp returns eˣ of clamped x, which it overwrites.
func (c *curves) exp(xs []reg.VecVirtual) []reg.VecVirtual {
	scale, q := c.expm1Core(xs)
	each(q, func(_ int, q reg.VecVirtual) { VADDPS(c.one, q, q) })
	each(q, func(i int, q reg.VecVirtual) { VMULPS(scale[i], q, q) })
	return q
}

// sigmoid returns 1/(1+e⁻ˣ); it overwrites x.
func (c *curves) sigmoid(xs ...reg.VecVirtual) []reg.VecVirtual {
	each(xs, func(_ int, x reg.VecVirtual) { VXORPS(constant("signBit", 1<<31), x, x) })
	c.clamp(xs)
	e := c.exp(xs)
	each(e, func(_ int, e reg.VecVirtual) { VADDPS(c.one, e, e) })
	each(e, func(_ int, e reg.VecVirtual) { VDIVPS(e, c.one, e) })
	return e
}

// tanh returns u/(u+2) with u = exp(2|x|) - 1 and the sign of x.
func (c *curves) tanh(xs ...reg.VecVirtual) []reg.VecVirtual {
	n := len(xs)
	y, less, sign := c.regs(n), c.regs(n), c.regs(n)
	each(xs, func(i int, x reg.VecVirtual) { VANDPS(constant("magnitude", 1<<31-1), x, y[i]) })
	each(y, func(_ int, y reg.VecVirtual) { VMINPS(y, c.tanhMax, y) })
	each(y, func(_ int, y reg.VecVirtual) { VADDPS(y, y, y) })
	scale, u := c.expm1Core(y)
	each(u, func(i int, _ reg.VecVirtual) { VSUBPS(c.one, scale[i], less[i]) })
	each(u, func(i int, u reg.VecVirtual) { VFMADD213PS(less[i], scale[i], u) })
	each(u, func(i int, u reg.VecVirtual) { VADDPS(float("two", 2), u, less[i]) })
	each(u, func(i int, u reg.VecVirtual) { VDIVPS(less[i], u, u) })
	each(xs, func(i int, x reg.VecVirtual) { VANDPS(constant("signBit", 1<<31), x, sign[i]) })
	each(u, func(i int, u reg.VecVirtual) { VORPS(sign[i], u, u) })
	return u
}

// log returns the logarithm of x, which is positive and normal; it overwrites x.
func (v isa) log(x reg.VecVirtual) reg.VecVirtual {
	const root = 0x3f3504f3 // √½
	VPADDD(constant("logShift", 0x3f800000-root), x, x)
	e := v.reg()
	VPSRLD(Imm(23), x, e)
	VPSUBD(constant("bias", 127), e, e)
	VCVTDQ2PS(e, e)
	VANDPS(constant("mantissa", 0x007fffff), x, x)
	VPADDD(constant("root", root), x, x)
	one := float("one", 1)
	s, d := v.reg(), v.reg()
	VSUBPS(one, x, s)
	VADDPS(one, x, d)
	VDIVPS(d, s, s)
	s2 := v.reg()
	VMULPS(s, s, s2)
	p := v.horner("logL", logCoefficients[:], s2)
	VMULPS(s2, p, p)
	VMULPS(s, p, p)
	VFMADD231PS(float("ln2Lo", ln2Lo), e, p)
	VADDPS(s, s, s)
	VADDPS(p, s, s)
	VFMADD231PS(float("ln2Hi", ln2Hi), e, s)
	return s
}
