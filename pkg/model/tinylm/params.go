package tinylm

import (
	"fmt"
	"math"
	"math/rand/v2"

	"grpo/pkg/model"
	"grpo/pkg/rng"
)

// Spec is the size of a TinyLM. The embedding is as wide as the hidden state.
type Spec struct {
	Vocab, Hidden, Layers int
}

// Parameters counts the trainable numbers: V·H for the embedding, 6H²+6H for
// each GRU layer, V·H+V for the head.
func (s Spec) Parameters() int {
	return s.backboneParameters() + s.Vocab*(s.Hidden+1)
}

// backboneParameters counts those below the head.
func (s Spec) backboneParameters() int {
	return s.Vocab*s.Hidden + s.Layers*(6*s.Hidden*s.Hidden+6*s.Hidden)
}

func (s Spec) String() string {
	return fmt.Sprintf("TinyLM(vocab %d, hidden %d, layers %d: %d parameters)",
		s.Vocab, s.Hidden, s.Layers, s.Parameters())
}

func (s Spec) check() error {
	if s.Vocab < 1 || s.Hidden < 1 || s.Layers < 1 {
		return fmt.Errorf("model size %+v: vocab, hidden and layers must be at least 1", s)
	}
	return nil
}

// LayerParams are the weights of one GRU layer in PyTorch's layout: the rows
// of the gates r, z, n stacked.
type LayerParams struct {
	Wih []float32 // 3H×H
	Whh []float32 // 3H×H
	Bih []float32 // 3H
	Bhh []float32 // 3H
}

// Weights are TinyLM's parameters: the flat numbers, and views into them.
//
// The weights of a critic have the same form with a head of one row: a sampler or a learner can't
// use them.
type Weights struct {
	Spec
	*model.Params
	Embed []float32 // V×H
	Layer []LayerParams
	Head  []float32 // V×H
	HeadB []float32 // V
}

// NewWeights returns zeros in the form of s.
func NewWeights(s Spec) (*Weights, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	return newWeights(s, s.Vocab), nil
}

// form lists the tensors of s in the order of the checkpoint, under PyTorch's
// names, with a head of the given number of rows.
func (s Spec) form(headRows int) []model.Tensor {
	h := s.Hidden
	form := []model.Tensor{{Name: "embed.weight", Shape: []int{s.Vocab, h}}}
	for l := range s.Layers {
		form = append(form,
			model.Tensor{Name: fmt.Sprintf("rnn.weight_ih_l%d", l), Shape: []int{3 * h, h}},
			model.Tensor{Name: fmt.Sprintf("rnn.weight_hh_l%d", l), Shape: []int{3 * h, h}},
			model.Tensor{Name: fmt.Sprintf("rnn.bias_ih_l%d", l), Shape: []int{3 * h}},
			model.Tensor{Name: fmt.Sprintf("rnn.bias_hh_l%d", l), Shape: []int{3 * h}})
	}
	return append(form, model.Tensor{Name: "head.weight", Shape: []int{headRows, h}},
		model.Tensor{Name: "head.bias", Shape: []int{headRows}})
}

// newWeights returns zeros in the form of a checked s, but for a head of the
// given number of rows.
func newWeights(s Spec, headRows int) *Weights { return view(s, model.NewParams(s.form(headRows))) }

// view names the parts of p, whose form is that of s.
func view(s Spec, p *model.Params) *Weights {
	w := &Weights{Spec: s, Params: p}
	rest := p.Tensors()
	next := func() []float32 {
		data := rest[0].Data
		rest = rest[1:]
		return data
	}
	w.Embed = next()
	for range s.Layers {
		w.Layer = append(w.Layer, LayerParams{Wih: next(), Whh: next(), Bih: next(), Bhh: next()})
	}
	w.Head, w.HeadB = next(), next()
	return w
}

// Clone returns a copy of the numbers on the host: see [model.Params.Pull].
func (w *Weights) Clone() *Weights { return view(w.Spec, w.Params.Clone()) }

// Init sets the weights that a base model starts from: embeddings N(0, 1), Xavier-uniform input
// weights for each gate, an orthogonal recurrent block for each gate (repeated matmuls neither fade
// nor grow over a prompt's length), a uniform head in ±1/√H, zero biases except +1 on the update
// gate in bias_ih, which makes a new cell keep its state.
func (p *Weights) Init(seed uint64) {
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
			l.Wih[i] = float32((float64(2*float64(r.Float64())) - 1) * bound)
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
		p.Head[i] = float32((float64(2*float64(r.Float64())) - 1) * bound)
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
					dot += float64(row[k] * other[k])
				}
				for k := range row {
					row[k] -= float64(dot * other[k])
				}
			}
		}
		var norm float64
		for _, v := range row {
			norm += float64(v * v)
		}
		norm = math.Sqrt(norm)
		for k := range row {
			row[k] /= norm
			w[i*n+k] = float32(row[k])
		}
	}
}
