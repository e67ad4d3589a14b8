package model

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"math"
	"slices"

	"grpo/internal/hugepages"
	"grpo/pkg/model/kernel"
)

// Tensor is a named view into the flat parameters, row-major.
type Tensor struct {
	Name  string
	Shape []int
	Data  []float32
}

// Elements is the number of elements of a shape.
func Elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// Params are the trainable parameters of a network, or numbers of the same form
// (gradients, moments): one flat slice and named views into it.
type Params struct {
	Flat    []float32
	tensors []Tensor
	storage Storage // nil: Flat itself
}

// Storage has the numbers of a [Params] outside Flat, in the memory of a GPU. Flat is then a copy
// on the host, updated by Pull.
type Storage interface {
	Pull() error
	Push() error
	Zero()
	Finite() bool
	// Update is [AdamW.Step] in the storage of the parameters.
	Update(a *AdamW, w, g *Params, lr, maxNorm float64) (norm float64, err error)
	Release()
}

// NewParams returns zeros with the names and shapes of tensors, in their order.
func NewParams(form []Tensor) *Params {
	p := &Params{tensors: make([]Tensor, len(form))}
	total := 0
	for _, t := range form {
		total += Elements(t.Shape)
	}
	p.Flat = hugepages.Floats(total)
	rest := p.Flat
	for i, t := range form {
		n := Elements(t.Shape)
		p.tensors[i] = Tensor{t.Name, t.Shape, rest[:n:n]}
		rest = rest[n:]
	}
	return p
}

// Tensors lists the named views in the order of Flat.
func (p *Params) Tensors() []Tensor { return p.tensors }

// Count is the number of parameters.
func (p *Params) Count() int { return len(p.Flat) }

// Zeros returns zeros in p's form.
func (p *Params) Zeros() *Params { return NewParams(p.tensors) }

// Clone returns a copy of Flat: see [Params.Pull].
func (p *Params) Clone() *Params {
	q := p.Zeros()
	copy(q.Flat, p.Flat)
	return q
}

// Match returns an error that names the first tensor in which q's form differs from p's.
func (p *Params) Match(q *Params) error {
	for i, t := range p.tensors {
		if i >= len(q.tensors) || q.tensors[i].Name != t.Name {
			return fmt.Errorf("tensor %q is missing or out of order", t.Name)
		}
		if !slices.Equal(q.tensors[i].Shape, t.Shape) {
			return fmt.Errorf("tensor %q has shape %v, want %v", t.Name, q.tensors[i].Shape, t.Shape)
		}
	}
	if len(q.tensors) > len(p.tensors) {
		return fmt.Errorf("tensor %q is unknown", q.tensors[len(p.tensors)].Name)
	}
	return nil
}

// Finite reports whether all parameters are finite, and the name of the first
// tensor with one that is not. It updates Flat only to find that name.
func (p *Params) Finite() (string, bool) {
	if p.storage != nil && p.storage.Finite() {
		return "", true
	}
	if p.Pull() != nil { // the next call that returns an error reports it
		return "", true
	}
	if t, _ := p.firstNotFinite(); t != nil {
		return t.Name, false
	}
	return "", true
}

// CheckFinite returns an error for weights with NaN or infinite values; it names the tensor and the
// index. [ReadCheckpointFile] accepts them: a diverged run saves its weights too.
func (p *Params) CheckFinite() error {
	t, at := p.firstNotFinite()
	if t == nil {
		return nil
	}
	index := make([]int, len(t.Shape))
	for d, rest := len(index)-1, at; d >= 0; d-- {
		index[d], rest = rest%t.Shape[d], rest/t.Shape[d]
	}
	return fmt.Errorf("tensor %q has %v at %v: these weights are not finite "+
		"(if the run that wrote them diverged, use an earlier checkpoint)", t.Name, t.Data[at], index)
}

// firstNotFinite returns the first tensor with a NaN or infinite value and its index there, or nil.
// It reads Flat without a Pull.
func (p *Params) firstNotFinite() (*Tensor, int) {
	for i := range p.tensors {
		// float64 holds the sum of the squares of any number of finite float32.
		if s := kernel.SumSquares(p.tensors[i].Data); s-s == 0 {
			continue
		}
		for at, v := range p.tensors[i].Data {
			if d := v - v; d != 0 { // NaN for NaN and for infinities
				return &p.tensors[i], at
			}
		}
	}
	return nil, 0
}

