// Package tinylm is TinyLM, a small recurrent language model (embedding, GRU layers, linear head),
// as a Gorgonia graph for learning and as a plain loop for sampling. It implements [model.Policy].
//
// The graph has few, fused nodes. For each of the two segments of a batch, the prompts (once for a
// group) and the completions:
//
//	table(embedding, W_ih) -> gru -> gru ...
//	                                      |
//	prompts' last states: lastState ------+--> the completions' first states
//	completions' top states -> headLogProb -> policyLoss
//
// A [Learner] runs this graph forward and backward, a [Scorer] forward up to headLogProb; a
// [Critic] has its own weights and ends in valueHead -> valueLoss instead.
//
// Gorgonia builds the graph, differentiates through it and adds the gradients of weights that are
// used twice. A [Backend] computes the nodes; the CPU's uses pkg/model/kernel. Losses come from
// pkg/rl ([model.Objective]).
package tinylm

import (
	"fmt"
	"time"

	G "gorgonia.org/gorgonia"

	"grpo/pkg/model"
	"grpo/pkg/model/fused"
)

// Learner computes gradients of a TinyLM. The graph is built for a capacity, not
// for a batch: lengths are inputs, so smaller batches reuse the graph, and a larger
// one builds another.
type Learner struct {
	grads *model.Params // summed over calls of Accumulate until ZeroGrads

	pass      pass
	objective model.Objective
	tokens    model.TokenMatrix
	loss      float64
}

// NewLearner returns a learner of p's weights, which it reads at every pass and never changes.
// Temperature divides the logits, as in sampling.
func NewLearner(p *Weights, temperature float64, on model.Device) (*Learner, error) {
	if err := checkTemperature(temperature); err != nil {
		return nil, fmt.Errorf("new learner: %w", err)
	}
	l := &Learner{grads: p.Zeros()}
	if err := place(on, p.Params, l.grads); err != nil {
		return nil, fmt.Errorf("new learner: %w", err)
	}
	l.pass = pass{vocab: p.Vocab, build: func(c Capacity) (*graph, error) {
		return newGraph(on, p, c, true, func(b *builder, t backbone) *G.Node {
			return b.Loss("policyLoss", b.logProbs(t, temperature), b.ops, l.evaluate)
		})
	}}
	return l, nil
}

// place stores parameters on a device.
func place(on model.Device, params ...*model.Params) error {
	for _, p := range params {
		if err := backendOf(on).Place(p); err != nil {
			return err
		}
	}
	return nil
}

func checkTemperature(temperature float64) error {
	if !(temperature > 0) {
		return fmt.Errorf("temperature %v must be above 0", temperature)
	}
	return nil
}

func (l *Learner) ZeroGrads() { l.grads.Zero() }

func (l *Learner) Grads() *model.Params { return l.grads }

// Watch starts measuring time: see Watched.
func (l *Learner) Watch(now func() time.Time) { l.pass.watch = fused.Stopwatch{Now: now} }

// Watched returns the time of the graph's runs since Watch, and the part spent in the arithmetic of
// its nodes; the rest is Gorgonia's machine.
func (l *Learner) Watched() (runs, arithmetic time.Duration) {
	return l.pass.watch.Runs, l.pass.watch.Busy
}

// Close frees the graph and the gradients.
func (l *Learner) Close() error {
	l.grads.Release()
	return l.pass.close()
}

// Accumulate implements [model.Learner].
func (l *Learner) Accumulate(batch *model.Batch, objective model.Objective) (float64, error) {
	l.objective = objective
	if err := l.pass.run(batch); err != nil {
		return 0, err
	}
	return l.loss, l.pass.graph.addGrads(l.grads)
}

// evaluate is the loss node's arithmetic: logp and d are (2, states), row 0 of
// the log-probabilities and row 1 of the entropies.
func (l *Learner) evaluate(logp, d []float32) (float64, error) {
	m, p := &l.tokens, &l.pass.packed
	p.readTokens(m, logp)
	m.DLogProbs, m.DEntropy = zeroed(m.DLogProbs, m.B*m.T), zeroed(m.DEntropy, m.B*m.T)
	loss, err := l.objective(m)
	if err != nil {
		return 0, err
	}
	l.loss = loss
	n := len(d) / 2
	p.fromRows(d[:n], m.DLogProbs)
	p.fromRows(d[n:], m.DEntropy)
	return loss, nil
}

// Scorer computes log-probabilities and entropies of given completions: those
// of a reference policy, a teacher, or the policy itself. It is the learner's
// graph without the backward pass, with the same bits.
type Scorer struct {
	pass   pass
	tokens model.TokenMatrix
}

// NewScorer returns a scorer of p's weights, which it reads at every pass and never changes.
// Temperature divides the logits, as in sampling.
func NewScorer(p *Weights, temperature float64, on model.Device) (*Scorer, error) {
	if err := checkTemperature(temperature); err != nil {
		return nil, fmt.Errorf("new scorer: %w", err)
	}
	if err := place(on, p.Params); err != nil {
		return nil, fmt.Errorf("new scorer: %w", err)
	}
	build := func(c Capacity) (*graph, error) {
		return newGraph(on, p, c, false, func(b *builder, t backbone) *G.Node { return b.logProbs(t, temperature) })
	}
	return &Scorer{pass: pass{vocab: p.Vocab, build: build}}, nil
}

// Score implements [model.Scorer].
func (s *Scorer) Score(batch *model.Batch) (*model.TokenMatrix, error) {
	if err := s.pass.run(batch); err != nil {
		return nil, err
	}
	x, err := s.pass.graph.output()
	if err != nil {
		return nil, err
	}
	s.pass.packed.readTokens(&s.tokens, x)
	return &s.tokens, nil
}

// Close frees the graph's machine.
func (s *Scorer) Close() error { return s.pass.close() }
