package explain

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
	"grpo/pkg/rl"
)

func TestAggregationOfAShortAndALongResponse(t *testing.T) {
	r, err := Aggregation(DefaultAggregation())
	expect.OK(t, err)
	half, byLength := []float64{0.5, 0.5}, []float64{1. / 11, 10. / 11}
	tests := []struct {
		form  rl.Aggregation
		share []float64
		token []float64
		total float64
	}{
		{rl.MaskedMeanSeq, half, []float64{0.005, 0.0005}, 1},
		{rl.SeqMeanTokenMean, half, []float64{0.005, 0.0005}, 1},
		{rl.TokenMean, byLength, []float64{1. / 1100, 1. / 1100}, 1},
		{rl.MaskedNormalizeSeq, byLength, []float64{0.0005, 0.0005}, 0.55},
		{rl.Constant, byLength, []float64{0.001, 0.001}, 1.1},
		{rl.TokenSum, byLength, []float64{1, 1}, 1100},
		{rl.SeqMeanTokenSum, byLength, []float64{0.5, 0.5}, 550},
		{rl.SeqMeanTokenSumNorm, byLength, []float64{0.0005, 0.0005}, 0.55},
	}
	if len(r.Forms) != len(tests) {
		t.Errorf("%d forms, want all %d", len(r.Forms), len(tests))
	}
	for _, tt := range tests {
		t.Run(string(tt.form), func(t *testing.T) {
			f := r.Form(tt.form)
			same(t, "share", f.Share, tt.share)
			same(t, "token weight", f.TokenWeight, tt.token)
			same(t, "total", []float64{f.Total}, []float64{tt.total})
			if alias[tt.form] == "" {
				t.Error("no word on whose it is")
			}
		})
	}
	textHas(t, textOf(t, r), "masked_mean sequence-level; TRL grpo 50.0% / 50.0% 0.005 / 0.0005 1",
		"token-mean token-level; verl, TRL dapo 9.1% / 90.9%", "0.55 for masked_normalize, 1.1 for constant, 1100 for token-sum")
}

func TestSharesAddUpToOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lengths := rapid.SliceOfN(rapid.IntRange(1, 50), 1, 6).Draw(t, "lengths")
		r, err := Aggregation(AggregationOptions{Lengths: lengths})
		expect.OK(t, err)
		for _, f := range r.Forms {
			sum := 0.0
			for _, x := range f.Share {
				sum += x
			}
			if !near(sum, 1) {
				t.Fatalf("%s: shares add up to %v", f.Aggregation, sum)
			}
		}
		expect.OK(t, r.WriteText(&strings.Builder{}))
	})
}

func TestAggregationRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    AggregationOptions
		want string
	}{
		{"no lengths", AggregationOptions{}, "no lengths"},
		{"length 0", AggregationOptions{Lengths: []int{0}}, "length 0"},
		{"constant", AggregationOptions{Lengths: []int{3}, Constant: -2}, "normalize constant"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Aggregation(tt.o)
			wantError(t, err, tt.want)
		})
	}
}
