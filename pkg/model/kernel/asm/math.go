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
	roundMagic = 12582912
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

// expm1Core returns n and q with exp x = 2ⁿ·(1+q); it overwrites x.
func (v isa) expm1Core(x reg.VecVirtual) (n, q reg.VecVirtual) {
	magic := float("roundMagic", roundMagic)
	t := v.load(magic)
	VFMADD231PS(float("log2E", log2E), x, t)
	n = v.reg()
	VPSUBD(magic, t, n)
	VSUBPS(magic, t, t)
	VFNMADD231PS(float("ln2Hi", ln2Hi), t, x)
	VFNMADD231PS(float("ln2Lo", ln2Lo), t, x)
	p := v.horner("expE", expCoefficients[:], x)
	q = v.reg()
	VMULPS(x, x, q)
	VFMADD213PS(x, p, q)
	return n, q
}

// pow2 turns the integers n into the numbers 2ⁿ.
func (v isa) pow2(n reg.VecVirtual) {
	VPADDD(constant("bias", 127), n, n)
	VPSLLD(Imm(23), n, n)
}

// clampExp bounds x to where exp is neither 0 nor infinite by more than a step.
// Minimum and maximum return their first operand here if it is NaN.
func (v isa) clampExp(x reg.VecVirtual) reg.VecVirtual {
	hi, lo := v.load(float("expMax", 89)), v.load(float("expMin", -104))
	VMINPS(x, hi, hi)
	VMAXPS(hi, lo, lo)
	return lo
}

// exp returns eˣ of a clamped x, which it overwrites.
func (v isa) exp(x reg.VecVirtual) reg.VecVirtual {
	n, q := v.expm1Core(x)
	half := v.reg()
	VPSRAD(Imm(1), n, half)
	VPSUBD(half, n, n)
	v.pow2(half)
	v.pow2(n)
	VFMADD213PS(half, half, q)
	VMULPS(n, q, q)
	return q
}

// sigmoid returns 1/(1+e⁻ˣ).
func (v isa) sigmoid(x reg.VecVirtual) reg.VecVirtual {
	neg := v.reg()
	VXORPS(constant("signBit", 1<<31), x, neg)
	e := v.exp(v.clampExp(neg))
	one := v.load(float("one", 1))
	VADDPS(one, e, e)
	VDIVPS(e, one, one)
	return one
}

// tanh returns u/(u+2) with u = exp(2|x|) - 1 and the sign of x.
func (v isa) tanh(x reg.VecVirtual) reg.VecVirtual {
	y := v.reg()
	VANDPS(constant("magnitude", 1<<31-1), x, y)
	top := v.load(float("tanhMax", 10))
	VMINPS(y, top, top)
	VADDPS(top, top, top)
	s, q := v.expm1Core(top)
	v.pow2(s)
	less := v.reg()
	VSUBPS(float("one", 1), s, less)
	VFMADD213PS(less, s, q)
	d := v.reg()
	VADDPS(float("two", 2), q, d)
	VDIVPS(d, q, q)
	sign := v.reg()
	VANDPS(constant("signBit", 1<<31), x, sign)
	VORPS(sign, q, q)
	return q
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
