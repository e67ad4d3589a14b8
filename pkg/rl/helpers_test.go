package rl

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

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
			if err != nil {
				t.Fatal(err)
			}
			sum, err := MaskedNormalize(x, mask, []int{2, 3}, c.dim, 0.5)
			if err != nil {
				t.Fatal(err)
			}
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
	for _, c := range []struct {
		want string
		call func() error
	}{
		{"dimension 2 is outside shape [2 3]", func() error { _, err := MaskedMean(x, mask, []int{2, 3}, 2); return err }},
		{"dimension -3 is outside", func() error { _, err := MaskedMean(x, mask, []int{2, 3}, -3); return err }},
		{"needs 8 values; x has 6", func() error { _, err := MaskedMean(x, mask, []int{2, 4}, 0); return err }},
		{"negative side", func() error { _, err := MaskedMean(x, mask, []int{-2, -3}, 0); return err }},
		{"the constant is 0", func() error { _, err := MaskedNormalize(x, mask, []int{2, 3}, 0, 0); return err }},
	} {
		if err := c.call(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got error %v, want one with %q", err, c.want)
		}
	}
}

func TestEntropy(t *testing.T) {
	for _, c := range []struct {
		name   string
		logits []float64
		want   float64
	}{
		{"uniform", []float64{3, 3, 3, 3}, math.Log(4)},
		{"certain", []float64{0, math.Inf(-1)}, 0},
		{"huge logits", []float64{1e300, 1e300}, math.Log(2)},
		{"very small logits", []float64{-1e300, -1e300}, math.Log(2)},
		{"1/4 and 3/4", []float64{0, math.Log(3)}, math.Log(4) - 0.75*math.Log(3)},
	} {
		if got := Entropy(c.logits); !closeTo(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if !math.IsInf(LogSumExp(nil), -1) {
		t.Error("the log of an empty sum is -Inf")
	}
	if _, err := Entropies(make([]float64, 5), 2); err == nil {
		t.Error("5 logits in rows of 2: want an error")
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
	for _, d := range []float64{-1e4, -26, -5, 14, 99} {
		if v, g := LowVarKL.At(d, 0); v != 10 || g != 0 {
			t.Errorf("low_var_kl at %v: value %v, gradient %v; it is held to 10", d, v, g)
		}
	}
	if v, _ := LowVarKL.At(-2, 0); !closeTo(v, math.Exp(2)-3) {
		t.Errorf("low_var_kl at -2: %v", v)
	}
	if v, _ := KLEstimator("k4").At(0, 0); !math.IsNaN(v) {
		t.Errorf("unknown estimator: %v", v)
	}
	if _, err := ParseKL("k4"); err == nil {
		t.Error("unknown estimator: want an error")
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
	for _, q := range []float64{0, -1, 1.1, nan} {
		if _, err := TopEntropyMask(s, e, mask, q); err == nil {
			t.Errorf("quantile %v: want an error", q)
		}
	}
	if got, err := TopEntropyMask(Shape{1, 1}, []float64{nan}, []bool{false}, 0.5); err != nil || got[0] {
		t.Errorf("no token: %v, %v", got, err)
	}
}

func TestTokenAdvantages(t *testing.T) {
	s := Shape{2, 3}
	mask := []bool{true, true, true, true, true, false}
	r := []float64{0, 0, 1, 1, 2, nan}
	check := func(name string, got []float64, err error, want ...float64) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		sameValues(t, name, got, want)
	}
	got, err := ReturnsToGo(s, r, mask, 0.5)
	check("returns", got, err, 0.25, 0.5, 1, 2, 2, 0)
	got, err = Spread(s, []float64{3, 4}, mask)
	check("spread", got, err, 3, 3, 3, 4, 4, 0)
	teacher := []float64{-1, -1, -1, -1, -1, nan}
	student := []float64{-2, -1, -3, -1, -2, nan} // rewards 1 0 2, 0 1
	got, err = MiniLLMAdvantages(s, teacher, student, mask, 0.5, false)
	check("minillm", got, err, 1.5, 1, 2, 0.5, 1, 0)
	got, err = MiniLLMAdvantages(s, teacher, student, mask, 0.5, true)
	check("minillm, by length", got, err, 1.5/1.75, 1/1.5, 2, 0.5/1.5, 1, 0)
	got, err = MiniLLMAdvantages(s, teacher, student, mask, 0, true)
	check("minillm, gamma 0", got, err, 1, 0, 2, 0, 1, 0)
	got, err = KLInReward(s, []float64{10, 20}, student, teacher, mask, K1, 2)
	check("kl in reward", got, err, 10+2*3, 20+2*1)
	got, err = WhitenTokens(s, []float64{1, 1, 3, 3, 2, nan}, mask, 0)
	check("whiten", got, err, -1, -1, 1, 1, 0, 0)
	got, err = WhitenTokens(s, []float64{.1, .1, .1, .1, .1, nan}, mask, 1e-8)
	check("whiten equal values", got, err, 0, 0, 0, 0, 0, 0)
	for _, err := range []error{
		second(ReturnsToGo(s, r[1:], mask, 1)), second(ReturnsToGo(s, r, mask, -1)), second(ReturnsToGo(s, r, mask[1:], 1)),
		second(Spread(s, []float64{1}, mask)), second(KLInReward(s, []float64{1}, r, r, mask, K1, 1)),
		second(KLInReward(s, []float64{1, 2}, r, r, mask, "k4", 1)), second(WhitenTokens(Shape{}, nil, nil, 0)),
	} {
		if err == nil {
			t.Error("want an error")
		}
	}
}

func second(_ []float64, err error) error { return err }

func TestPassKAdvantages(t *testing.T) {
	for _, c := range []struct {
		name    string
		rewards []float64
		std     bool
		want    []float64
	}{
		{"best minus second", []float64{1, 4, 2, 3}, false, []float64{0, 1, 0, 0}},
		{"over the std", []float64{1, 0, 0, 0}, true, []float64{2, 0, 0, 0}},
		{"two best", []float64{1, 0, 1, 0}, false, []float64{0, 0, 0, 0}},
		{"flat", []float64{1, 1, 1, 1}, true, []float64{0, 0, 0, 0}},
		{"not scorable", []float64{nan, 3, nan, 1}, false, []float64{0, 2, 0, 0}},
		{"one scorable", []float64{nan, 3, nan, nan}, false, []float64{0, 0, 0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := PassKAdvantages(c.rewards, 4, c.std, 0)
			if err != nil {
				t.Fatal(err)
			}
			sameValues(t, "advantages", got, c.want)
		})
	}
	if _, err := PassKAdvantages([]float64{1}, 1, false, 0); err == nil {
		t.Error("group of 1: want an error")
	}
}

func TestGAE(t *testing.T) {
	s, mask := Shape{1, 4}, []bool{true, true, true, false}
	r, v := []float64{0, 0, 1, nan}, []float64{0.5, 0.25, 0.75, nan}
	for _, c := range []struct {
		name          string
		gamma, lambda float64
		want          []float64
	}{
		{"lambda 1: return less value", 1, 1, []float64{0.5, 0.75, 0.25, 0}},
		{"lambda 0: one step", 1, 0, []float64{-0.25, 0.5, 0.25, 0}},
		{"between", 0.5, 0.5, []float64{-0.375 + 0.25*(0.125+0.25*0.25), 0.125 + 0.25*0.25, 0.25, 0}},
	} {
		a, ret, err := GAE(s, r, v, mask, c.gamma, c.lambda)
		if err != nil {
			t.Fatal(err)
		}
		sameValues(t, c.name, a, c.want)
		for i, in := range mask {
			if in && ret[i] != a[i]+v[i] || !in && ret[i] != 0 {
				t.Errorf("%s: return %v", c.name, ret)
			}
		}
	}
	if _, _, err := GAE(s, r, v, mask, 1, 2); err == nil {
		t.Error("lambda 2: want an error")
	}
}

func TestValueLoss(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := drawBatch(rt)
		v, old, ret := b.LogProbs, b.OldLogProbs, b.RefLogProbs
		for _, clip := range []float64{0, 0.1} {
			loss, grad, frac, err := ValueLoss(b.Shape, v, old, ret, b.Mask, clip, MaskedMeanSeq, 0, Totals{})
			if err != nil {
				rt.Fatal(err)
			}
			if clip == 0 && frac != 0 || math.IsNaN(loss) {
				rt.Fatalf("loss %v, clip fraction %v", loss, frac)
			}
			for i := range v {
				const h = 1e-5
				at := func(d float64) float64 {
					w := slices.Clone(v)
					w[i] += d
					l, _, _, _ := ValueLoss(b.Shape, w, old, ret, b.Mask, clip, MaskedMeanSeq, 0, Totals{})
					return l
				}
				left, right := (loss-at(-h))/h, (at(h)-loss)/h
				if math.Abs(left-right) > 1e-3 {
					continue // a kink of the maximum
				}
				if math.Abs(grad[i]-(left+right)/2) > 1e-6 {
					rt.Fatalf("gradient %v, finite difference %v", grad[i], (left+right)/2)
				}
			}
		}
	})
	// Old 0, clip 1: the value 3 is held at 1, where the error of 1-5 is larger.
	loss, grad, frac, err := ValueLoss(Shape{1, 2}, []float64{3, 0.5}, []float64{0, 0}, []float64{5, 1}, all(2), 1, TokenSum, 0, Totals{})
	if err != nil || !closeTo(loss, 8+0.125) || grad[0] != 0 || grad[1] != -0.5 || frac != 0.5 {
		t.Errorf("loss %v, gradient %v, clip fraction %v, %v", loss, grad, frac, err)
	}
}

func TestAdaptEntropyCoef(t *testing.T) {
	for _, c := range []struct{ entropy, next, apply float64 }{
		{0.1, 0.3, 0.3}, {0.2, 0.3, 0.3}, {0.5, 0.1, 0},
	} {
		if next, apply := AdaptEntropyCoef(0.2, c.entropy, 0.2, 0.1, 0, 1); !closeTo(next, c.next) || !closeTo(apply, c.apply) {
			t.Errorf("entropy %v: next %v, apply %v", c.entropy, next, apply)
		}
	}
	if next, _ := AdaptEntropyCoef(0.95, 0, 0.2, 0.1, 0, 1); next != 1 {
		t.Errorf("above the largest: %v", next)
	}
	if next, _ := AdaptEntropyCoef(0.05, 9, 0.2, 0.1, 0, 1); next != 0 {
		t.Errorf("below the smallest: %v", next)
	}
}

func TestRewards(t *testing.T) {
	got, err := CombineRewards([][]float64{{1, nan, nan}, {2, 3, nan}}, []float64{1, 0.5})
	if err != nil {
		t.Fatal(err)
	}
	sameValues(t, "sum", got, []float64{2, 1.5, nan})
	r := []float64{-3, 0.5, 7, nan}
	ClipRewards(r, -1, 1)
	sameValues(t, "clip", r, []float64{-1, 0.5, 1, nan})
	for _, c := range []struct {
		want    string
		rewards [][]float64
		weights []float64
	}{
		{"no reward function", nil, nil},
		{"1 weights for 2 reward functions", [][]float64{{1}, {1}}, []float64{1}},
		{"function 1 has 2 rewards, function 0 has 1", [][]float64{{1}, {1, 2}}, []float64{1, 1}},
		{"weight 0 is NaN", [][]float64{{1}}, []float64{nan}},
	} {
		if _, err := CombineRewards(c.rewards, c.weights); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got error %v, want one with %q", err, c.want)
		}
		if _, err := NormalizeThenSum(c.rewards, c.weights, 1, 0); err == nil {
			t.Errorf("%s: want an error", c.want)
		}
	}
}

