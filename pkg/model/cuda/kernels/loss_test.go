//go:build withcuda && linux

package kernels

import (
	"fmt"
	"math"
	"testing"

	"grpo/pkg/rl"
)

// The loss, its gradient and its counts are pkg/rl's.
func TestPolicyLoss(t *testing.T) {
	b := newBench(t, Base())
	c := card(b.Machine)
	r := random(10)
	types := []rl.LossType{rl.NoBaseline, rl.GRPONoClip, rl.GRPOClip}
	for kind, loss := range types {
		for _, n := range []int{3, 300} {
			for _, onPolicy := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s of %d sequences, on-policy %v", loss, n, onPolicy), func(t *testing.T) {
					const low, high = 0.2, 0.28
					p := pack(append(randomLengths(r, n-1, 5), 6)...)
					states := p.n0 + p.inputs
					width := p.steps + 1
					logp, old := normal(r, states, 0.3), normal(r, states, 0.3)
					adv, weight := normal(r, n, 1), make([]float32, n)
					adv[1] = 0
					batch := rl.Batch{Shape: rl.Shape{B: n, T: width}, Advantages: to64(adv), Mask: make([]bool, n*width), LogProbs: make([]float64, n*width)}
					if !onPolicy {
						batch.OldLogProbs = make([]float64, n*width)
					}
					length := make([]int, n)
					place := make([]int, states)
					for s, live := range p.active {
						for rank := range int(live) {
							at, to := int(p.offset[s])+rank, rank*width+s
							place[at] = to
							batch.Mask[to], batch.LogProbs[to] = true, float64(logp[at])
							if !onPolicy {
								batch.OldLogProbs[to] = float64(old[at])
							}
							length[rank]++
						}
					}
					for i := range weight {
						weight[i] = float32(1 / (float64(length[i]) * float64(n))) // masked_mean
					}
					cfg := rl.LossConfig{Loss: loss, Aggregation: rl.MaskedMeanSeq, Epsilon: low, EpsilonHigh: high}
					want, err := rl.Loss(cfg, batch)
					if err != nil {
						t.Fatal(err)
					}
					grad := make([]float64, states)
					for at, to := range place {
						grad[at] = want.Grad[to]
					}
					l := c.Loss(n, p.steps)
					parts := b.Alloc(8 * 4 * l.Tiles)
					if onPolicy {
						old = nil
					}
					d := b.Alloc(4 * states)
					b.start(l, kind, b.ints(p.active), b.ints(p.offset), p.steps, b.floats(logp), b.floats(old), b.floats(adv), b.floats(weight), float32(low), float32(high), d, parts)
					near(t, "gradient", b.read(d, states), grad, 1e-5, 1e-8)
					var sums [4]float64
					for i, v := range b.readF64(parts, 4*l.Tiles) {
						sums[i%4] += v
					}
					if math.Abs(sums[0]-want.Loss) > 1e-5*math.Abs(want.Loss)+1e-7 {
						t.Errorf("loss %v, want %v", sums[0], want.Loss)
					}
					if !onPolicy && loss == rl.GRPOClip {
						if got := (sums[1] + sums[2]) / float64(states); math.Abs(got-*want.Stats.ClipFraction()) > 1e-12 || got == 0 {
							t.Errorf("clip fraction %v, want %v", got, *want.Stats.ClipFraction())
						}
					}
					if !onPolicy && kind > 0 {
						if got := sums[3] / float64(states); math.Abs(got-*want.Stats.MeanRatio()) > 1e-6 {
							t.Errorf("mean ratio %v, want %v", got, *want.Stats.MeanRatio())
						}
					}
				})
			}
		}
	}
}
