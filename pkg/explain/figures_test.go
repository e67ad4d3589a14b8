package explain

import (
	"bytes"
	"io"
	"math"
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

func TestFiguresAreTheSameBytes(t *testing.T) {
	r, err := Clip(DefaultClip())
	expect.OK(t, err)
	f, err := r.Figure()
	first := draw(t, f, err)
	f, err = r.Figure()
	if !bytes.Equal(first, draw(t, f, err)) {
		t.Error("the second drawing differs")
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
