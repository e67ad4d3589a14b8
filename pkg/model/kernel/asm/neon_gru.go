package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
)

// neonCell is [cell] for NEON: gates are reached through a temporary pointer.
type neonCell struct {
	*neon
	rows, h4, ahead, twice, temp string
	single, triple               []string
}

func newNEONCell(n *neon) *neonCell {
	c := &neonCell{neon: n, rows: n.arg("rows"), h4: n.arg("hidden"),
		ahead: n.general(), twice: n.general(), temp: n.general()}
	n.line("LSL $2, %s", c.h4)
	n.line("LSL $1, %s, %s", c.h4, c.twice)
	n.line("MOVD %s, %s", n.parameter("vecs"), c.temp)
	n.line("SUB %s<<4, %s, %s", c.temp, c.h4, c.ahead)
	return c
}

func (c *neonCell) one(name string) string {
	p := c.arg(name)
	c.single = append(c.single, p)
	return p
}

func (c *neonCell) three(name string) string {
	p := c.arg(name)
	c.triple = append(c.triple, p)
	return p
}

// gate is the memory of a gate of the array at p, until the next call.
func (c *neonCell) gate(p string, gate int) string {
	switch gate {
	case 0:
		return fmt.Sprintf("(%s)", p)
	case 1:
		c.line("ADD %s, %s, %s", c.h4, p, c.temp)
	case 2:
		c.line("ADD %s, %s, %s", c.twice, p, c.temp)
	case 3:
		c.line("ADD %s, %s, %s", c.twice, p, c.temp)
		c.line("ADD %s, %s, %s", c.h4, c.temp, c.temp)
	}
	return fmt.Sprintf("(%s)", c.temp)
}

func (c *neonCell) next(ps ...string) {
	for _, p := range ps {
		c.line("ADD $16, %s", p)
	}
}

func (c *neonCell) nextRow() {
	for _, p := range c.single {
		c.line("ADD %s, %s", c.ahead, p)
	}
	for _, p := range c.triple {
		c.line("ADD %s, %s", c.ahead, p)
		c.line("ADD %s, %s", c.twice, p)
	}
}

func (c *neonCell) nextSaved(p string) {
	c.line("ADD %s, %s", c.ahead, p)
	c.line("ADD %s, %s", c.twice, p)
	c.line("ADD %s, %s", c.h4, p)
}

func genGRUNEON() {
	genGRUForwardNEON()
	genGRUBackwardNEON()
}