// Pull copies the numbers from a device into Flat. Call it before reading Flat. On
// the CPU it does nothing.
func (p *Params) Pull() error {
	if p.storage == nil {
		return nil
	}
	return p.storage.Pull()
}

// Push copies Flat to the device. Call it after writing Flat. On the CPU it does
// nothing.
func (p *Params) Push() error {
	if p.storage == nil {
		return nil
	}
	return p.storage.Push()
}

// Set copies the numbers of q, of the same size, between any storages.
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

// Zero sets all numbers to 0.
func (p *Params) Zero() {
	if p.storage != nil {
		p.storage.Zero()
		return
	}
	clear(p.Flat)
}

// Storage is the storage of the numbers; nil means Flat itself.
func (p *Params) Storage() Storage { return p.storage }

// Store moves the numbers to s; nil moves them to Flat without copying.
func (p *Params) Store(s Storage) { p.storage = s }

// Release frees the storage; Flat is unchanged.
func (p *Params) Release() {
	if p.storage != nil {
		p.storage.Release()
		p.storage = nil
	}
}

// Hash is the SHA-256 of the numbers as little-endian float32 in their order, in hex. It depends on
// the values only, not on the file format.
func (p *Params) Hash() string {
	h := sha256.New()
	WriteFloats(h, p.Flat)
	return hex.EncodeToString(h.Sum(nil))
}

// WriteFloats adds numbers to a hash as little-endian float32.
func WriteFloats(h hash.Hash, x []float32) {
	const most = 1 << 14
	buf := make([]byte, 0, 4*most) // one for all parts: these add up to the memory of x
	for part := range slices.Chunk(x, most) {
		buf = buf[:0]
		for _, v := range part {
			buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(v))
		}
		h.Write(buf) // a hash returns no error
	}
}

// MixInto moves the parameters of a reference model towards the policy's, elementwise:
//
//	ref <- alpha·policy + (1-alpha)·ref
//
// It is TRL's ref_model_mixup_alpha (Gorbatovski et al., "Learn your reference model for real good
// alignment", 2024): 1 copies the policy, 0 leaves the reference as it is. Computed in float64 and
// rounded once, so that equal numbers do not change. Parameters of another form and an alpha
// outside [0, 1] are errors. A [Scorer] of ref sees the new numbers at its next pass.
func MixInto(ref, policy *Params, alpha float64) error {
	const doing = "mix the policy into the reference"
	if err := ref.Match(policy); err != nil {
		return fmt.Errorf("%s: the policy's %w", doing, err)
	}
	if !(alpha >= 0 && alpha <= 1) {
		return fmt.Errorf("%s: alpha %v must be in [0, 1]", doing, alpha)
	}
	for _, p := range []*Params{ref, policy} {
		if err := p.Pull(); err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
	}
	switch alpha {
	case 0: // not 0·policy, which is NaN if the policy is not finite
	case 1:
		copy(ref.Flat, policy.Flat)
	default:
		for i, w := range policy.Flat {
			// The conversions keep the compiler from fusing, which would give other bits on other
			// processors.
			ref.Flat[i] = float32(float64(alpha*float64(w)) + float64((1-alpha)*float64(ref.Flat[i])))
		}
	}
	return ref.Push()
}

// DistanceFrom compares p with other parameters of the same form: the share of numbers that differ by more than least,
// and the norm of the difference over the norm of the others.
func (p *Params) DistanceFrom(q *Params, least float64) (changed, distance float64, err error) {
	if err := errors.Join(p.Match(q), p.Pull(), q.Pull()); err != nil {
		return 0, 0, fmt.Errorf("compare parameters: %w", err)
	}
	n, moved, all := 0, 0.0, 0.0
	for i, w := range q.Flat {
		d := float64(p.Flat[i]) - float64(w)
		if math.Abs(d) > least {
			n++
		}
		moved, all = moved+float64(d*d), all+float64(float64(w)*float64(w))
	}
	return float64(n) / float64(max(1, len(q.Flat))), math.Sqrt(moved / all), nil
}

// IsFinite reports whether x is neither NaN nor infinite.
func IsFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
