package tinylm

import "grpo/pkg/model"

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

// The CPU memory of a model in bytes, known before allocation. They are bounds, a fifth above what
// graph.go, op_*.go and sampler.go allocate at most; TestMemory compares them. They are float64 so that
// no size can overflow.

// ParamBytes is the memory of one set of weights, or of their gradients, or of
// one moment.
func (s Spec) ParamBytes() float64 { return s.setBytes(s.Vocab) }

func (s Spec) setBytes(headRows int) float64 {
	v, h, l := float64(s.Vocab), float64(s.Hidden), float64(s.Layers)
	return 4 * (v*h + l*6*h*(h+1) + float64(headRows)*(h+1))
}

// WorkBytes implements [model.Size]. Learner, scorers, critic and samplers each have their own memory.
func (s Spec) WorkBytes(u model.Use, threads int) float64 {
	bytes := float64(u.Scorers)*s.graphBytes(u.Score, threads, s.Vocab, false) +
		float64(u.Samplers)*s.samplerBytes(threads)
	if u.Learner {
		bytes += s.ParamBytes() + s.graphBytes(u.Learn, threads, s.Vocab, true)
	}
	if u.Critic {
		bytes += 4*s.setBytes(1) + s.graphBytes(u.Score, threads, 1, false) + s.graphBytes(u.Learn, threads, 1, true)
	}
	return bytes
}

// graphBytes is the memory of a graph and of the batch laid out for it. A head of one row is a
// critic's.
func (s Spec) graphBytes(b model.BatchSize, threads, headRows int, differentiate bool) float64 {
	const spare = 1.125 // of capacity.grow
	h, v, l, workers := float64(s.Hidden), float64(s.Vocab), float64(s.Layers), float64(max(1, threads))
	states, tokens := spare*(b.Prompts+b.PromptTokens+b.Completions+b.Tokens)+8, spare*b.Tokens+8
	layers := l * 6 * (h + 1) * (h + 16) // packed in panels of 16
	floats := 2*layers + 3*v*h + workers*l*2*maxChunk*6*h + states*l*h
	perToken := 2.0
	if differentiate {
		floats += 2*layers + 7*v*h + states*h*(7*l-1)
		perToken += h + 2
	}
	if headRows > 1 {
		floats += (h + 15) * (v + 15)
		if differentiate {
			perToken += v
		} else {
			floats += workers * headChunk * v
		}
	}
	const batch = 8 * 7 // a token's indices and numbers of the batch
	return 4*(floats+tokens*perToken) + batch*states
}

// samplerBytes is the memory of a [Sampler] without the samples.
func (s Spec) samplerBytes(threads int) float64 {
	h, v, l, workers := float64(s.Hidden), float64(s.Vocab), float64(s.Layers), float64(max(1, threads))
	floats := v*3*h + 2*l*h*(3*h+15) + h*(v+15)
	floats += workers * (maxChunk*(6*h+2*l*h+v) + 5*v)
	return 4 * floats
}

// Vocabulary implements [model.Size].
func (s Spec) Vocabulary() int { return s.Vocab }

// SampledBytes is the result of one call of [Sampler.Sample] with the prompts'
// states.
func (s Spec) SampledBytes(prompts, group, maxTokens float64) float64 {
	const completion, token = 88, 8 + 4
	return prompts*group*(completion+maxTokens*token) + prompts*(4*float64(s.Layers)*float64(s.Hidden)+8)
}
