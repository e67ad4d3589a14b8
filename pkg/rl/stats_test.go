package rl

import (
	"math"
	"slices"
	"testing"

	"grpo/internal/expect"
)

// A sequence without tokens adds 0 and still counts if the mean is over sequences; verl's means are over the others.
func TestEmptySequencesCount(t *testing.T) {
	s, mask := Shape{2, 2}, []bool{true, true, false, false}
	x := []float64{1, 3, nan, nan}
	for _, c := range []struct {
		agg  Aggregation
		want float64
	}{
		{MaskedMeanSeq, 1}, {MaskedNormalizeSeq, 0.5}, {Constant, 1}, {TokenMean, 2}, {TokenSum, 4},
		{SeqMeanTokenSum, 4}, {SeqMeanTokenMean, 2}, {SeqMeanTokenSumNorm, 1},
	} {
		w := []float64{9, 9, 9, 9}
		got, err := Aggregate(c.agg, 4, s, x, mask, Totals{}, w)
		expect.OK(t, err)
		if got != c.want || w[0]*1+w[1]*3 != c.want || w[2] != 0 {
			t.Errorf("%s: %v with weights %v, want %v", c.agg, got, w, c.want)
		}
	}
	if got, err := Aggregate(SeqMeanTokenSumNorm, 0, s, x, mask, Totals{}, nil); err != nil || got != 2 {
		t.Errorf("seq-mean-token-sum-norm without a constant divides by T: %v, %v", got, err)
	}
}

func TestStatsByHand(t *testing.T) {
	b := Batch{
		Shape: Shape{2, 2}, Mask: []bool{true, true, true, false}, Advantages: []float64{1, -1},
		LogProbs: []float64{math.Log(2), 0, math.Log(0.25), nan}, OldLogProbs: []float64{0, 0, 0, nan},
		Entropies: []float64{1, 2, 6, nan}, RefLogProbs: []float64{math.Log(2) - 1, -1, math.Log(0.25) + 1, nan},
	}
	r, err := Loss(LossConfig{Loss: GRPOClip, Epsilon: 0.2, Aggregation: TokenMean, Beta: 1, KL: K1}, b)
	expect.OK(t, err)
	s := r.Stats
	if s.Sequences != 2 || s.Tokens != 3 {
		t.Errorf("counts %+v", s)
	}
	for _, m := range []struct {
		name string
		got  *float64
		want float64
	}{
		{"clip fraction", s.ClipFraction(), 2. / 3},
		{"low", s.ClipFractionLow(), 1. / 3}, {"high", s.ClipFractionHigh(), 1. / 3},
		{"lowest low", s.ClipFractionLowMin(), 0}, {"highest high", s.ClipFractionHighMax(), 0.5},
		{"dual", s.ClipFractionDual(), 0},
		{"mean ratio", s.MeanRatio(), 3.25 / 3},
		{"ppo kl", s.PPOKL(), math.Ln2 / 3}, {"approx kl", s.ApproxKL(), (0.25 + math.Ln2) / 3},
		{"entropy", s.MeanEntropy(), 3}, {"reference kl", s.MeanRefKL(), 1. / 3},
	} {
		samePointer(t, m.name, m.got, m.want)
	}
	if s.MeanPhi() != nil {
		t.Error("phi of a loss that has none")
	}
	// With one ratio for a sequence the unit is the sequence, while the KL to the
	// old policy is still a mean over tokens: sequence 0 has the ratio sqrt(2).
	cfg := LossConfig{Loss: GRPOClip, Epsilon: 0.2, DualClip: 1.1, Level: SequenceLevel, Aggregation: TokenMean}
	b.Advantages = []float64{-1, -1}
	r, err = Loss(cfg, b)
	expect.OK(t, err)
	samePointer(t, "sequences clipped", r.Stats.ClipFraction(), 0.5)
	samePointer(t, "sequences at the dual clip", r.Stats.ClipFractionDual(), 0.5)
	samePointer(t, "mean ratio", r.Stats.MeanRatio(), (2*math.Sqrt2+0.25)/3)
	samePointer(t, "approx kl", r.Stats.ApproxKL(), (0.25+math.Ln2)/3)
}

// Only sequences with A < 0 that moved away from the old policy are dropped, from the
// policy term and not from the divisor of the aggregation.
func TestOffPolicyMask(t *testing.T) {
	b := Batch{
		Shape: Shape{4, 1}, Mask: all(4), Advantages: []float64{1, -1, -1, -1},
		LogProbs: []float64{-1, -1, -1, -1}, OldLogProbs: []float64{-0.5, -0.5, -0.9, -1.5},
	}
	c := LossConfig{Loss: ReinforceWithBaseline, Aggregation: MaskedMeanSeq, OffPolicyMask: true, OffPolicyMaskThreshold: 0.2}
	r := mustLoss(t, c, b)
	if want := []float64{-0.25, 0, 0.25, 0.25}; !slices.Equal(r.Grad, want) {
		t.Errorf("gradient %v, want %v", r.Grad, want)
	}
}