// genGRUForwardNEON follows [genGRUForward].
func genGRUForwardNEON() {
	n := newNEON("gruForward", "func(rows, vecs, hidden int, gi, gh, bih, bhh, h, out, save *float32)",
		"computes the first vecs vectors of each row of a GRU cell; save may be nil.")
	c := newNEONCell(n)
	k := n.with(append(append([]string{"one", "expMin", "expMax", "tanhMax"}, tanhNames...), expNames...)...)
	gi, gh := c.three("gi"), c.three("gh")
	h, out, save := c.one("h"), c.one("out"), n.arg("save")
	bih, bhh, vecs := n.general(), n.general(), n.general()
	z, a := n.fresh(), n.fresh()

	in := func(x, bias string, gate int) Op {
		s := n.load(c.gate(x, gate))
		n.add(n.load(c.gate(bias, gate)), s, s)
		return s
	}
	both := func(gate int) Op {
		x, y := in(gi, bih, gate), in(gh, bhh, gate)
		n.add(y, x, x)
		return x
	}
	begin := func() (r, z Op) {
		r, z = both(0), both(1)
		k.beginSigmoid(r)
		k.beginSigmoid(z)
		return r, z
	}
	gates := func(scale, q []Op, kept string) {
		r := k.finishSigmoid(scale[0], q[0])
		ghn := in(gh, bhh, 2)
		n.move(in(gi, bih, 2), a)
		n.fusedAdd(ghn, r, a)
		n.move(k.finishSigmoid(scale[1], q[1]), z)
		n.jump(fmt.Sprintf("CBZ %s,", save), kept)
		n.store(r, c.gate(save, 0))
		n.store(z, c.gate(save, 1))
		n.store(ghn, c.gate(save, 3))
		c.next(save)
		n.label(kept)
		c.next(gi, gh, bih, bhh)
	}
	state := func(scale, q Op, kept string) {
		next := k.finishTanh(scale, q, a)
		d := n.load(fmt.Sprintf("(%s)", h))
		n.sub(next, d, d)
		n.fusedScale(next, z, d)
		n.store(d, fmt.Sprintf("(%s)", out))
		n.jump(fmt.Sprintf("CBZ %s,", save), kept)
		n.store(next, "-16"+c.gate(save, 2))
		n.label(kept)
		c.next(h, out)
	}

	n.label("row")
	n.line("MOVD %s, %s", n.parameter("bih"), bih)
	n.line("MOVD %s, %s", n.parameter("bhh"), bhh)
	n.line("MOVD %s, %s", n.parameter("vecs"), vecs)
	r0, z0 := begin()
	scale, q := k.expm1Core(r0, z0)
	gates(scale, q, "kept1")
	n.line("SUBS $1, %s", vecs)
	n.jump("BEQ", "last")
	n.label("vec")
	r0, z0 = begin()
	scale, q = k.expm1Core(r0, z0, k.beginTanh(a))
	state(scale[2], q[2], "kept2")
	gates(scale, q, "kept3")
	n.line("SUBS $1, %s", vecs)
	n.jump("BNE", "vec")
	n.label("last")
	scale, q = k.expm1Core(k.beginTanh(a))
	state(scale[0], q[0], "kept4")

	n.jump(fmt.Sprintf("CBZ %s,", save), "next")
	c.nextSaved(save)
	n.label("next")
	c.nextRow()
	n.line("SUBS $1, %s", c.rows)
	n.jump("BNE", "row")
	n.finish()
}

// genGRUBackwardNEON follows [genGRUBackward].
func genGRUBackwardNEON() {
	n := newNEON("gruBackward", "func(rows, vecs, hidden int, dout, h, save, dgh, dh *float32)",
		"computes the gradients of the first vecs vectors of each row of a GRU cell, those of the gates",
		"in place of the gates.")
	c := newNEONCell(n)
	one := n.with("one").k("one")
	dout, h, save := c.one("dout"), c.one("h"), n.arg("save")
	dgh, dh, vecs := c.three("dgh"), c.one("dh"), n.general()
	n.label("row")
	n.line("MOVD %s, %s", n.parameter("vecs"), vecs)
	n.label("vec")
	oneMinus := func(x Op) Op {
		d := n.fresh()
		n.sub(x, one, d)
		return d
	}
	product := func(x, y Op) Op {
		p := n.fresh()
		n.mul(x, y, p)
		return p
	}
	g := n.load(fmt.Sprintf("(%s)", dout))
	z, state := n.load(c.gate(save, 1)), n.load(c.gate(save, 2))
	rest := oneMinus(z)
	slope := n.fresh() // 1 - n²
	n.move(one, slope)
	n.fusedSub(state, state, slope)
	dan := product(rest, g)
	n.mul(slope, dan, dan)

	daz := n.load(fmt.Sprintf("(%s)", h))
	n.sub(state, daz, daz)
	n.mul(daz, g, daz)
	n.mul(rest, z, rest)
	n.mul(rest, daz, daz)
	direct := product(z, g)

	r := n.load(c.gate(save, 0))
	dar := product(n.load(c.gate(save, 3)), dan)
	rise := oneMinus(r)
	n.mul(rise, r, rise)
	n.mul(rise, dar, dar)
	gated := product(r, dan)

	for gate, x := range []Op{dar, daz, dan, gated} {
		n.store(x, c.gate(save, gate))
	}
	for gate, x := range []Op{dar, daz, gated} {
		n.store(x, c.gate(dgh, gate))
	}
	n.store(direct, fmt.Sprintf("(%s)", dh))
	c.next(dout, h, save, dgh, dh)
	n.line("SUBS $1, %s", vecs)
	n.jump("BNE", "vec")
	c.nextRow()
	c.nextSaved(save)
	n.line("SUBS $1, %s", c.rows)
	n.jump("BNE", "row")
	n.finish()
}
