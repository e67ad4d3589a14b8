package explain

import (
	"bytes"
	"io"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
	"grpo/pkg/plots"
	"grpo/pkg/rl"
)

func draw(t expect.TB, f plots.ExplainFigure, err error) []byte {
	expect.OK(t, err)
	var b bytes.Buffer
	expect.OK(t, plots.ExplainPlot(&b, f, "png"))
	return b.Bytes()
}

func TestClipFigure(t *testing.T) {
	r, err := Clip(DefaultClip())
	expect.OK(t, err)
	f, err := r.Figure()
	draw(t, f, err)
	if len(f.Panels) != 2 {
		t.Fatalf("%d panels, want one for each sign", len(f.Panels))
	}
	good, bad := f.Panels[0], f.Panels[1]
	last := func(c plots.ExplainCurve) float64 { return c.Y[len(c.Y)-1] }
	same(t, "A > 0: where the curves end", []float64{last(good.Curves[1]), last(good.Curves[2])}, []float64{1.2, 1.28})
	same(t, "A < 0: where the curves end", []float64{last(bad.Curves[1]), last(bad.Curves[2])}, []float64{-bad.XMax, -3})
	same(t, "A < 0: where the curve starts", bad.Curves[1].Y[:1], []float64{-0.8})
	same(t, "A > 0: points", []float64{good.Points[0].Y, good.Points[1].Y}, []float64{1.2, 1.28})
	same(t, "A < 0: points", []float64{bad.Points[0].Y, bad.Points[1].Y}, []float64{-math.Exp(1.6), -3})
	for _, p := range f.Panels {
		for _, pt := range p.Points {
			if pt.X < p.XMin || pt.X > p.XMax || pt.Y < p.YMin || pt.Y > p.YMax {
				t.Errorf("the point %v is outside the axes", pt)
			}
		}
	}
}

func TestAdvantageFigure(t *testing.T) {
	r, err := Advantages(DefaultAdvantages())
	expect.OK(t, err)
	f, err := r.Figure()
	draw(t, f, err)
	p := f.Panels[0]
	if len(p.Curves) != 3 || len(p.Points) != 3 {
		t.Fatalf("%d curves, %d points", len(p.Curves), len(p.Points))
	}
	local, plain := p.Curves[0], p.Curves[1]
	// From a difference of 1e-4 to 1, the divided advantage hardly changes and
	// the plain one changes by the same factor.
	if lo, hi := local.Y[40], local.Y[len(local.Y)-1]; hi/lo > 1.1 {
		t.Errorf("local rises from %v to %v", lo, hi)
	}
	same(t, "plain", []float64{plain.Y[len(plain.Y)-1] / plain.Y[40]}, []float64{1e4})
	r.Nearly = nil
	if _, err := r.Figure(); err == nil {
		t.Error("a figure of nothing")
	}
}

func TestAggregationFigure(t *testing.T) {
	r, err := Aggregation(DefaultAggregation())
	expect.OK(t, err)
	f, err := r.Figure()
	draw(t, f, err)
	same(t, "points", []float64{f.Panels[0].Points[0].Y, f.Panels[0].Points[1].Y}, []float64{0.5, 10. / 11})
	r.Lengths = []int{5}
	if _, err := r.Figure(); err == nil {
		t.Error("a figure of one response")
	}
}

// The same for the losses of pairs; each figure has hundreds of losses.
func TestDPOFiguresOfUnusualInputs(t *testing.T) {
	for _, loss := range rl.PreferenceLosses() {
		for _, x := range []float64{-300, -1, 0} {
			for _, beta := range []float64{1e-3, 100} {
				d := DefaultDPO()
				d.Chosen[0][0], d.RefRejected[1][0] = x, x
				d.Config.Beta, d.Config.Losses = beta, []rl.PreferenceLoss{rl.PreferenceLoss(loss)}
				if d.Config.Losses[0] == rl.DPOExo {
					d.Config.LabelSmoothing = 0.1
				}
				p, err := DPO(d)
				expect.OK(t, err)
				f, err := p.Figure()
				expect.OK(t, err)
				expect.OK(t, f.Check())
			}
		}
	}
}

// All inputs that give a table give a figure.
func TestFiguresOfUnusualInputs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		check := func(f plots.ExplainFigure, err error) {
			expect.OK(t, err)
			expect.OK(t, f.Check())
		}
		logp := rapid.Float64Range(-300, 0)
		c, err := Clip(ClipOptions{
			OldLogProb: logp.Draw(t, "old"), LogProb: logp.Draw(t, "new"), Epsilon: rapid.Float64Range(1e-4, 3).Draw(t, "epsilon"),
			EpsilonHigh: rapid.SliceOfN(rapid.Float64Range(1e-4, 10), 1, 4).Draw(t, "high"), Advantage: rapid.Float64Range(1e-3, 1e3).Draw(t, "A"),
			DualClip: rapid.SampledFrom([]float64{0, 1.01, 3, 100}).Draw(t, "c"),
		})
		expect.OK(t, err)
		check(c.Figure())

		lengths := rapid.SliceOfN(rapid.IntRange(1, 2000), 2, 4).Draw(t, "lengths")
		g, err := Aggregation(AggregationOptions{Lengths: lengths})
		expect.OK(t, err)
		check(g.Figure())

		reward := rapid.SampledFrom([]float64{-1e6, -1, 0, 0.5, 1, 1 + 1e-9, 7, 1e6})
		o := AdvantageOptions{Eps: rapid.SampledFrom([]float64{0, 1e-6, 1}).Draw(t, "eps"), Nearly: rapid.SliceOfN(reward, 2, 5).Draw(t, "nearly")}
		size := rapid.IntRange(2, 4).Draw(t, "size")
		for range rapid.IntRange(1, 3).Draw(t, "groups") {
			o.Prompts = append(o.Prompts, Prompt{"p", rapid.SliceOfN(reward, size, size).Draw(t, "rewards")})
		}
		a, err := Advantages(o)
		expect.OK(t, err)
		check(a.Figure())
		expect.OK(t, a.WriteText(io.Discard))
	})
}

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
