package explain

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
)

func TestClipOfARareToken(t *testing.T) {
	r, err := Clip(DefaultClip())
	expect.OK(t, err)
	ratio := math.Exp(1.6)
	same(t, "probabilities and ratio", []float64{r.OldProb, r.Prob, r.Ratio}, []float64{0.0202419, 0.1002588, ratio})
	tests := []struct {
		name                string
		high, adv           float64
		objective, gradient float64
		clipped             string
		highest             float64
	}{
		{"good, 1.20", 0.2, 1, 1.2, 0, "high", 0.0242903},
		{"good, 1.28", 0.28, 1, 1.28, 0, "high", 0.0259096},
		{"bad, 1.20", 0.2, -1, -ratio, -ratio, "no", 0.0242903},
		{"bad, 1.28", 0.28, -1, -ratio, -ratio, "no", 0.0259096},
		{"bad, dual clip", 0.2, -1, -3, 0, "dual", 0.0242903},
	}
	if len(r.Cases) != len(tests) {
		t.Fatalf("%d cases", len(r.Cases))
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := r.Cases[i]
			if c.Clipped != tt.clipped || c.EpsilonHigh != tt.high || c.Advantage != tt.adv {
				t.Errorf("case %+v", c)
			}
			same(t, "objective, gradient, highest probability",
				[]float64{c.Objective, c.Gradient, c.HighestProb}, []float64{tt.objective, tt.gradient, tt.highest})
		})
	}
	textHas(t, textOf(t, r), "old policy (at sampling) -3.9 2.0%", "policy (now) -2.3 10.0%", "ratio exp(1.6) = 4.95",
		"+1 0.20 4.95 1.20 1.2000 0.0000 high", "+1 0.28 4.95 1.28 1.2800 0.0000 high",
		"-1 0.20 4.95 1.20 -4.9530 -4.9530 no", "Probabilities rounded to whole percent (2% and 10%) would give a ratio of 5.00.")
}

// The objective is the minimum of its definition for any numbers.
func TestClipIsItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logp := rapid.Float64Range(-6, 0)
		o := ClipOptions{
			OldLogProb: logp.Draw(t, "old"), LogProb: logp.Draw(t, "new"), Epsilon: rapid.Float64Range(0.01, 0.9).Draw(t, "epsilon"),
			EpsilonHigh: []float64{rapid.Float64Range(0.01, 2).Draw(t, "high")}, Advantage: rapid.Float64Range(0.1, 3).Draw(t, "A"),
			DualClip: rapid.Float64Range(1.1, 5).Draw(t, "c"),
		}
		r, err := Clip(o)
		expect.OK(t, err)
		for _, c := range r.Cases {
			x := math.Exp(o.LogProb - o.OldLogProb)
			want := math.Min(x*c.Advantage, math.Min(math.Max(x, 1-o.Epsilon), 1+o.EpsilonHigh[0])*c.Advantage)
			if c.DualClip && c.Advantage < 0 {
				want = math.Max(want, o.DualClip*c.Advantage)
			}
			if !near(c.Objective, want) {
				t.Fatalf("%+v: objective %v, want %v", o, c.Objective, want)
			}
			if (c.Gradient == 0) != (c.Clipped != "no") {
				t.Fatalf("clipped %s, gradient %v", c.Clipped, c.Gradient)
			}
		}
		expect.OK(t, r.WriteText(&strings.Builder{}))
	})
}

func TestClipRefuses(t *testing.T) {
	refuses(t, "explain clip: ", DefaultClip, Clip, []refusal[ClipOptions]{
		{"positive log-probability", func(o *ClipOptions) { o.LogProb = 0.1 }, "log-probability 0.1"},
		{"minus infinity", func(o *ClipOptions) { o.OldLogProb = math.Inf(-1) }, "old log-probability -Inf"},
		{"NaN", func(o *ClipOptions) { o.LogProb = math.NaN() }, "log-probability NaN"},
		{"ratio overflows", func(o *ClipOptions) { o.OldLogProb = -1000 }, "too large"},
		{"no bounds", func(o *ClipOptions) { o.EpsilonHigh = nil }, "0 values of epsilon_high"},
		{"five bounds", func(o *ClipOptions) { o.EpsilonHigh = make([]float64, 5) }, "5 values of epsilon_high"},
		{"bound of 0", func(o *ClipOptions) { o.EpsilonHigh = []float64{0} }, "epsilon_high 0"},
		{"epsilon", func(o *ClipOptions) { o.Epsilon = 0 }, "epsilon (cliprange) is 0"},
		{"advantage", func(o *ClipOptions) { o.Advantage = -1 }, "advantage -1"},
		{"dual clip", func(o *ClipOptions) { o.DualClip = 0.5 }, "dual clip is 0.5"},
	})
}
