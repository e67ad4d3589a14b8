package model

import (
	"fmt"
	"math"
	"math/rand/v2"

	"grpo/pkg/rng"
)

// Spec is the size of a TinyLM. The embedding is as wide as the hidden state.
type Spec struct {
	Vocab, Hidden, Layers int
}

// Parameters counts the trainable numbers: V·H for the embedding, 6H²+6H for
// each GRU layer, V·H+V for the head.
func (s Spec) Parameters() int {
	return s.trunkParameters() + s.Vocab*(s.Hidden+1)
}

// trunkParameters counts those below the head.
func (s Spec) trunkParameters() int {
	return s.Vocab*s.Hidden + s.Layers*(6*s.Hidden*s.Hidden+6*s.Hidden)
}

func (s Spec) String() string {
	return fmt.Sprintf("TinyLM(vocab %d, hidden %d, layers %d: %d parameters)", s.Vocab, s.Hidden, s.Layers, s.Parameters())
}

func (s Spec) check() error {
	if s.Vocab < 1 || s.Hidden < 1 || s.Layers < 1 {
		return fmt.Errorf("model size %+v: vocab, hidden and layers must be at least 1", s)
	}
	return nil
}

// Tensor is a named view into the flat parameters, row-major.
type Tensor struct {
	Name  string
	Shape []int
	Data  []float32
}

// LayerParams are the weights of one GRU layer in PyTorch's layout: the rows
// of the gates r, z, n stacked.
type LayerParams struct {
	Wih []float32 // 3H×H
	Whh []float32 // 3H×H
	Bih []float32 // 3H
	Bhh []float32 // 3H
}

// Params are TinyLM's weights, or anything of the same form (gradients,
// moments): one flat slice and named views into it.
//
// The weights and moments of a [Critic] have the form too, with a head of one
// row: a sampler or a learner can't use them.
type Params struct {
	Spec
	Flat   []float32
	Embed  []float32 // V×H
	Layer  []LayerParams
	Head   []float32 // V×H
	HeadB  []float32 // V
	tensor []Tensor
	home   home // nil: Flat itself
}

// NewParams returns zeros in the form of s.
func NewParams(s Spec) (*Params, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	return newParams(s, s.Vocab), nil
}

// newParams returns zeros in the form of a checked s, but for a head of the
// given number of rows.
func newParams(s Spec, headRows int) *Params {
	p := &Params{Spec: s, Flat: make([]float32, s.trunkParameters()+headRows*(s.Hidden+1))}
	rest := p.Flat
	take := func(name string, shape ...int) []float32 {
		n := 1
		for _, d := range shape {
			n *= d
		}
		v := rest[:n:n]
		rest = rest[n:]
		p.tensor = append(p.tensor, Tensor{name, shape, v})
		return v
	}
	h := s.Hidden
	p.Embed = take("embed.weight", s.Vocab, h)
	for l := range s.Layers {
		p.Layer = append(p.Layer, LayerParams{
			Wih: take(fmt.Sprintf("rnn.weight_ih_l%d", l), 3*h, h),
			Whh: take(fmt.Sprintf("rnn.weight_hh_l%d", l), 3*h, h),
			Bih: take(fmt.Sprintf("rnn.bias_ih_l%d", l), 3*h),
			Bhh: take(fmt.Sprintf("rnn.bias_hh_l%d", l), 3*h),
		})
	}
	p.Head = take("head.weight", headRows, h)
	p.HeadB = take("head.bias", headRows)
	return p
}

// zeros returns zeros in p's form.
func (p *Params) zeros() *Params { return newParams(p.Spec, len(p.HeadB)) }

// Tensors lists the named views in the order of the checkpoint, under
// PyTorch's names.
func (p *Params) Tensors() []Tensor { return p.tensor }

// Clone returns a copy of Flat: see [Params.Pull].
func (p *Params) Clone() *Params {
	q := p.zeros()
	copy(q.Flat, p.Flat)
	return q
}

