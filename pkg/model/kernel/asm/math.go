package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// table holds the constants by name, those of exp.go in package
// kernel among them; its tests compare the assembly with the portable version.
var table = map[string]uint32{
	"one": float(1), "two": float(2),
	"signBit": 1 << 31, "magnitude": 1<<31 - 1,
	"log2E": float(1.44269504088896341),
	"ln2Hi": float(0.693359375), "ln2Lo": float(-2.12194440054690583e-4),
	"roundMagic": float(12582912 + 127),
	"expE0":      float(0.5), "expE1": float(0.1666654348373413), "expE2": float(0.04166628047823906),
	"expE3": float(0.008366597816348076), "expE4": float(0.0013946472899988294),
	"expMin": float(-87.9), "expMax": float(88.9), "tanhMax": float(10),
	"smallest": float(0x1p-126), "root": rootBits, "logShift": float(1) - rootBits,
	"mantissa": 0x007fffff, "bias": 127,
	"logL0": float(2.0 / 3), "logL1": float(2.0 / 5), "logL2": float(2.0 / 7), "logL3": float(2.0 / 9),
}

const rootBits = 0x3f3504f3 // √½

func float(x float32) uint32 { return math.Float32bits(x) }

var (
	expNames  = []string{"log2E", "ln2Hi", "ln2Lo", "roundMagic", "expE0", "expE1", "expE2", "expE3", "expE4"}
	tanhNames = []string{"magnitude", "signBit", "two"}
	logNames  = []string{"smallest", "logShift", "bias", "mantissa", "root", "one", "ln2Hi", "ln2Lo",
		"logL0", "logL1", "logL2", "logL3"}
)

// lanewise is an instruction set with constants: in registers as long as there are
// enough, else in memory, in every lane of the widest vector.
type lanewise struct {
	isa
	held map[string]reg.VecVirtual
}

// with puts the constants in held into registers, and those in memory too if
// there are 32 registers: a vector of 64 bytes in memory may straddle two
// cache lines, and Go's assembler cannot align it.
func (v isa) with(held, memory []string) *lanewise {
	l := &lanewise{isa: v, held: map[string]reg.VecVirtual{}}
	if v.count() == 32 {
		held = append(append([]string(nil), held...), memory...)
	}
	for _, name := range held {
		if l.held[name] == nil {
			l.held[name] = v.load(inMemory(name))
		}
	}
	return l
}

// k is the operand of a constant.
func (l *lanewise) k(name string) Op {
	if r, ok := l.held[name]; ok {
		return r
	}
	return inMemory(name)
}

var globals = map[string]Mem{}

