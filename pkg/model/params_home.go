package model

import "fmt"

// home is where the numbers of a Params are worked on when that is not the slice
// Flat: the memory of a GPU. There Flat is a copy on the host, brought up to
// date by Pull.
type home interface {
	pull() error
	push() error
	zero()
	finite() bool
	update(a *AdamW, w, g *Params, lr, maxNorm float64) (norm float64, err error)
	leave()
}

// Pull brings Flat up to date with the numbers on a device. Whoever reads Flat
// calls it before; where the numbers live in Flat, as on the CPU, it does
// nothing.
func (p *Params) Pull() error {
	if p.home == nil {
		return nil
	}
	return p.home.pull()
}

// Push takes over what was written into Flat. Whoever writes it calls Push
// behind; where the numbers live in Flat it does nothing.
func (p *Params) Push() error {
	if p.home == nil {
		return nil
	}
	return p.home.push()
}

// Set copies the numbers of q, of the same size, wherever either lives.
func (p *Params) Set(q *Params) error {
	if len(p.Flat) != len(q.Flat) {
		return fmt.Errorf("copy parameters: %d numbers into %d", len(q.Flat), len(p.Flat))
	}
	if err := q.Pull(); err != nil {
		return err
	}
	copy(p.Flat, q.Flat)
	return p.Push()
}

func (p *Params) zero() {
	if p.home != nil {
		p.home.zero()
		return
	}
	clear(p.Flat)
}

// leave gives up a home; Flat is what it is then.
func (p *Params) leave() {
	if p.home != nil {
		p.home.leave()
		p.home = nil
	}
}
