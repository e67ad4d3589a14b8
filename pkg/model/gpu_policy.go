//go:build withcuda && linux

package model

import (
	"fmt"
	"math"

	G "gorgonia.org/gorgonia"

	"grpo/pkg/model/cuda"
)

// gpuPolicy evaluates a [PolicyLoss] on the GPU: one kernel writes the gradient
// of every log-probability. What comes down are its sums, and the
// log-probabilities and entropies for the metrics.
type gpuPolicy struct {
	rowCap int
	rows   *cuda.Mem // advantages, then weights, by rank
	staged []float32 // page-locked
	parts  *cuda.Mem
	sums   []float64
}

// Kinds of the kernel policy_loss.
const (
	kindLogProb = 0
	kindRatio   = 1
)

func (c *gpuCost) direct(x G.Value, p *packed, loss *PolicyLoss) (PolicySums, bool, error) {
	var sums PolicySums
	err := c.net.g.dev.Do(func() (err error) {
		sums, err = c.evaluate(at(x), p, loss)
		return err
	})
	return sums, true, err
}

func (c *gpuCost) evaluate(x cuda.Pointer, p *packed, loss *PolicyLoss) (PolicySums, error) {
	n, e, s := c.net, &c.policy, &c.net.rows
	launch := n.g.card.Loss(s.n0, s.steps)
	if err := e.fit(n, 4*launch.Tiles); err != nil {
		return PolicySums{}, err
	}
	if len(loss.Advantages) != s.n0 || len(loss.Weights) != s.n0 || len(loss.Old) != s.n0 {
		return PolicySums{}, fmt.Errorf("policy loss: %d advantages, %d weights and %d rows of old log-probabilities for %d completions",
			len(loss.Advantages), len(loss.Weights), len(loss.Old), s.n0)
	}
	for rank, i := range p.completion.order {
		e.staged[rank], e.staged[e.rowCap+rank] = float32(loss.Advantages[i]), float32(loss.Weights[i])
	}
	if err := cuda.Upload(n.g.dev, e.rows, 0, e.staged); err != nil {
		return PolicySums{}, err
	}
	kind := kindLogProb
	if loss.Ratio {
		kind = kindRatio
	}
	d := c.device.At(0)
	if err := n.g.launch(launch, cuda.I(kind), cuda.P(s.active), cuda.P(s.offset), cuda.I(s.steps), cuda.P(x), cuda.P(0),
		cuda.P(e.rows.At(0)), cuda.P(e.rows.At(e.rowCap)), cuda.F(0), cuda.F(0), cuda.P(d), cuda.P(e.parts.At(0))); err != nil {
		return PolicySums{}, err
	}
	if err := n.g.dev.Zero(d.Add(c.width), n.used()); err != nil { // of the entropies
		return PolicySums{}, err
	}
	parts := e.sums[:4*launch.Tiles]
	if err := cuda.Fetch(n.g.dev, parts, e.parts, 0); err != nil {
		return PolicySums{}, err
	}
	for r := range 2 {
		if err := cuda.FetchAt(n.g.dev, c.x[r*c.width:r*c.width+n.used()], x.Add(r*c.width)); err != nil {
			return PolicySums{}, err
		}
	}
	if err := n.g.dev.Sync(); err != nil {
		return PolicySums{}, err
	}
	c.inPlace = true
	return c.metrics(p, loss, parts), nil
}

// metrics adds up what came down.
func (c *gpuCost) metrics(p *packed, loss *PolicyLoss, parts []float64) PolicySums {
	sums := PolicySums{Tokens: c.net.used()}
	for i := 0; i < len(parts); i += 4 {
		sums.Loss += parts[i]
	}
	for _, v := range c.x[c.width : c.width+c.net.used()] {
		sums.Entropy += float64(v)
	}
	p.each(func(row, rank int, places []int) {
		old := loss.Old[row][:len(places)]
		for t, at := range places {
			sums.MaxDiff = max(sums.MaxDiff, math.Abs(float64(old[t])-float64(c.x[at+rank])))
		}
	})
	return sums
}

// fit makes room for so many sums of blocks, for the graph's capacity of rows.
func (e *gpuPolicy) fit(n *gpuNet, sums int) error {
	if e.rows == nil {
		e.rowCap = n.c.rows
		var err error
		if e.rows, err = n.take(2*e.rowCap, "advantages"); err != nil {
			return err
		}
		// As many blocks as the largest batch of the graph's capacity has.
		most := 4 * n.g.card.Loss(n.c.rows, n.c.rowSteps).Tiles
		if e.parts, err = n.take(2*most, "the parts of a loss"); err != nil {
			return err
		}
		if e.staged, err = pinned[float32](n, 2*e.rowCap); err != nil {
			return err
		}
		e.sums, err = pinned[float64](n, most)
		return err
	}
	if len(e.sums) < sums {
		return fmt.Errorf("policy loss: %d sums do not fit %d", sums, len(e.sums))
	}
	return nil
}
