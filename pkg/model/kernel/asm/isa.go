package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// isa is an instruction set: the width of its vectors and their registers.
type isa struct {
	name  string
	bytes int
}

var (
	avx2   = isa{"AVX2", 32}
	avx512 = isa{"AVX512", 64}
	isas   = []isa{avx2, avx512}
)

// lanes is the number of float32 in a vector.
func (v isa) lanes() int { return v.bytes / 4 }

// count is the number of vector registers.
func (v isa) count() int { return v.bytes / 2 }

// reg returns a fresh vector register.
func (v isa) reg() reg.VecVirtual {
	if v.bytes == 64 {
		return ZMM()
	}
	return YMM()
}

func (v isa) regs(n int) []reg.VecVirtual {
	rs := make([]reg.VecVirtual, n)
	for i := range rs {
		rs[i] = v.reg()
	}
	return rs
}

// The operations of vectors.
func (v isa) fresh() Op                        { return v.reg() }
func (v isa) move(c, to Op)                    { VMOVUPS(c, to) }
func (v isa) add(c, x, to Op)                  { VADDPS(c, x, to) }
func (v isa) sub(c, x, to Op)                  { VSUBPS(c, x, to) }
func (v isa) mul(c, x, to Op)                  { VMULPS(c, x, to) }
func (v isa) div(y, x, to Op)                  { VDIVPS(y, x, to) }
func (v isa) fusedAdd(c, x, sum Op)            { VFMADD231PS(c, x, sum) }
func (v isa) fusedSub(c, x, sum Op)            { VFNMADD231PS(c, x, sum) }
func (v isa) fusedScale(c, y, x Op)            { VFMADD213PS(c, y, x) }
func (v isa) min(x, bound, to Op)              { VMINPS(x, bound, to) }
func (v isa) max(x, bound, to Op)              { VMAXPS(x, bound, to) }
func (v isa) and(c, x, to Op)                  { VANDPS(c, x, to) }
func (v isa) or(c, x, to Op)                   { VORPS(c, x, to) }
func (v isa) xor(c, x, to Op)                  { VXORPS(c, x, to) }
func (v isa) addInt(c, x, to Op)               { VPADDD(c, x, to) }
func (v isa) subInt(c, x, to Op)               { VPSUBD(c, x, to) }
func (v isa) shiftLeft(bits uint64, x, to Op)  { VPSLLD(Imm(bits), x, to) }
func (v isa) shiftRight(bits uint64, x, to Op) { VPSRLD(Imm(bits), x, to) }
func (v isa) toFloat(x, to Op)                 { VCVTDQ2PS(x, to) }

// zero clears a register.
func (v isa) zero(r reg.VecVirtual) {
	if v.bytes == 64 {
		VPXORD(r, r, r)
	} else {
		VXORPS(r, r, r)
	}
}

// arg loads a parameter into a register.
func arg(name string) reg.GPVirtual {
	r := GP64()
	Load(Param(name), r)
	return r
}

// copyOf returns a fresh register with the value of r.
func copyOf(r reg.GPVirtual) reg.GPVirtual {
	c := GP64()
	MOVQ(r, c)
	return c
}

// rows addresses count rows, stride bytes apart, with one pointer per three rows, so that a scaled
// index reaches each row.
type rows struct {
	ptr    []reg.GPVirtual
	stride reg.GPVirtual
}

func newRows(base, stride reg.GPVirtual, count int) rows {
	r := rows{stride: stride}
	p := base
	for i := 0; i < count; i += 3 {
		next := GP64()
		if i == 0 {
			MOVQ(base, next)
		} else {
			LEAQ(Mem{Base: p, Index: stride, Scale: 2}, next)
			ADDQ(stride, next)
		}
		r.ptr = append(r.ptr, next)
		p = next
	}
	return r
}

// at is the memory disp bytes into row i.
func (r rows) at(i, disp int) Mem {
	m := Mem{Base: r.ptr[i/3], Disp: disp}
	if i%3 > 0 {
		m.Index, m.Scale = r.stride, uint8(i%3)
	}
	return m
}

// step moves all rows forward.
func (r rows) step(by Op) {
	for _, p := range r.ptr {
		ADDQ(by, p)
	}
}

// function starts a function whose pointers do not escape. does describes it.
func function(name, signature string, does ...string) {
	TEXT(name, NOSPLIT, signature)
	if len(does) > 0 {
		Doc(append([]string{name + " " + does[0]}, does[1:]...)...)
	}
	Pragma("noescape")
}

// finish returns from the function.
func finish() {
	VZEROUPPER()
	RET()
}
