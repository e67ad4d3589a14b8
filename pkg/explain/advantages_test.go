package explain

import (
	"math"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
)

// The expected numbers are worked out from the definitions by hand: 16 rewards
// with 7 ones have mean 7/16 and sample variance 16/15 * 7/16 * 9/16.
func TestAdvantagesOfFourPrompts(t *testing.T) {
	r, err := Advantages(DefaultAdvantages())
	expect.OK(t, err)
	mean, std := 7./16, math.Sqrt(16./15*7/16*9/16)
	same(t, "batch mean and std", []float64{r.Mean, r.Std, r.FracRewardZeroStd}, []float64{mean, std, 0.5})
	up, down := (1-mean)/(std+1e-6), -mean/(std+1e-6)
	root3 := 1 / math.Sqrt(3)
	want := map[string][][]float64{
		"local":    {{0, 0, 0, 0}, {root3 * 1.5, -root3 * 1.5, root3 * 1.5, -root3 * 1.5}, {1.5, -0.5, -0.5, -0.5}, {0, 0, 0, 0}},
		"global":   {{up, up, up, up}, {up, down, up, down}, {up, down, down, down}, {down, down, down, down}},
		"hybrid":   {{0, 0, 0, 0}, {0.5 / std, -0.5 / std, 0.5 / std, -0.5 / std}, {0.75 / std, -0.25 / std, -0.25 / std, -0.25 / std}, {0, 0, 0, 0}},
		"raw":      {{1, 1, 1, 1}, {1, 0, 1, 0}, {1, 0, 0, 0}, {0, 0, 0, 0}},
		"centered": {{0, 0, 0, 0}, {0.5, -0.5, 0.5, -0.5}, {0.75, -0.25, -0.25, -0.25}, {0, 0, 0, 0}},
		"maxrl":    {{0, 0, 0, 0}, {1, -1, 1, -1}, {3, -1, -1, -1}, {0, 0, 0, 0}},
	}
	zero := map[string]int{"local": 2, "global": 0, "hybrid": 2, "raw": 1, "centered": 2, "maxrl": 2}
	if len(r.Forms) != len(want) {
		t.Errorf("%d forms, want %d", len(r.Forms), len(want))
	}
	for _, f := range r.Forms {
		t.Run(f.Name, func(t *testing.T) {
			for i := range want[f.Name] {
				same(t, r.Prompts[i].Name, f.Advantages[i], want[f.Name][i])
			}
			if f.ZeroAdvantage != zero[f.Name] {
				t.Errorf("%d zero-advantage groups", f.ZeroAdvantage)
			}
		})
	}
	for _, g := range []int{0, 3} {
		for _, a := range r.Forms[0].Advantages[g] {
			if a != 0 {
				t.Errorf("a group of equal rewards has advantage %v, want exactly 0", a)
			}
		}
	}
}

func TestWeightOfAPrompt(t *testing.T) {
	tests := []struct {
		name    string
		prompts []Prompt
		want    []string
		heading bool
	}{
		{"hard and easy", []Prompt{{"hard", []float64{1, 0, 0, 0}}, {"easy", []float64{1, 1, 1, 0}}}, []string{
			"prompt mean local global hybrid raw centered maxrl",
			"hard 0.2500 2.0000 1.8708 1.8708 1.0000 1.0000 4.0000",
			"easy 0.7500 2.0000 1.8708 1.8708 1.0000 1.0000 1.3333",
		}, false},
		{"MaxRL is not defined for negative rewards", []Prompt{{"signed", []float64{1, -1}}},
			[]string{"prompt mean local global hybrid raw centered signed 0.0000"}, false},
		{"equal rewards", []Prompt{{"same", []float64{1, 1}}}, []string{"1 of the 1 groups has equal rewards"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := DefaultAdvantages()
			o.Prompts = tt.prompts
			r, err := Advantages(o)
			expect.OK(t, err)
			textHas(t, textOf(t, r), tt.want...)
			if got := strings.Contains(textOf(t, r), "What this means"); got != tt.heading {
				t.Errorf("heading of the conclusions: %v, want %v", got, tt.heading)
			}
		})
	}
}

