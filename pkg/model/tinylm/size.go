package tinylm

import (
	"grpo/pkg/model"
)

// Forward is the work for a number of input tokens and of predictions: 12·L·H² and 2·H·V each. The
// first layer's input projections are looked up in a table of V rows, so 6·H² of each token are not
// executed.
func (s Spec) Forward(inputs, predictions int) model.Work {
	h, l, v := float64(s.Hidden), float64(s.Layers), float64(s.Vocab)
	n, p := float64(inputs), float64(predictions)
	table := 6 * v * h * h
	return model.Work{
		Nominal:  n*12*l*h*h + p*2*h*v,
		Executed: n*(12*l-6)*h*h + p*2*h*v + table,
	}
}

// The CPU memory of a model in bytes, known before allocation. The formulas follow the allocations
// of graph.go, op_*.go and sampler.go; TestMemory compares them with what is allocated. They are
// float64 so that no size can overflow.

// ParamBytes is the memory of one set of weights, or of their gradients, or of
// one moment.
func (s Spec) ParamBytes() float64 { return s.setBytes(s.Vocab) }

func (s Spec) setBytes(headRows int) float64 {
	v, h, l := float64(s.Vocab), float64(s.Hidden), float64(s.Layers)
	return 4 * (v*h + l*6*h*(h+1) + float64(headRows)*(h+1))
}

// LearnerBytes is the memory of a [Learner] for batches of up to this size: with its
// gradients, without the weights.
func (s Spec) LearnerBytes(b model.BatchSize, threads int) float64 {
	return s.ParamBytes() + s.graphBytes(b, threads, s.Vocab, true) + b.Completions*b.Longest*(4*8+1)
}

// ScorerBytes is the memory of a [Scorer] without the weights.
func (s Spec) ScorerBytes(b model.BatchSize, threads int) float64 {
	return s.graphBytes(b, threads, s.Vocab, false) + b.Completions*b.Longest*(2*8+1)
}

// CriticBytes is the memory of a [Critic] that scores batches of the size all and trains on batches
// of the size part, with its weights and moments.
func (s Spec) CriticBytes(all, part model.BatchSize, threads int) float64 {
	return 4*s.setBytes(1) + s.graphBytes(all, threads, 1, false) + all.Completions*all.Longest*(8+1) +
		s.graphBytes(part, threads, 1, true) + part.Completions*part.Longest*(2*8+1)
}

// graphBytes is the memory of a graph and of the batch laid out for it. A head of
// one row is a critic's.
func (s Spec) graphBytes(b model.BatchSize, threads, headRows int, differentiate bool) float64 {
	grown := func(n float64) float64 { return n + n/8 + 1 } // as capacity.grow does
	h, v, workers := float64(s.Hidden), float64(s.Vocab), float64(max(1, threads))
	n, in, steps := grown(b.Prompts), grown(b.PromptTokens), grown(b.LongestPrompt)
	rows, rowIn, rowSteps := grown(b.Completions), grown(max(1, b.Tokens-b.Completions)), grown(max(1, b.Longest-1))
	states, rowStates := n+in, rows+rowIn
	panels := func(n float64) float64 { return (n + 15) - float64(int64(n+15)%16) } // a packed matrix's columns
	packed := max(h*panels(3*h), 3*h*panels(h))
	var back float64 // 1 with a backward pass
	if differentiate {
		back = 1
	}
	gru := func(n, in, table float64) float64 {
		x := (1-table)*(packed+back*((n+in)*h+3*h*h)) + table*back*v*3*h
		return x + (n+in)*h + workers*maxChunk*6*h + packed + back*(5*in*h+n*h+3*h*h+6*h)
	}
	floats := v*3*h + back*(v*h+3*h*h) // the table
	for l := range s.Layers {
		table := 0.0
		if l == 0 {
			table = 1
		}
		floats += gru(n, in, table) + gru(rows, rowIn, table)
		floats += rows*h + back*states*h // the prompts' last states
	}
	ints := in + steps + rowIn + rowSteps + rows + 2
	if headRows == 1 {
		floats += rowStates + back*(rowStates*(h+1)+h+1)
	} else {
		ints += rowStates
		floats += 2*rowStates + max(h*panels(v), v*panels(h))
		floats += (1-back)*workers*headChunk*v + back*(rowStates*(v+h+2)+v*h+v)
	}
	batch := b.PromptTokens + 3*b.Prompts + 2*b.LongestPrompt + 2*b.Tokens + 3*b.Completions + 2*b.Longest
	return 4*floats + 8*(ints+batch)
}

// PassBytes is 0: a learner, a scorer and a sampler have their own memory.
func (s Spec) PassBytes(learn, score model.BatchSize, sample []model.BatchSize, threads int) float64 {
	return 0
}

// SamplerBytes is the memory of a [Sampler] without the samples.
func (s Spec) SamplerBytes(threads int) float64 {
	h, v, l, workers := float64(s.Hidden), float64(s.Vocab), float64(s.Layers), float64(max(1, threads))
	floats := v*3*h + 2*l*h*(3*h+15) + h*(v+15)
	floats += workers * (maxChunk*(6*h+2*l*h+v) + 5*v)
	return 4 * floats
}

// SampledBytes is the result of one call of [Sampler.Sample] with the prompts'
// states.
func (s Spec) SampledBytes(prompts, group, maxTokens float64) float64 {
	const completion, token = 56, 8 + 4
	return prompts*group*(completion+maxTokens*token) + prompts*(4*float64(s.Layers)*float64(s.Hidden)+8)
}
