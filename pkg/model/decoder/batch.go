package decoder

import (
	"grpo/pkg/model"
)

// packed is a [model.Batch] as a tree, with the places of its predictions.
type packed struct {
	tree *Tree
	b, t int // completions, and the most tokens of one
	// Of each prediction, completion by completion: the place in the tree of the state
	// before the token, the token, and its element of a (b, t) matrix.
	places, targets, elements []int
}

// pack lays out a batch: what all prompts begin with, the rest of each, the completions.
// The last token of a completion is predicted and not read.
func pack(batch *model.Batch, vocab int) (*packed, error) {
	if err := batch.Check(vocab); err != nil {
		return nil, err
	}
	segments, leaf := PromptTree(batch.Prompts)
	p := &packed{b: len(batch.Rows)}
	for _, r := range batch.Rows {
		segments = append(segments, Segment{Parent: leaf[r.Prompt], Tokens: narrow(r.Tokens[:len(r.Tokens)-1]), Sampled: true})
		p.t = max(p.t, len(r.Tokens))
	}
	var err error
	if p.tree, err = NewTree(segments); err != nil {
		return nil, err
	}
	first := len(segments) - len(batch.Rows)
	for i, r := range batch.Rows {
		prompt := leaf[r.Prompt]
		at := p.tree.Start[prompt] + len(segments[prompt].Tokens) - 1
		for j, id := range r.Tokens {
			p.places, p.targets, p.elements = append(p.places, at), append(p.targets, id), append(p.elements, i*p.t+j)
			at = p.tree.Start[first+i] + j
		}
	}
	return p, nil
}

// mask marks the elements that have a token.
func (p *packed) mask() []bool {
	mask := make([]bool, p.b*p.t)
	for _, e := range p.elements {
		mask[e] = true
	}
	return mask
}

// spread writes numbers of the predictions to their elements of a (b, t) matrix.
func (p *packed) spread(x []float32) []float64 {
	out := make([]float64, p.b*p.t)
	for i, e := range p.elements {
		out[e] = float64(x[i])
	}
	return out
}

// collect is the reverse of spread: it writes to out.
func (p *packed) collect(x []float64, out []float32) {
	for i, e := range p.elements {
		out[i] = float32(x[e])
	}
}

// matrix holds the predictions' log-probabilities and entropies, (2, predictions).
func (p *packed) matrix(x []float32) *model.TokenMatrix {
	n := len(p.elements)
	return &model.TokenMatrix{B: p.b, T: p.t, LogProbs: p.spread(x[:n]), Entropy: p.spread(x[n:]), Mask: p.mask()}
}

// values holds the predictions' values.
func (p *packed) values(x []float32) *model.ValueMatrix {
	return &model.ValueMatrix{B: p.b, T: p.t, Values: p.spread(x), Mask: p.mask()}
}