// Finite reports whether no parameter is NaN or infinite, and the name of the
// first tensor that holds one. It brings Flat up to date only where there is one
// to be named.
func (p *Params) Finite() (string, bool) {
	if p.home != nil && p.home.finite() {
		return "", true
	}
	// What can't be brought here any more has no answer; the next call that has
	// an error to return says why.
	if p.Pull() != nil {
		return "", true
	}
	if t, _ := p.firstNotFinite(); t != nil {
		return t.Name, false
	}
	return "", true
}

// CheckFinite refuses weights that hold a NaN or an infinity; the error names the
// tensor and the index. [ReadFile] accepts them, because a run that diverged saves
// what it came to.
func (p *Params) CheckFinite() error {
	t, at := p.firstNotFinite()
	if t == nil {
		return nil
	}
	index := make([]int, len(t.Shape))
	for d, rest := len(index)-1, at; d >= 0; d-- {
		index[d], rest = rest%t.Shape[d], rest/t.Shape[d]
	}
	return fmt.Errorf("tensor %q holds %v at %v: these weights are not finite (if the run that wrote them diverged, use a checkpoint from before)", t.Name, t.Data[at], index)
}

// firstNotFinite returns the first tensor that holds a NaN or an infinity and
// the place in it, or nil. It looks at Flat as it is: see [Params.Pull].
func (p *Params) firstNotFinite() (*Tensor, int) {
	for i := range p.tensor {
		for at, v := range p.tensor[i].Data {
			if d := v - v; d != 0 { // NaN for NaN and for infinities
				return &p.tensor[i], at
			}
		}
	}
	return nil, 0
}

// Init sets the weights that a base model starts from: embeddings N(0, 1),
// Xavier-uniform input weights for each gate, an orthogonal recurrent block
// for each gate (its products neither fade nor grow over a prompt's length), a
// uniform head in ±1/√H, zero biases but for +1 on the update gate in bias_ih,
// which makes a new cell keep its state.
func (p *Params) Init(seed uint64) {
	clear(p.Flat)
	h := p.Hidden
	stream := rng.New(seed, rng.Weights)
	source := func(i int) *rand.Rand { return rand.New(stream.Sequence(uint32(i), 0, 0)) }
	next := 0
	draw := func() *rand.Rand { next++; return source(next) }
	r := draw()
	for i := range p.Embed {
		p.Embed[i] = float32(r.NormFloat64())
	}
	for _, l := range p.Layer {
		bound := math.Sqrt(6 / float64(h+h))
		r := draw()
		for i := range l.Wih {
			l.Wih[i] = float32((2*r.Float64() - 1) * bound)
		}
		for gate := range 3 {
			orthogonal(l.Whh[gate*h*h:(gate+1)*h*h], h, draw())
		}
		for i := h; i < 2*h; i++ {
			l.Bih[i] = 1
		}
	}
	bound := 1 / math.Sqrt(float64(h))
	r = draw()
	for i := range p.Head {
		p.Head[i] = float32((2*r.Float64() - 1) * bound)
	}
}

// orthogonal fills the n×n matrix w with a random orthogonal one: normals,
// then modified Gram-Schmidt in float64, twice over each row for accuracy.
func orthogonal(w []float32, n int, r *rand.Rand) {
	q := make([]float64, n*n)
	for i := range q {
		q[i] = r.NormFloat64()
	}
	for i := range n {
		row := q[i*n : (i+1)*n]
		for range 2 {
			for j := range i {
				other := q[j*n : (j+1)*n]
				var dot float64
				for k := range row {
					dot += row[k] * other[k]
				}
				for k := range row {
					row[k] -= dot * other[k]
				}
			}
		}
		var norm float64
		for _, v := range row {
			norm += v * v
		}
		norm = math.Sqrt(norm)
		for k := range row {
			row[k] /= norm
			w[i*n+k] = float32(row[k])
		}
	}
}
