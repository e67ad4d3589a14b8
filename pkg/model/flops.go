package model

// Work counts floating-point operations of matrix products, two for each
// multiply-add: what sits between them (gates, softmax) is left out.
type Work struct {
	// Counted is by the usual count of the mathematics, 12·L·H² a token and
	// 2·H·V a prediction, three times that for an update.
	Counted float64
	// Executed leaves out what the implementation gets around: the first
	// layer's input products, which are looked up in a table of V rows.
	Executed float64
}

// Forward is the work of reading the inputs of a pass (tokens that go through
// the recurrence) and predicting so many tokens.
func (s Spec) Forward(inputs, predictions int) Work {
	h, l, v := float64(s.Hidden), float64(s.Layers), float64(s.Vocab)
	n, p := float64(inputs), float64(predictions)
	table := 6 * v * h * h
	return Work{
		Counted:  n*12*l*h*h + p*2*h*v,
		Executed: n*(12*l-6)*h*h + p*2*h*v + table,
	}
}

// Update is the work of a forward and a backward pass: each product comes back
// as two, by its input and by its weights.
func (s Spec) Update(inputs, predictions int) Work {
	w := s.Forward(inputs, predictions)
	return Work{3 * w.Counted, 3 * w.Executed}
}