func TestNearlyEqualGroup(t *testing.T) {
	r, err := Advantages(DefaultAdvantages())
	expect.OK(t, err)
	if r.Odd != 3 || len(r.Nearly) != 3 {
		t.Fatalf("odd %d, %d groups", r.Odd, len(r.Nearly))
	}
	equal, near, failed := r.Nearly[0], r.Nearly[1], r.Nearly[2]
	if !slices.Equal(equal.Local, []float64{0, 0, 0, 0}) || equal.Factor != 0 {
		t.Errorf("a group that is all right has advantages %v", equal.Local)
	}
	same(t, "nearly equal, local", near.Local, []float64{0.49900199, 0.49900199, 0.49900199, -1.49700599})
	same(t, "nearly equal, not divided", near.Plain, []float64{0.00025, 0.00025, 0.00025, -0.00075})
	same(t, "factor", []float64{near.Factor}, []float64{1 / (0.0005 + 1e-6)})
	same(t, "failed", failed.Local, []float64{0.499999, 0.499999, 0.499999, -1.499997})
	if a := math.Abs(near.Hybrid[3]); a > 0.01 {
		t.Errorf("hybrid gives %v", a)
	}
	textHas(t, textOf(t, r), "[1, 1, 1, 0.999] 0.00050 1996 -1.49701 -0.00147 -0.00075",
		"the advantages are [0, 0, 0, 0]",
		"difference of 0.001 in reward becomes an advantage of -1.4970", "multiplied by 1996")
}

func TestNearlyFindsTheOddOne(t *testing.T) {
	tests := []struct {
		name   string
		nearly []float64
		odd    int
		mark   bool // the figure marks it
	}{
		{"first", []float64{0.4, 0.5, 0.5}, 0, true},
		{"middle", []float64{0.5, 0.51, 0.5, 0.5}, 1, true},
		{"last", []float64{0, 0, 0.001}, 2, true},
		{"two", []float64{0.5, 0.51}, 1, true},
		{"several", []float64{0.5, 0.51, 0.5, 0.52}, 3, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := DefaultAdvantages()
			o.Nearly = tt.nearly
			r, err := Advantages(o)
			expect.OK(t, err)
			if r.Odd != tt.odd {
				t.Errorf("odd %d, want %d", r.Odd, tt.odd)
			}
			if (r.Nearly[1].Hybrid != nil) != (len(tt.nearly) == 4) {
				t.Errorf("hybrid %v in a batch of groups of 4", r.Nearly[1].Hybrid)
			}
			f, err := r.Figure()
			expect.OK(t, err)
			if got := len(f.Panels[0].Points) > 0; got != tt.mark {
				t.Errorf("marked: %v", got)
			}
		})
	}
}

func TestAdvantagesRefuses(t *testing.T) {
	refuses(t, "explain advantages: ", DefaultAdvantages, Advantages, []refusal[AdvantageOptions]{
		{"no groups", func(o *AdvantageOptions) { o.Prompts = nil }, "no groups"},
		{"different sizes", func(o *AdvantageOptions) { o.Prompts[1].Rewards = []float64{1} }, "group 1 has 1 rewards, group 0 has 4"},
		{"groups of one", func(o *AdvantageOptions) { o.Prompts = []Prompt{{"a", []float64{1}}} }, "group of 1"},
		{"empty groups", func(o *AdvantageOptions) { o.Prompts = []Prompt{{"a", nil}} }, "group size 0"},
		{"NaN", func(o *AdvantageOptions) { o.Prompts[0].Rewards = []float64{1, 1, 1, math.NaN()} }, "finite"},
		{"eps", func(o *AdvantageOptions) { o.Eps = -1 }, "eps"},
		{"one nearly equal", func(o *AdvantageOptions) { o.Nearly = []float64{1} }, "nearly equal group of 1"},
		{"infinite nearly equal", func(o *AdvantageOptions) { o.Nearly = []float64{1, math.Inf(1)} }, "finite"},
	})
}
