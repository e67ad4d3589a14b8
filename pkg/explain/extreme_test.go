package explain

import (
	"io"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/rl"
)

type writer interface{ WriteText(io.Writer) error }

// changed returns a function that makes a subject of changed default options.
func changed[O any, R writer](defaults func() O, subject func(O) (R, error)) func(func(*O)) func() (writer, error) {
	return func(change func(*O)) func() (writer, error) {
		return func() (writer, error) {
			o := defaults()
			change(&o)
			return subject(o)
		}
	}
}

// For any finite inputs, a subject computes finite results or returns an error that they are out of
// range; it never prints NaN or an infinity.
func TestExtremeInputs(t *testing.T) {
	advantages, clip := changed(DefaultAdvantages, Advantages), changed(DefaultClip, Clip)
	length, aggregation := changed(DefaultLengthNorm, LengthNorm), changed(DefaultAggregation, Aggregation)
	overlong, walk := changed(DefaultOverlong, Overlong), changed(DefaultWalkthrough, Walkthrough)
	dpo, rewardModel := changed(DefaultDPO, DPO), changed(DefaultRewardModel, RewardModel)
	group := func(r ...float64) func(*AdvantageOptions) {
		return func(o *AdvantageOptions) { o.Prompts = []Prompt{{"prompt 0", r}} }
	}
	for _, tt := range []struct {
		name    string
		do      func() (writer, error)
		refused bool
	}{
		{"advantages 1e308, -1e308, 0", advantages(group(1e308, -1e308, 0)), false},
		{"advantages 1e-300", advantages(group(1e-300, 0, 0)), false},
		{"advantages whose std is out of range", advantages(group(1.7e308, -1.7e308)), true},
		{"nearly equal, out of range", advantages(func(o *AdvantageOptions) { o.Nearly = []float64{1.7e308, -1.7e308} }), true},
		{"eps 1e308", advantages(func(o *AdvantageOptions) { o.Eps = 1e308 }), false},
		{"clip 1e308", clip(func(o *ClipOptions) { o.Advantage = 1e308 }), true},
		{"clip at logp -1e308", clip(func(o *ClipOptions) { o.LogProb = -1e308 }), false},
		{"clip up to 1e308", clip(func(o *ClipOptions) { o.EpsilonHigh = []float64{1e308} }), false},
		{"clip from 1e308 below", clip(func(o *ClipOptions) { o.Epsilon = 1e308 }), false},
		{"lengthnorm 1e308 x 1e308", length(func(o *LengthNormOptions) { o.Ratio, o.Advantages = 1e308, []float64{1e308} }), true},
		{"lengthnorm over 1e-320", length(func(o *LengthNormOptions) { o.Constant = 1e-320 }), true},
		{"aggregation over 1e-320", aggregation(func(o *AggregationOptions) { o.Constant = 1e-320 }), true},
		{"overlong 1e308", overlong(func(o *OverlongOptions) { o.Rewards = []float64{1e308, -1e308, 0, 1, 1} }), false},
		{"overlong over 1e-320", overlong(func(o *OverlongOptions) { o.Aggregation, o.Constant = rl.Constant, 1e-320 }), true},
		{"walkthrough 1e308", walk(func(o *WalkthroughOptions) { o.Rewards = []float64{1e308, -1e308, 0} }), false},
		{"walkthrough, undivided", walk(func(o *WalkthroughOptions) { o.Rewards, o.UseStd = []float64{1e308, 1e308, -1e308}, false }), true},
		{"walkthrough, epsilon 1e308", walk(func(o *WalkthroughOptions) { o.Epsilon = 1e308 }), false},
		{"walkthrough, a ratio out of range", walk(func(o *WalkthroughOptions) { o.OldLogProbs[0][0] = -1e308 }), true},
		{"dpo, beta 1e-300", dpo(func(o *DPOOptions) { o.Config.Beta = 1e-300 }), false},
		{"dpo at logp -1e308", dpo(func(o *DPOOptions) { o.Chosen[0][0] = -1e308 }), false},
		{"dpo, a reward out of range", dpo(func(o *DPOOptions) { o.Chosen[0][0], o.Config.Beta = -1e308, 10 }), true},
		{"dpo, a loss out of range", dpo(func(o *DPOOptions) { o.Chosen[0][0], o.Config.Losses[0] = -1e200, rl.DPOIPO }), true},
		{"dpo, a divergence out of range", dpo(func(o *DPOOptions) { o.Chosen[0][0], o.Config.Divergence = -1e4, rl.ForwardKL }), true},
		{"reward model, 1e150", rewardModel(func(o *RewardModelOptions) { o.Chosen[0] = 1e150 }), false},
		{"reward model, 1e308", rewardModel(func(o *RewardModelOptions) { o.Chosen[0] = 1e308 }), true},
		{"reward model, a difference out of range", rewardModel(func(o *RewardModelOptions) { o.Chosen[0], o.Rejected[0], o.Centering = 1e308, -1e308, 0 }), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := tt.do()
			if (err != nil) != tt.refused {
				t.Fatalf("error %v, want one: %v", err, tt.refused)
			}
			if err != nil {
				if !strings.Contains(err.Error(), "out of the range of a 64-bit number") {
					t.Errorf("the error has no reason: %v", err)
				}
				return
			}
			var b strings.Builder
			expect.OK(t, r.WriteText(&b))
			if text := b.String(); strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
				t.Errorf("prints a number that is none:\n%s", text)
			}
		})
	}
}

// Values of a batch file that overflow are an error that names the case.
func TestBatchOutOfRange(t *testing.T) {
	_, err := groupedAdvantages(File{"f.json", []byte(`{"grpo":[{"rewards_per_func":[[1.7e308],[1.7e308],[-1.7e308],[1.7e308]],"num_generations":4,"scale_rewards":"none"}]}`)}, 1e-4)
	wantError(t, err, "f.json: grpo[0]: an advantage is -Inf, out of the range")
	_, err = losses(File{"f.json", []byte(`{"inputs":{"mask":[[1]],"per_token_logps":[[-1]],"old_per_token_logps":[[-1000]],"advantages":[-1]},"cases":[{"config":{"loss_type":"grpo"}}]}`)})
	wantError(t, err, "f.json: cases[0]: the loss or its gradient is +Inf, out of the range")
}
