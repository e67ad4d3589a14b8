//go:build withcuda && linux

package model

import (
	"fmt"
	"math"
	"testing"

	"grpo/pkg/model/tokenizer"
)

// A loss that the GPU evaluates by itself has the gradient, the loss and the
// sums of the same loss on the host.
func TestGPUPolicyLossIsTheHosts(t *testing.T) {
	p := randomModel(t, Spec{tokenizer.VocabSize, 16, 2}, 1)
	b := randomBatch(t, p, 4, 3, 8)
	loss := &PolicyLoss{}
	for i, r := range b.Rows {
		loss.Advantages, loss.Weights = append(loss.Advantages, math.Sin(float64(i))), append(loss.Weights, 1/float64(12*len(r.Tokens)))
		old := make([]float32, len(r.Tokens))
		for k := range old {
			old[k] = -float32(k)
		}
		loss.Old = append(loss.Old, old)
	}
	for _, ratio := range []bool{false, true} {
		t.Run(fmt.Sprintf("ratio %v", ratio), func(t *testing.T) {
			loss.Ratio = ratio
			var want PolicySums
			objective := func(m *TokenMatrix) (float64, error) {
				want = PolicySums{}
				for i, in := range m.Mask {
					if !in {
						continue
					}
					row := i / m.T
					value := loss.Advantages[row]
					if !ratio {
						value *= m.LogProbs[i]
					}
					want.Loss -= loss.Weights[row] * value
					m.DLogProbs[i] = -loss.Weights[row] * loss.Advantages[row]
					want.Entropy += m.Entropy[i]
					want.Tokens++
					want.MaxDiff = max(want.MaxDiff, math.Abs(float64(loss.Old[row][i%m.T])-m.LogProbs[i]))
				}
				return want.Loss, nil
			}
			cpu, err := NewLearner(p.Clone(), 1, threads(t, 1))
			if err != nil {
				t.Fatal(err)
			}
			defer cpu.Close()
			if _, ok, err := cpu.AccumulatePolicy(b, loss); ok || err != nil {
				t.Errorf("the CPU evaluates a policy loss: %v, %v", ok, err)
			}
			if _, err := cpu.Accumulate(b, objective); err != nil {
				t.Fatal(err)
			}
			l, err := NewLearner(p, 1, testGPU(t, "float32"))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			// With the host's loss before and behind, which leaves gradients of
			// entropies where the other expects none.
			nonsense := func(m *TokenMatrix) (float64, error) {
				for i := range m.DEntropy {
					m.DEntropy[i] = 7
				}
				return 0, nil
			}
			for range 2 {
				if _, err := l.Accumulate(b, nonsense); err != nil {
					t.Fatal(err)
				}
				l.ZeroGrads()
				got, ok, err := l.AccumulatePolicy(b, loss)
				if err != nil || !ok {
					t.Fatal(ok, err)
				}
				if !near(got.Loss, want.Loss, 1e-5, 1e-7) || !near(got.Entropy, want.Entropy, 1e-5, 1e-6) || got.Tokens != want.Tokens || !near(got.MaxDiff, want.MaxDiff, 1e-5, 1e-6) {
					t.Errorf("sums %+v, the host's %+v", got, want)
				}
				pull(t, l.Grads)
				near32(t, "gradient", l.Grads.Flat, cpu.Grads.Flat, 1e-4, 1e-6)
			}
		})
	}
}
