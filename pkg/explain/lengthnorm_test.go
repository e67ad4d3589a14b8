package explain

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
	"grpo/pkg/rl"
)

func TestLengthNormOfTheAssignment(t *testing.T) {
	r, err := LengthNorm(DefaultLengthNorm())
	expect.OK(t, err)
	const quarter, seventh = 0.25, 1. / 7
	tests := []struct {
		form      rl.Aggregation
		values    []float64
		objective float64
		gradient  []float64
	}{
		{rl.MaskedMeanSeq, []float64{2, 2}, 2,
			[]float64{quarter, quarter, quarter, quarter, 0, 0, 0, seventh, seventh, seventh, seventh, seventh, seventh, seventh}},
		{rl.MaskedNormalizeSeq, []float64{8. / 7, 2}, 11. / 7,
			[]float64{seventh, seventh, seventh, seventh, 0, 0, 0, seventh, seventh, seventh, seventh, seventh, seventh, seventh}},
		{rl.Constant, []float64{8. / 7, 2}, 22. / 7,
			[]float64{2 * seventh, 2 * seventh, 2 * seventh, 2 * seventh, 0, 0, 0, 2 * seventh, 2 * seventh, 2 * seventh, 2 * seventh, 2 * seventh, 2 * seventh, 2 * seventh}},
	}
	if len(r.Forms) != len(tests) {
		t.Fatalf("%d forms", len(r.Forms))
	}
	for i, tt := range tests {
		t.Run(string(tt.form), func(t *testing.T) {
			f := r.Forms[i]
			if f.Aggregation != tt.form {
				t.Errorf("form %s", f.Aggregation)
			}
			same(t, "per sequence", f.PerSequence, tt.values)
			same(t, "objective", []float64{f.Objective}, []float64{tt.objective})
			same(t, "gradient", slices.Concat(f.Gradient...), tt.gradient)
		})
	}
	textHas(t, textOf(t, r),
		"masked_mean its length [2.0000, 2.0000] 2.0000 [0.2500, 0.1429]",
		"masked_normalize 7 [1.1429, 2.0000] 1.5714 [0.1429, 0.1429]",
		"0.2500 0.2500 0.2500 0.2500 0.0000 0.0000 0.0000",
		"weighs 1.75 times as much as one of the completion of 7", "halve it, and the gradient doubles")
}

// The gradient with respect to the ratio is minus the loss's gradient with respect to the
// log-probability over the ratio: another path through pkg/rl to the same numbers.
func TestLengthNormAgreesWithTheLoss(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lengths := rapid.SliceOfN(rapid.IntRange(1, 9), 1, 5).Draw(t, "lengths")
		number := rapid.Float64Range(-3, 3)
		o := LengthNormOptions{
			Lengths: lengths, MaxLength: rapid.IntRange(0, 12).Draw(t, "T"),
			Advantages: rapid.SliceOfN(number, len(lengths), len(lengths)).Draw(t, "A"),
			Ratio:      rapid.Float64Range(0.1, 3).Draw(t, "ratio"),
			Constant:   rapid.Float64Range(0.5, 20).Draw(t, "Z"),
		}
		r, err := LengthNorm(o)
		expect.OK(t, err)
		s, mask, err := lengthMask(o.Lengths, o.MaxLength)
		expect.OK(t, err)
		for _, f := range r.Forms {
			loss, err := rl.Loss(rl.LossConfig{Loss: rl.GRPONoClip, Aggregation: f.Aggregation, NormalizeConstant: o.Constant}, rl.Batch{
				Shape: s, Mask: mask, Advantages: o.Advantages, LogProbs: slices.Repeat([]float64{math.Log(o.Ratio)}, s.Len()), OldLogProbs: make([]float64, s.Len()),
			})
			expect.OK(t, err)
			if !near(f.Objective, -loss.Loss) {
				t.Fatalf("%s: objective %v, loss %v", f.Aggregation, f.Objective, loss.Loss)
			}
			for i, g := range slices.Concat(f.Gradient...) {
				if want := -loss.Grad[i] / o.Ratio; !near(g, want) {
					t.Fatalf("%s: gradient %d is %v, the loss has %v", f.Aggregation, i, g, want)
				}
			}
		}
	})
}

func TestLengthNormTakesMasks(t *testing.T) {
	o := DefaultLengthNorm()
	o.Masks = [][]bool{{true, false, true, false}, {true, true, true, true}}
	r, err := LengthNorm(o)
	expect.OK(t, err)
	if !slices.Equal(r.Lengths, []int{2, 4}) || !slices.Equal(r.Mask[0], []int{1, 0, 1, 0}) {
		t.Errorf("lengths %v, mask %v", r.Lengths, r.Mask)
	}
	same(t, "gradient", r.Forms[0].Gradient[0], []float64{0.5, 0, 0.5, 0})
}

func TestLengthNormRefuses(t *testing.T) {
	refuses(t, "explain lengthnorm: ", DefaultLengthNorm, LengthNorm, []refusal[LengthNormOptions]{
		{"no lengths", func(o *LengthNormOptions) { o.Lengths = nil }, "no lengths"},
		{"an empty completion", func(o *LengthNormOptions) { o.Lengths = []int{4, 0} }, "length 0 of completion 1"},
		{"a negative length", func(o *LengthNormOptions) { o.Lengths = []int{-1} }, "length -1"},
		{"too long", func(o *LengthNormOptions) { o.Lengths = []int{maxTokens + 1} }, "outside 1.."},
		{"too many tokens", func(o *LengthNormOptions) { o.Lengths = []int{maxTokens, maxTokens} }, "more than"},
		{"a wide row", func(o *LengthNormOptions) { o.MaxLength = maxTokens }, "more than"},
		{"advantages", func(o *LengthNormOptions) { o.Advantages = []float64{1, 2, 3} }, "3 advantages for 2 completions"},
		{"NaN", func(o *LengthNormOptions) { o.Ratio = math.NaN() }, "finite"},
		{"constant", func(o *LengthNormOptions) { o.Constant = -1 }, "constant"},
		{"ragged masks", func(o *LengthNormOptions) { o.Masks = [][]bool{{true}, {true, true}} }, "mask 1 has 2 tokens"},
		{"an empty mask", func(o *LengthNormOptions) { o.Masks = [][]bool{{true}, {false}} }, "mask 1 has no token"},
		{"no tokens", func(o *LengthNormOptions) { o.Masks = [][]bool{{}} }, "shape"},
	})
}
