package rl

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawNoise draws rates in 64ths, so that draws of 1/64 to 1 are an exact enumeration of the verifier's errors.
func drawNoise(t *rapid.T, most int) VerifierNoise {
	p := rapid.IntRange(0, most).Draw(t, "p")
	return VerifierNoise{FalsePositive: float64(p) / 64, FalseNegative: float64(rapid.IntRange(0, most-p).Draw(t, "q")) / 64}
}

// expectedReward is the expectation of the corrected reward over the verifier's errors.
func expectedReward(n VerifierNoise, right bool) (mean float64) {
	for k := 1; k <= 64; k++ {
		mean += n.Reward(n.Verdict(right, float64(k)/64)) / 64
	}
	return mean
}

// TestCorrections enumerates the verifier's errors and the completions of a softmax policy: the expectation of the
// backward reward is the true one, and so is its policy gradient; the gradients of the forward weights and of the
// noisy reward are 1-p-q times the true one.
func TestCorrections(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawNoise(t, 60)
		left := 1 - n.FalsePositive - n.FalseNegative
		want := map[string][2]float64{ // of a wrong answer, and of a right one
			NoCorrection:       {n.FalsePositive, 1 - n.FalseNegative},
			BackwardCorrection: {0, 1},
			ForwardCorrection:  {-left, 0},
		}
		k := rapid.IntRange(2, 5).Draw(t, "completions")
		logits := rapid.SliceOfN(rapid.Float64Range(-3, 3), k, k).Draw(t, "logits")
		right := rapid.SliceOfN(rapid.Bool(), k, k).Draw(t, "right")
		total, pi := 0.0, make([]float64, k)
		for i, x := range logits {
			pi[i] = math.Exp(x)
			total += pi[i]
		}
		for i := range pi {
			pi[i] /= total
		}
		// The gradient of the expectation with respect to the logits: sum of pi_i R_i (e_i - pi).
		gradient := func(reward func(right bool) float64) []float64 {
			g := make([]float64, k)
			for i := range pi {
				for j := range g {
					score := -pi[j]
					if i == j {
						score++
					}
					g[j] += pi[i] * reward(right[i]) * score
				}
			}
			return g
		}
		truth := gradient(VerifierNoise{}.Reward)
		for _, n.Correction = range Corrections() {
			for i, want := range want[n.Correction] {
				if got := expectedReward(n, i == 1); math.Abs(got-want) > 1e-12 {
					t.Fatalf("%+v: the expected reward of an answer that is right (%v) is %v, want %v", n, i == 1, got, want)
				}
			}
			factor := left
			if n.Correction == BackwardCorrection {
				factor = 1
			}
			for j, g := range gradient(func(right bool) float64 { return expectedReward(n, right) }) {
				if math.Abs(g-factor*truth[j]) > 1e-12 {
					t.Fatalf("%+v: gradient %v, want %v times %v", n, g, factor, truth[j])
				}
			}
		}
	})
}

// TestNestedErrors: the errors at lower rates are among those at higher rates; without a draw there are none.
func TestNestedErrors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low, high := drawNoise(t, 64), drawNoise(t, 64)
		high.FalsePositive = max(high.FalsePositive, low.FalsePositive)
		high.FalseNegative = max(high.FalseNegative, low.FalseNegative)
		right, draw := rapid.Bool().Draw(t, "right"), rapid.Float64Range(1e-9, 1).Draw(t, "draw")
		if low.Verdict(right, draw) != right && high.Verdict(right, draw) == right {
			t.Fatalf("at %v an answer that is right (%v) is an error of %+v and not of %+v", draw, right, low, high)
		}
		if high.Verdict(right, 0) != right {
			t.Fatalf("%+v errs without a draw", high)
		}
	})
}

// TestCancelled: the same constant or factor for all rewards changes no advantage, where that is said, and some
// otherwise.
func TestCancelled(t *testing.T) {
	rewards := []float64{0, 1, 1, 0, 1, 0, 0, 0}
	for _, b := range baselines {
		for _, n := range normalizers {
			if n == NormalizerGPG || n == NormalizerGroupMean { // which no correction goes with
				continue
			}
			advantages := func(shift, scale float64) []float64 {
				moved, greedy := slices.Clone(rewards), []float64{shift + scale, shift}
				for i := range moved {
					moved[i] = shift + scale*moved[i]
				}
				a, _, err := GroupAdvantages(moved, 4, AdvantageOptions{Baseline: b, Normalizer: n,
					Lengths: []int{1, 2, 3, 4, 5, 6, 7, 8}, GreedyRewards: greedy})
				if err != nil {
					t.Fatal(err)
				}
				return a
			}
			plain := advantages(0, 1)
			same := func(a []float64) bool {
				return slices.EqualFunc(a, plain, func(x, y float64) bool { return math.Abs(x-y) <= 1e-9 })
			}
			if got, want := same(advantages(-0.75, 1)), CancelsShift(b, n); got != want {
				t.Errorf("baseline %s, normalizer %s: a constant is cancelled: %v, want %v", b, n, got, want)
			}
			if got, want := same(advantages(0, 2)), CancelsScale(n); got != want {
				t.Errorf("baseline %s, normalizer %s: a factor is cancelled: %v, want %v", b, n, got, want)
			}
		}
	}
}
