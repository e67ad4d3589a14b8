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

// vectors is what the functions below need of an instruction set. Operands are in the order of Go's
// assembler for amd64: the last is the result. Those called c may be constants in memory.
type vectors interface {
	fresh() Op // a register
	move(c, to Op)
	add(c, x, to Op) // x + c
	sub(c, x, to Op) // x - c
	mul(c, x, to Op)
	div(y, x, to Op)                 // x / y
	fusedAdd(c, x, sum Op)           // sum + c·x
	fusedSub(c, x, sum Op)           // sum - c·x
	fusedScale(c, y, x Op)           // x·y + c
	min(x, bound, to Op)             // x if it is NaN
	max(x, bound, to Op)             // x if it is NaN
	and(c, x, to Op)                 // and the next ones: of bits
	or(c, x, to Op)                  //
	xor(c, x, to Op)                 //
	addInt(c, x, to Op)              // x + c, as integers
	subInt(c, x, to Op)              // x - c, as integers
	shiftLeft(bits uint64, x, to Op) // as integers
	shiftRight(bits uint64, x, to Op)
	toFloat(x, to Op) // from an integer
}

// lanewise is an instruction set with constants: in registers as long as there are
// enough, else in memory, in every lane of the widest vector.
type lanewise struct {
	vectors
	held map[string]Op
}

// with puts the constants in held into registers, and those in memory too if
// there are 32 registers: a vector of 64 bytes in memory may straddle two
// cache lines, and Go's assembler cannot align it.
func (v isa) with(held, memory []string) *lanewise {
	l := &lanewise{vectors: v, held: map[string]Op{}}
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
func (l *lanewise) expm1Core(xs ...Op) (scale, q []Op) {
	t, p := make([]Op, len(xs)), make([]Op, len(xs))
	for i := range xs {
		t[i] = l.fresh()
	}
	for i := range xs {
		p[i] = l.fresh()
	}
	each := func(f func(x, t, p Op)) {
		for i, x := range xs {
			f(x, t[i], p[i])
		}
	}
	each(func(x, t, p Op) { l.move(l.k("roundMagic"), t) })
	each(func(x, t, p Op) { l.fusedAdd(l.k("log2E"), x, t) })
	each(func(x, t, p Op) { l.sub(l.k("roundMagic"), t, p) })
	each(func(x, t, p Op) { l.fusedSub(l.k("ln2Hi"), p, x) })
	each(func(x, t, p Op) { l.fusedSub(l.k("ln2Lo"), p, x) })
	each(func(x, t, p Op) { l.move(l.k("expE4"), p) })
	for _, c := range []string{"expE3", "expE2", "expE1", "expE0"} {
		each(func(x, t, p Op) { l.fusedScale(l.k(c), x, p) })
	}
	each(func(x, t, p Op) { l.mul(x, p, p) })
	each(func(x, t, p Op) { l.fusedScale(x, x, p) })
	each(func(x, t, p Op) { l.shiftLeft(23, t, t) })
	return t, p
}

// clamp bounds x to where exp is neither 0 nor infinite by more than a step.
// Minimum and maximum return their first operand here if it is NaN. expMin and
// expMax are held in registers.
func (l *lanewise) clamp(x Op) {
	l.min(x, l.held["expMax"], x)
	l.max(x, l.held["expMin"], x)
}

// exp returns eˣ of a clamped x, which it overwrites.
func (l *lanewise) exp(x Op) Op {
	scale, q := l.expm1Core(x)
	return l.finishExp(scale[0], q[0])
}

func (l *lanewise) finishExp(scale, q Op) Op {
	l.add(l.k("one"), q, q)
	l.mul(scale, q, q)
	return q
}

// beginSigmoid and finishSigmoid compute a sigmoid 1/(1+e⁻ˣ), with expm1Core in between.
func (l *lanewise) beginSigmoid(x Op) {
	l.xor(l.k("signBit"), x, x)
	l.clamp(x)
}

func (l *lanewise) finishSigmoid(scale, q Op) Op {
	e := l.finishExp(scale, q)
	l.add(l.k("one"), e, e)
	l.div(e, l.held["one"], e)
	return e
}

// beginTanh and finishTanh do the same for a tanh u/(u+2) with u = exp(2|x|) - 1 and the sign of x.
func (l *lanewise) beginTanh(x Op) Op {
	y := l.fresh()
	l.and(l.k("magnitude"), x, y)
	l.min(y, l.held["tanhMax"], y)
	l.add(y, y, y)
	return y
}

func (l *lanewise) finishTanh(scale, u, x Op) Op {
	less := l.fresh()
	l.sub(l.k("one"), scale, less)
	l.fusedScale(less, scale, u)
	l.add(l.k("two"), u, less)
	l.div(less, u, u)
	l.and(l.k("signBit"), x, x)
	l.or(x, u, u)
	return u
}

// log returns the logarithm of x, which is positive and normal; it overwrites x.
func (l *lanewise) log(x Op) Op {
	l.addInt(l.k("logShift"), x, x)
	e := l.fresh()
	l.shiftRight(23, x, e)
	l.subInt(l.k("bias"), e, e)
	l.toFloat(e, e)
	l.and(l.k("mantissa"), x, x)
	l.addInt(l.k("root"), x, x)
	s, d := l.fresh(), l.fresh()
	l.sub(l.k("one"), x, s)
	l.add(l.k("one"), x, d)
	l.div(d, s, s)
	s2 := l.fresh()
	l.mul(s, s, s2)
	p := l.fresh()
	l.move(l.k("logL3"), p)
	l.fusedScale(l.k("logL2"), s2, p)
	l.fusedScale(l.k("logL1"), s2, p)
	l.fusedScale(l.k("logL0"), s2, p)
	l.mul(s2, p, p)
	l.mul(s, p, p)
	l.fusedAdd(l.k("ln2Lo"), e, p)
	l.add(s, s, s)
	l.add(p, s, s)
	l.fusedAdd(l.k("ln2Hi"), e, s)
	return s
}
