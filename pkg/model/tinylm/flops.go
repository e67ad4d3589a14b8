package tinylm

import "grpo/pkg/model"

// Forward is the work of reading inputs tokens and predicting predictions of
// them: 12·L·H² and 2·H·V each. The first layer's input projections are looked
// up in a table of V rows, so that 6·H² of each token are not executed.
func (s Spec) Forward(inputs, predictions int) model.Work {
	h, l, v := float64(s.Hidden), float64(s.Layers), float64(s.Vocab)
	n, p := float64(inputs), float64(predictions)
	table := 6 * v * h * h
	return model.Work{
		Nominal:  n*12*l*h*h + p*2*h*v,
		Executed: n*(12*l-6)*h*h + p*2*h*v + table,
	}
}