func TestPresetErrors(t *testing.T) {
	if _, err := TRLLoss(TRLOptions{LossType: "ppo"}); err == nil || !strings.Contains(err.Error(), `unknown loss_type "ppo"`) {
		t.Errorf("got error %v", err)
	}
	if _, err := TRLLoss(TRLOptions{LossType: "luspo", Epsilon: 0.2}); err == nil || !strings.Contains(err.Error(), "luspo needs") {
		t.Errorf("got error %v", err)
	}
	if _, err := TRLLoss(TRLOptions{LossType: "dr_grpo", Epsilon: 0.2}); err == nil || !strings.Contains(err.Error(), "normalize constant") {
		t.Errorf("got error %v", err)
	}
	if _, err := VerlLoss(VerlOptions{LossMode: "kl_cov"}); err == nil || !strings.Contains(err.Error(), `unknown loss_mode "kl_cov"`) {
		t.Errorf("got error %v", err)
	}
	for _, mode := range VerlLossModes() {
		if _, err := VerlLoss(VerlOptions{LossMode: mode, LossAggMode: "token-mean", ClipRatio: 0.2}); err != nil {
			t.Error(err)
		}
	}
}

func TestMicrobatchStepErrors(t *testing.T) {
	ok := Batch{Shape: Shape{1, 1}, LogProbs: []float64{-1}, Mask: all(1), Advantages: []float64{1}}
	c := LossConfig{Loss: NoBaseline, Aggregation: MaskedMeanSeq}
	if _, err := GRPOMicrobatchTrainStep(c, ok, 0); err == nil {
		t.Error("0 accumulation steps: want an error")
	}
	if _, err := SFTMicrobatchTrainStep(Shape{1, 1}, []float64{-1}, all(1), 1, 0); err == nil {
		t.Error("constant 0: want an error")
	}
	if _, err := SFTMicrobatchTrainStep(Shape{1, 2}, []float64{-1}, all(1), 1, 1); err == nil {
		t.Error("a mask that doesn't fit: want an error")
	}
	if err := TokenLosses(c, ok, make([]float64, 2)); err == nil {
		t.Error("an output that doesn't fit: want an error")
	}
}
