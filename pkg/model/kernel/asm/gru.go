package main

import (
	"math/bits"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func genGRU() {
	for _, v := range isas {
		genGRUForward(v)
		genGRUBackward(v)
	}
}

// cell walks over rows of hidden states, a vector of each row at a time. A
// pointer is at the first gate; each other gate is h4 bytes further.
type cell struct {
	v              isa
	rows, h4, h12  reg.GPVirtual
	ahead          reg.GPVirtual // from the last vector of a row to the next row's end
	single, triple []reg.GPVirtual
}

func newCell(v isa) *cell {
	c := &cell{v: v, rows: arg("rows"), h4: arg("hidden")}
	SHLQ(Imm(2), c.h4)
	c.h12 = GP64()
	LEAQ(Mem{Base: c.h4, Index: c.h4, Scale: 2}, c.h12)
	c.ahead = copyOf(c.h4)
	done := arg("vecs")
	SHLQ(Imm(uint64(bits.Len(uint(v.bytes))-1)), done)
	SUBQ(done, c.ahead)
	return c
}

// one and three load pointers of arrays with one and with three or four gates.
func (c *cell) one(name string) reg.GPVirtual {
	p := arg(name)
	c.single = append(c.single, p)
	return p
}

func (c *cell) three(name string) reg.GPVirtual {
	p := arg(name)
	c.triple = append(c.triple, p)
	return p
}

// gate is the memory of a gate of the array at p.
func (c *cell) gate(p reg.GPVirtual, gate int) Mem {
	switch gate {
	case 0:
		return Mem{Base: p}
	case 3:
		return Mem{Base: p, Index: c.h12, Scale: 1}
	default:
		return Mem{Base: p, Index: c.h4, Scale: uint8(gate)}
	}
}

// next moves pointers on by a vector.
func (c *cell) next(ps ...reg.GPVirtual) {
	for _, p := range ps {
		ADDQ(Imm(uint64(c.v.bytes)), p)
	}
}

// nextRow moves all arrays on to the start of the next row.
func (c *cell) nextRow() {
	for _, p := range c.single {
		ADDQ(c.ahead, p)
	}
	for _, p := range c.triple {
		ADDQ(c.ahead, p)
		LEAQ(Mem{Base: p, Index: c.h4, Scale: 2}, p)
	}
}

// nextSaved moves the array of four gates on to the start of the next row.
func (c *cell) nextSaved(p reg.GPVirtual) {
	ADDQ(c.ahead, p)
	ADDQ(c.h12, p)
}

// genGRUForward computes vecs ≥ 1 whole vectors of each of rows ≥ 1 rows.
func genGRUForward(v isa) {
	function("gruForward"+v.name, "func(rows, vecs, hidden int, gi, gh, bih, bhh, h, out, save *float32)",
		"computes the first vecs vectors of each row of a GRU cell; save may be nil.")
	c := newCell(v)
	k := v.with([]string{"one", "expMin", "expMax", "tanhMax"}, append(tanhNames, expNames...))
	gi, gh := c.three("gi"), c.three("gh")
	h, out, save := c.one("h"), c.one("out"), arg("save")
	z, a := v.reg(), v.reg() // of the vector that is half done: gate z, argument of tanh
	var bih, bhh reg.GPVirtual

	// (x + bias of x) + (y + bias of y)
	in := func(x, bias reg.GPVirtual, gate int) reg.VecVirtual {
		s := v.load(c.gate(x, gate))
		VADDPS(c.gate(bias, gate), s, s)
		return s
	}
	both := func(gate int) reg.VecVirtual {
		x, y := in(gi, bih, gate), in(gh, bhh, gate)
		VADDPS(y, x, x)
		return x
	}
	// The first half of a vector: the gates r and z, and a.
	begin := func() (r, z reg.VecVirtual) {
		r, z = both(0), both(1)
		k.beginSigmoid(r)
		k.beginSigmoid(z)
		return r, z
	}
	gates := func(scale, q []Op, kept string) {
		r := k.finishSigmoid(scale[0], q[0])
		ghn := in(gh, bhh, 2)
		VMOVUPS(in(gi, bih, 2), a)
		VFMADD231PS(ghn, r, a)
		VMOVUPS(k.finishSigmoid(scale[1], q[1]), z)
		TESTQ(save, save)
		JZ(LabelRef(kept))
		VMOVUPS(r, c.gate(save, 0))
		VMOVUPS(z, c.gate(save, 1))
		VMOVUPS(ghn, c.gate(save, 3))
		c.next(save)
		Label(kept)
		c.next(gi, gh, bih, bhh)
	}
	// The second half: n and the new state. The pointer into save is ahead.
	state := func(scale, q Op, kept string) {
		n := k.finishTanh(scale, q, a)
		d := v.load(Mem{Base: h})
		VSUBPS(n, d, d)
		VFMADD213PS(n, z, d)
		VMOVUPS(d, Mem{Base: out})
		TESTQ(save, save)
		JZ(LabelRef(kept))
		back := c.gate(save, 2)
		back.Disp = -v.bytes
		VMOVUPS(n, back)
		Label(kept)
		c.next(h, out)
	}

	Label("row")
	bih, bhh = arg("bih"), arg("bhh")
	vecs := arg("vecs")
	r0, z0 := begin()
	scale, q := k.expm1Core(r0, z0)
	gates(scale, q, "kept1")
	DECQ(vecs)
	JZ(LabelRef("last"))
	Label("vec")
	r0, z0 = begin()
	scale, q = k.expm1Core(r0, z0, k.beginTanh(a))
	state(scale[2], q[2], "kept2")
	gates(scale, q, "kept3")
	DECQ(vecs)
	JNZ(LabelRef("vec"))
	Label("last")
	scale, q = k.expm1Core(k.beginTanh(a))
	state(scale[0], q[0], "kept4")

	TESTQ(save, save)
	JZ(LabelRef("next"))
	c.nextSaved(save)
	Label("next")
	c.nextRow()
	DECQ(c.rows)
	JNZ(LabelRef("row"))
	finish()
}

// genGRUBackward is the gradient of the same vectors.
func genGRUBackward(v isa) {
	function("gruBackward"+v.name, "func(rows, vecs, hidden int, dout, h, save, dgh, dh *float32)",
		"computes the gradients of the first vecs vectors of each row of a GRU cell, those of the gates "+
			"in place of the gates.")
	c := newCell(v)
	dout, h, save := c.one("dout"), c.one("h"), arg("save")
	dgh, dh := c.three("dgh"), c.one("dh")
	one := v.load(inMemory("one"))
	Label("row")
	vecs := arg("vecs")
	Label("vec")
	oneMinus := func(x reg.VecVirtual) reg.VecVirtual {
		d := v.reg()
		VSUBPS(x, one, d)
		return d
	}
	g := v.load(Mem{Base: dout})
	z, n := v.load(c.gate(save, 1)), v.load(c.gate(save, 2))
	rest := oneMinus(z)
	slope := v.reg() // 1 - n²
	VMOVUPS(one, slope)
	VFNMADD231PS(n, n, slope)
	dan := v.reg()
	VMULPS(rest, g, dan)
	VMULPS(slope, dan, dan)

	daz := v.load(Mem{Base: h})
	VSUBPS(n, daz, daz)
	VMULPS(daz, g, daz)
	VMULPS(rest, z, rest)
	VMULPS(rest, daz, daz)

	direct := v.reg()
	VMULPS(z, g, direct)

	r := v.load(c.gate(save, 0))
	dar := v.reg()
	VMULPS(c.gate(save, 3), dan, dar)
	rise := oneMinus(r)
	VMULPS(rise, r, rise)
	VMULPS(rise, dar, dar)
	gated := v.reg()
	VMULPS(r, dan, gated)

	for gate, x := range []reg.VecVirtual{dar, daz, dan, gated} {
		VMOVUPS(x, c.gate(save, gate))
	}
	for gate, x := range []reg.VecVirtual{dar, daz, gated} {
		VMOVUPS(x, c.gate(dgh, gate))
	}
	VMOVUPS(direct, Mem{Base: dh})
	c.next(dout, h, save, dgh, dh)
	DECQ(vecs)
	JNZ(LabelRef("vec"))
	c.nextRow()
	c.nextSaved(save)
	DECQ(c.rows)
	JNZ(LabelRef("row"))
	finish()
}
