package train

import (
	"math"
	"testing"

	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/model/tinylm"
	"grpo/pkg/model/tinylm/tokenizer"
	"grpo/pkg/rng"
)

func rngStream() rng.Stream { return rng.New(3, rng.Order) }

func TestSchedule(t *testing.T) {
	c := config.Stage{LearningRate: 2, WarmupSteps: 10, Steps: 110, FinalLRRatio: 0.1}
	for _, s := range []struct {
		step int
		want float64
	}{{1, 0.2}, {5, 1}, {10, 2}, {60, 2 * (0.1 + 0.9*0.5)}, {110, 0.2}} {
		if got := schedule(c, s.step); math.Abs(got-s.want) > 1e-12 {
			t.Errorf("step %d: rate %v, want %v", s.step, got, s.want)
		}
	}
}

func TestTokenize(t *testing.T) {
	for _, c := range []struct {
		name    string
		e       gsm8k.Example
		tokens  int
		ended   bool
		weights []float64
	}{
		{"ended", gsm8k.Example{Prompt: "ab\n", Completion: "12", Ended: true}, 6, true, []float64{0.1, 0.1, 0.1, 1, 1, 1}},
		{"cut", gsm8k.Example{Prompt: "a", Completion: "12"}, 3, false, []float64{0.1, 1, 1}},
	} {
		r := tokenize(tinylm.New(nil, nil), c.e, 0.1)
		if len(r.tokens) != c.tokens || (r.tokens[len(r.tokens)-1] == tokenizer.EOS) != c.ended {
			t.Errorf("%s: tokens %v", c.name, r.tokens)
		}
		for i, w := range c.weights {
			if r.weights[i] != w {
				t.Errorf("%s: weight %d is %v, want %v", c.name, i, r.weights[i], w)
			}
		}
	}
}

// The weighted mean and its gradient, against central differences.
func TestWeightedNLL(t *testing.T) {
	weights := [][]float64{{0.1, 1, 1}, {0.1, 1}}
	m := model.TokenMatrix{B: 2, T: 3, LogProbs: []float64{-1, -2, -3, -0.5, -0.25, math.NaN()}, DLogProbs: make([]float64, 6)}
	loss, err := weightedNLL(weights)(&m)
	if err != nil {
		t.Fatal(err)
	}
	if want := (0.1*1 + 2 + 3 + 0.1*0.5 + 0.25) / 3.2; math.Abs(loss-want) > 1e-12 {
		t.Errorf("loss %v, want %v", loss, want)
	}
	for i := range 5 {
		const eps = 1e-6
		d := m
		d.DLogProbs = make([]float64, 6)
		d.LogProbs = append([]float64{}, m.LogProbs...)
		d.LogProbs[i] += eps
		up, err := weightedNLL(weights)(&d)
		if err != nil {
			t.Fatal(err)
		}
		if fd := (up - loss) / eps; math.Abs(fd-m.DLogProbs[i]) > 1e-8 {
			t.Errorf("gradient %d is %v, finite difference %v", i, m.DLogProbs[i], fd)
		}
	}
	if m.DLogProbs[5] != 0 {
		t.Error("a place without a token has a gradient")
	}
}
