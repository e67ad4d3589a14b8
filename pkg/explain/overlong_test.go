package explain

import (
	"math"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/rl"
)

func TestOverlong(t *testing.T) {
	r, err := Overlong(DefaultOverlong())
	expect.OK(t, err)
	// Rewards 1, 0, 0, 1, 1: mean 0.6, sample variance 1.2/4.
	std := math.Sqrt(0.3) + 1e-6
	up, down := 0.4/std, -0.6/std
	// Without the truncated one: mean 0.75, sample variance 0.75/3.
	upOut, downOut := 0.25/(0.5+1e-6), -0.75/(0.5+1e-6)
	tests := []struct {
		name            string
		kept            bool
		advantage, out  float64
		share, filtered float64
		soft            float64
	}{
		{"500", true, up, upOut, 500. / 20284, 500. / 12092, 0},
		{"3000", true, down, downOut, 3000. / 20284, 3000. / 12092, 0},
		{"8192 cut off", false, down, math.NaN(), 8192. / 20284, 0, -1},
		{"8192 complete", true, up, upOut, 8192. / 20284, 8192. / 12092, -1},
		{"400", true, up, upOut, 400. / 20284, 400. / 12092, 0},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := r.Completions[i]
			if c.Kept != tt.kept {
				t.Errorf("kept: %v", c.Kept)
			}
			same(t, "advantage, left out, share, filtered, soft",
				[]float64{c.Advantage, c.AdvantageLeftOut, c.Share, c.ShareFiltered, c.SoftPunishment},
				[]float64{tt.advantage, tt.out, tt.share, tt.filtered, tt.soft})
		})
	}
	if r.Truncated != 1 || r.AtLimit != 2 || r.TokensKept != 12092 {
		t.Errorf("result %+v", r)
	}
	textHas(t, textOf(t, r), "8192 no no 0 -1.0954 40.4% 0.0%", "8192 yes yes 1 0.7303 40.4% 67.7%",
		"A test for length >= 8192 would have dropped it", "each kept token weighs 1.68 times as much")
	if v := asJSON(t, r).(map[string]any)["completions"].([]any)[2].(map[string]any)["advantage_if_left_out_of_baseline"]; v != nil {
		t.Errorf("NaN became %v in JSON", v)
	}
}

func TestOverlongOfOtherBatches(t *testing.T) {
	tests := []struct {
		name string
		set  func(*OverlongOptions)
		want []string
	}{
		{"nothing truncated", func(o *OverlongOptions) { o.EOS[2] = true }, []string{"the filter changes nothing"}},
		{"all truncated", func(o *OverlongOptions) { o.EOS = make([]bool, 5) }, []string{"No token of this group remains", "5 completions without <eos>"}},
		{"short and cut off", func(o *OverlongOptions) { o.EOS[4] = false }, []string{"A completion of 400 tokens has no <eos>"}},
		{"two complete at the limit", func(o *OverlongOptions) { o.EOS[2], o.EOS[0] = true, false }, []string{"2 completions are 8192 tokens long", "dropped them"}},
		{"masked_mean", func(o *OverlongOptions) { o.Aggregation = rl.MaskedMeanSeq }, []string{"Under masked_mean each token of the first kept completion weighs 1 times"}},
		{"seq-mean-token-mean", func(o *OverlongOptions) { o.Aggregation = rl.SeqMeanTokenMean }, []string{"weighs 1.25 times"}},
		{"constant", func(o *OverlongOptions) { o.Aggregation = rl.Constant }, []string{"weighs 1 times"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := DefaultOverlong()
			tt.set(&o)
			r, err := Overlong(o)
			expect.OK(t, err)
			textHas(t, textOf(t, r), tt.want...)
		})
	}
}

func TestOverlongRefuses(t *testing.T) {
	refuses(t, "explain overlong: ", DefaultOverlong, Overlong, []refusal[OverlongOptions]{
		{"marks", func(o *OverlongOptions) { o.EOS = o.EOS[:2] }, "5 lengths, 2 marks of <eos> and 5 rewards"},
		{"rewards", func(o *OverlongOptions) { o.Rewards = nil }, "0 rewards"},
		{"over the limit", func(o *OverlongOptions) { o.MaxLength = 1000 }, "completion 1 has 3000 tokens, the limit is 1000"},
		{"aggregation", func(o *OverlongOptions) { o.Aggregation = "mean" }, "unknown aggregation"},
		{"ramp", func(o *OverlongOptions) { o.SoftCache = 9000 }, "a ramp of 9000"},
		{"NaN", func(o *OverlongOptions) { o.Rewards[0] = math.NaN() }, "finite"},
		{"none", func(o *OverlongOptions) { *o = OverlongOptions{} }, "no lengths"},
	})
}