func TestTotals(t *testing.T) {
	mask := []bool{true, true, false, true, false, false}
	got := Count(Shape{3, 2}, mask, []bool{true, false, true, false, true, true})
	if want := (Totals{Sequences: 3, NonEmpty: 2, Tokens: 3, Kept: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := Count(Shape{3, 2}, mask, nil), (Totals{3, 2, 3, 3}); got != want {
		t.Errorf("without a policy mask: got %+v, want %+v", got, want)
	}
	if got, want := got.Times(4), (Totals{12, 8, 12, 4}); got != want {
		t.Errorf("times 4: got %+v, want %+v", got, want)
	}
	for _, small := range []Totals{{2, 2, 3, 1}, {3, 1, 3, 1}, {3, 2, 2, 1}, {3, 2, 3, 0}} {
		if small.covers(got) {
			t.Errorf("%+v covers %+v", small, got)
		}
	}
	if !got.covers(got) {
		t.Errorf("%+v does not cover itself", got)
	}
}

func TestMaskedByHand(t *testing.T) {
	x := []float64{1, nan, 3, 4, 5, nan} // shape (2, 3)
	mask := []bool{true, false, true, true, true, false}
	for _, c := range []struct {
		name      string
		dim       int
		mean, sum []float64
	}{
		{"rows", 1, []float64{2, 4.5}, []float64{4, 9}},
		{"last", -1, []float64{2, 4.5}, []float64{4, 9}},
		{"columns", 0, []float64{2.5, 5, 3}, []float64{5, 5, 3}},
		{"first from the end", -2, []float64{2.5, 5, 3}, []float64{5, 5, 3}},
		{"all", AllDims, []float64{3.25}, []float64{13}},
	} {
		t.Run(c.name, func(t *testing.T) {
			mean, err := MaskedMean(x, mask, []int{2, 3}, c.dim)
			expect.OK(t, err)
			sum, err := MaskedNormalize(x, mask, []int{2, 3}, c.dim, 0.5)
			expect.OK(t, err)
			for i := range sum {
				sum[i] /= 2
			}
			if !slices.Equal(mean, c.mean) || !slices.Equal(sum, c.sum) {
				t.Errorf("means %v, want %v; sums %v, want %v", mean, c.mean, sum, c.sum)
			}
		})
	}
	empty, err := MaskedMean([]float64{1}, []bool{false}, []int{1, 1}, 1)
	if err != nil || !math.IsNaN(empty[0]) {
		t.Errorf("the mean of nothing is %v, want NaN", empty)
	}
}

func TestKLEstimators(t *testing.T) {
	for _, name := range KLEstimators() {
		e := KLEstimator(name)
		shape := e // whose gradient it has
		if e == K1StraightThrough || e == K3StraightThrough {
			shape = K2
		}
		t.Run(name, func(t *testing.T) {
			for _, d := range []float64{-25, -5, -2.5, -0.3, 0.2, 1.7, 9, 14, 25} {
				const h = 1e-6
				hi, _ := shape.At(d+h-1, -1)
				lo, _ := shape.At(d-h-1, -1)
				v, g := e.At(d-1, -1)
				if want := (hi - lo) / (2 * h); math.Abs(g-want) > 1e-6*math.Max(1, math.Abs(want)) {
					t.Errorf("d = %v: gradient %v, finite difference %v", d, g, want)
				}
				if e != K1 && e != K1StraightThrough && v < 0 {
					t.Errorf("d = %v: value %v below 0", d, v)
				}
			}
			if v, g := e.At(-1, -1); v != 0 || (g != 0 && e != K1) {
				t.Errorf("equal policies: value %v, gradient %v", v, g)
			}
		})
	}
	for _, d := range []float64{-1e4, -26, -5, 11.5, 14, 99} {
		if v, g := LowVarKL.At(d, 0); v != 10 || g != 0 {
			t.Errorf("low_var_kl at %v: value %v, gradient %v; it is limited to 10", d, v, g)
		}
	}
	if v, _ := LowVarKL.At(-2, 0); !closeTo(v, math.Exp(2)-3) {
		t.Errorf("low_var_kl at -2: %v", v)
	}
	if v, _ := KLEstimator("k4").At(0, 0); !math.IsNaN(v) {
		t.Errorf("unknown estimator: %v", v)
	}
}

func TestTopEntropyMask(t *testing.T) {
	s, mask := Shape{1, 6}, []bool{true, true, false, true, true, true}
	e := []float64{1, 5, nan, 2, 4, 3}
	for _, c := range []struct {
		quantile float64
		want     []bool
	}{
		{1, mask},
		{0.2, []bool{false, true, false, false, false, false}}, // threshold 4.2
		{0.25, []bool{false, true, false, false, true, false}}, // threshold 4
		{0.5, []bool{false, true, false, false, true, true}},   // threshold 3
	} {
		got, err := TopEntropyMask(s, e, mask, c.quantile)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("quantile %v: %v (%v), want %v", c.quantile, got, err, c.want)
		}
	}
	if got, err := TopEntropyMask(Shape{1, 1}, []float64{nan}, []bool{false}, 0.5); err != nil || got[0] {
		t.Errorf("no token: %v, %v", got, err)
	}
}