func inMemory(name string) Mem {
	m, ok := globals[name]
	if !ok {
		bits, known := table[name]
		if !known {
			panic("no constant " + name)
		}
		m = GLOBL(name, 8|16) // RODATA|NOPTR
		for i := range 16 {
			DATA(4*i, U32(bits))
		}
		globals[name] = m
	}
	return m
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

// expm1Core returns 2ⁿ and q with exp x = 2ⁿ·(1+q) for several x, which it
// overwrites. The vectors are interleaved, because each depends on itself at every
// step, and need only three registers each.
func (l *lanewise) expm1Core(xs ...reg.VecVirtual) (scale, q []reg.VecVirtual) {
	t, p := l.regs(len(xs)), l.regs(len(xs))
	each := func(f func(x, t, p reg.VecVirtual)) {
		for i, x := range xs {
			f(x, t[i], p[i])
		}
	}
	each(func(x, t, p reg.VecVirtual) { VMOVUPS(l.k("roundMagic"), t) })
	each(func(x, t, p reg.VecVirtual) { VFMADD231PS(l.k("log2E"), x, t) })
	each(func(x, t, p reg.VecVirtual) { VSUBPS(l.k("roundMagic"), t, p) })
	each(func(x, t, p reg.VecVirtual) { VFNMADD231PS(l.k("ln2Hi"), p, x) })
	each(func(x, t, p reg.VecVirtual) { VFNMADD231PS(l.k("ln2Lo"), p, x) })
	each(func(x, t, p reg.VecVirtual) { VMOVUPS(l.k("expE4"), p) })
	for _, c := range []string{"expE3", "expE2", "expE1", "expE0"} {
		each(func(x, t, p reg.VecVirtual) { VFMADD213PS(l.k(c), x, p) })
	}
	each(func(x, t, p reg.VecVirtual) { VMULPS(x, p, p) })
	each(func(x, t, p reg.VecVirtual) { VFMADD213PS(x, x, p) })
	each(func(x, t, p reg.VecVirtual) { VPSLLD(Imm(23), t, t) })
	return t, p
}

// clamp bounds x to where exp is neither 0 nor infinite by more than a step.
// Minimum and maximum return their first operand here if it is NaN. expMin and
// expMax are held in registers.
func (l *lanewise) clamp(x reg.VecVirtual) {
	VMINPS(x, l.held["expMax"], x)
	VMAXPS(x, l.held["expMin"], x)
}

// exp returns eˣ of a clamped x, which it overwrites.
func (l *lanewise) exp(x reg.VecVirtual) reg.VecVirtual {
	scale, q := l.expm1Core(x)
	return l.finishExp(scale[0], q[0])
}

func (l *lanewise) finishExp(scale, q reg.VecVirtual) reg.VecVirtual {
	VADDPS(l.k("one"), q, q)
	VMULPS(scale, q, q)
	return q
}

// beginSigmoid and finishSigmoid compute a sigmoid 1/(1+e⁻ˣ), with expm1Core in between.
func (l *lanewise) beginSigmoid(x reg.VecVirtual) {
	VXORPS(l.k("signBit"), x, x)
	l.clamp(x)
}

func (l *lanewise) finishSigmoid(scale, q reg.VecVirtual) reg.VecVirtual {
	e := l.finishExp(scale, q)
	VADDPS(l.k("one"), e, e)
	VDIVPS(e, l.held["one"], e)
	return e
}

// beginTanh and finishTanh do the same for a tanh u/(u+2) with u = exp(2|x|) - 1 and the sign of x.
func (l *lanewise) beginTanh(x reg.VecVirtual) reg.VecVirtual {
	y := l.reg()
	VANDPS(l.k("magnitude"), x, y)
	VMINPS(y, l.held["tanhMax"], y)
	VADDPS(y, y, y)
	return y
}

func (l *lanewise) finishTanh(scale, u, x reg.VecVirtual) reg.VecVirtual {
	less := l.reg()
	VSUBPS(l.k("one"), scale, less)
	VFMADD213PS(less, scale, u)
	VADDPS(l.k("two"), u, less)
	VDIVPS(less, u, u)
	VANDPS(l.k("signBit"), x, x)
	VORPS(x, u, u)
	return u
}

// log returns the logarithm of x, which is positive and normal; it overwrites x.
func (l *lanewise) log(x reg.VecVirtual) reg.VecVirtual {
	VPADDD(l.k("logShift"), x, x)
	e := l.reg()
	VPSRLD(Imm(23), x, e)
	VPSUBD(l.k("bias"), e, e)
	VCVTDQ2PS(e, e)
	VANDPS(l.k("mantissa"), x, x)
	VPADDD(l.k("root"), x, x)
	s, d := l.reg(), l.reg()
	VSUBPS(l.k("one"), x, s)
	VADDPS(l.k("one"), x, d)
	VDIVPS(d, s, s)
	s2 := l.reg()
	VMULPS(s, s, s2)
	p := l.load(l.k("logL3"))
	VFMADD213PS(l.k("logL2"), s2, p)
	VFMADD213PS(l.k("logL1"), s2, p)
	VFMADD213PS(l.k("logL0"), s2, p)
	VMULPS(s2, p, p)
	VMULPS(s, p, p)
	VFMADD231PS(l.k("ln2Lo"), e, p)
	VADDPS(s, s, s)
	VADDPS(p, s, s)
	VFMADD231PS(l.k("ln2Hi"), e, s)
	return s
}
