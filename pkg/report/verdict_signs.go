package report

import (
	"fmt"
	"math"
	"strings"

	"grpo/pkg/analysis"

	"grpo/pkg/stats"
)

// Signs are patterns in the figures of an arm that explain its reward or
// overrule it. Each is a rule on numbers; the thresholds stand here.
const (
	// shortShare: a length below this share of another is clearly shorter.
	shortShare = 0.9
	// hackedFormat: so large a share is formatted ...
	hackedFormat = 0.9
	// hackedWrong: ... and so large a share is formatted and wrong.
	hackedWrong = 0.8
	// hackedPay: ... while training paid so much more than the answers earned.
	hackedPay = 0.5
	// collapsedShare: a final reward below this share of the best on the way is
	// a collapse, as in training's own rule.
	collapsedShare = 0.5
)

// told marks a comparison that a sign has put into words.
type told struct {
	metric string
	a, b   int
}

func toldOf(c *analysis.Comparison) told {
	return told{c.Metric, min(c.ArmA, c.ArmB), max(c.ArmA, c.ArmB)}
}

// signs are the lines on signs, and which comparisons they told.
func (a *Report) signs() ([]string, map[told]bool) {
	var out []string
	done := map[told]bool{}
	for i := range a.Arms {
		switch r := &a.Arms[i]; {
		case r.Of(analysis.FinalMetric).N == 0:
		case hacked(r):
			out = append(out, a.hackedText(r))
		case r.Arm.Control:
			out = append(out, controlText(a, r))
		}
	}
	out = append(out, a.bimodalLines()...)
	out = append(out, a.clipLines()...)
	for i := range a.Arms {
		var beside []int
		for j := range a.Arms {
			if a.short(i, j) {
				beside = append(beside, j)
				done[told{"completion_length", min(i, j), max(i, j)}] = true
			}
		}
		if len(beside) > 0 {
			out = append(out, a.shortText(i, beside))
		}
	}
	return append(out, a.undoneLines()...), done
}

// hacked: nearly all completions carry the format, more than before training,
// nearly all of them are wrong, the answers are no better than before, and what
// was trained on paid for that.
func hacked(r *analysis.ArmResult) bool {
	if r.Problems == 0 || r.Of(analysis.FinalMetric).N == 0 {
		return false
	}
	wrong := r.Of(analysis.FormattedWrongMetric).Mean / float64(r.Problems)
	return r.Of(analysis.FormatMetric).Mean >= hackedFormat && r.Of(analysis.FormatMetric).Mean > r.Of(analysis.InitialFormatMetric).Mean &&
		wrong >= hackedWrong && r.Of(analysis.FinalMetric).Mean <= r.Of(analysis.InitialMetric).Mean &&
		r.Of(analysis.TrainRewardMetric).Mean-r.Of(analysis.TrainAnswerMetric).Mean >= hackedPay
}

func (a *Report) hackedText(r *analysis.ArmResult) string {
	who := r.Name()
	if r.Arm.Control {
		who = controlName(r)
	}
	tokens := analysis.FormatOf(analysis.LengthMetric, 0)
	return fmt.Sprintf("%s: the format is hacked: format reward %s with answer reward %s and %s a completion (before training %s, %s and %s).",
		who, analysis.Decimals(r.Of(analysis.FormatMetric).Mean, 2), analysis.Decimals(r.Of(analysis.FinalMetric).Mean, 2), tokens.Value(r.Of(analysis.LengthMetric).Mean),
		analysis.Decimals(r.Of(analysis.InitialFormatMetric).Mean, 2), analysis.Decimals(r.Of(analysis.InitialMetric).Mean, 2), tokens.Value(r.Of(analysis.InitialLengthMetric).Mean))
}

// gain is the change of reward over training, seed by seed.
func gain(r *analysis.ArmResult) stats.Estimate {
	resolution := 0.0
	if r.Problems > 0 {
		resolution = 1 / float64(r.Problems)
	}
	return stats.StudentT(stats.Differences(r.Of(analysis.FinalMetric).Values, r.Of(analysis.InitialMetric).Values), resolution)
}

// belowBase: training took away more than the seeds explain. One seed can't
// show that.
func belowBase(r *analysis.ArmResult) bool { return gain(r).Hi < 0 }

// fellApart: the arm diverged somewhere, ended below its base, or lost half of
// its best.
func fellApart(r *analysis.ArmResult) bool {
	return r.Diverged > 0 || belowBase(r) || r.Of(analysis.FinalMetric).N > 0 && r.Of(analysis.FinalMetric).Mean < collapsedShare*r.Of(analysis.BestMetric).Mean
}

// endText is how an arm that fell apart ended.
func (a *Report) endText(r *analysis.ArmResult) string {
	s := "final reward " + analysis.Reward(r.Of(analysis.FinalMetric))
	if belowBase(r) {
		s += fmt.Sprintf(", below the base level of %s", analysis.Percent(r.Of(analysis.InitialMetric).Mean))
	}
	if r.Diverged > 0 {
		s = "diverged in " + a.Divergence(*r) + ", " + s
	}
	return s
}

// controlName says that the arm is a control, if its own name does not.
func controlName(r *analysis.ArmResult) string {
	if strings.Contains(strings.ToLower(r.Name()), "control") {
		return r.Name()
	}
	return "control " + r.Name()
}

func controlText(a *Report, r *analysis.ArmResult) string {
	g := gain(r)
	n := analysis.FormatOf(analysis.FinalMetric, 0)
	switch {
	case fellApart(r):
		return fmt.Sprintf("%s: collapsed as it must (%s).", controlName(r), a.endText(r))
	case g.Lo > 0:
		return fmt.Sprintf("%s: did not collapse but gained %s over the base level, which its reward can't explain; look for a leak, or for a format that the base level lacked.",
			controlName(r), n.Difference(g.Mean, g.Lo, g.Hi))
	}
	return fmt.Sprintf("%s: did not learn, and did not collapse (%s; base level %s).", controlName(r), a.endText(r), analysis.Percent(r.Of(analysis.InitialMetric).Mean))
}

// offPolicy: more than one update a step.
func offPolicy(r *analysis.ArmResult) bool {
	return r.Of(analysis.UpdatesPerStepMetric).N > 0 && r.Of(analysis.UpdatesPerStepMetric).Mean > 1
}

// clipLines tell of off-policy arms that fell apart without a clip where
// others, with as many updates a step, held with one.
func (a *Report) clipLines() []string {
	var out []string
	for i := range a.Arms {
		free := &a.Arms[i]
		if free.Arm.Control || !offPolicy(free) || free.Of(analysis.ClipFractionMetric).N > 0 || !fellApart(free) {
			continue
		}
		var holds []string
		for j := range a.Arms {
			held := &a.Arms[j]
			same := math.Abs(held.Of(analysis.UpdatesPerStepMetric).Mean-free.Of(analysis.UpdatesPerStepMetric).Mean) < 0.01
			if held.Arm.Control || !offPolicy(held) || !same || held.Of(analysis.ClipFractionMetric).N == 0 || fellApart(held) {
				continue
			}
			holds = append(holds, fmt.Sprintf("%s at %s (the clip binds on %s of the tokens)", held.Name(), analysis.Reward(held.Of(analysis.FinalMetric)), analysis.Percent(held.Of(analysis.ClipFractionMetric).Mean)))
		}
		if len(holds) > 0 {
			out = append(out, fmt.Sprintf("off-policy, with %s updates a step and without a clip, %s falls apart: %s. With a clip the policy holds: %s.",
				analysis.Decimals(free.Of(analysis.UpdatesPerStepMetric).Mean, 0), free.Name(), a.endText(free), analysis.Listed(holds)))
		}
	}
	return out
}

// short: arm x writes clearly shorter completions than arm y and than before
// training, beyond what the seeds explain, and both arms are sound.
func (a *Report) short(x, y int) bool {
	p, q := &a.Arms[x], &a.Arms[y]
	if x == y || a.Control(x) || a.Control(y) || fellApart(p) || fellApart(q) || hacked(p) {
		return false
	}
	c := a.Find("completion_length", x, y)
	return c != nil && c.Separable && p.Of(analysis.LengthMetric).Mean < shortShare*q.Of(analysis.LengthMetric).Mean && p.Of(analysis.LengthMetric).Mean < shortShare*p.Of(analysis.InitialLengthMetric).Mean
}

// shortText tells of arm x, beside the arms that are longer.
func (a *Report) shortText(x int, beside []int) string {
	p := &a.Arms[x]
	n := analysis.FormatOf(analysis.LengthMetric, 0)
	var others []string
	for _, y := range beside {
		c := a.Find("completion_length", x, y)
		longer := c.Swapped() // a length, not a signed difference of the plan's arms
		others = append(others, fmt.Sprintf("%s writes %s (%s more)", a.Arms[y].Name(), n.Bare(a.Arms[y].Of(analysis.LengthMetric).Mean), n.Difference(longer.Mean, longer.Lo, longer.Hi)))
	}
	others = append(others, "the base model "+n.Bare(p.Of(analysis.InitialLengthMetric).Mean))
	return fmt.Sprintf("%s falls into short completions: %s, where %s.", p.Name(), n.Value(p.Of(analysis.LengthMetric).Mean), analysis.Listed(others))
}

// undoneLines tell, in a grid, where a short length at one value of a key is
// gone at the other value of the other key.
func (a *Report) undoneLines() []string {
	g := analysis.GridOf(&a.Sweep.Manifest)
	if g == nil {
		return nil
	}
	sound := func(arm int) bool { return a.Arms[arm].Of(analysis.LengthMetric).N > 0 && !fellApart(&a.Arms[arm]) }
	n := analysis.FormatOf(analysis.LengthMetric, 0)
	var out []string
	x, y := g.Factors[0], g.Factors[1]
	for i := range 2 {
		for j := range 2 {
			arm, otherX, otherY, opposite := g.Arms[i][j], g.Arms[1-i][j], g.Arms[i][1-j], g.Arms[1-i][1-j]
			if !sound(otherX) || !sound(otherY) || !sound(opposite) {
				continue
			}
			var cures []string
			if a.short(arm, otherX) && !a.short(otherY, opposite) {
				cures = append(cures, fmt.Sprintf("%s %s (%s)", y.Label, y.Values[1-j], n.Value(a.Arms[otherY].Of(analysis.LengthMetric).Mean)))
			}
			if a.short(arm, otherY) && !a.short(otherX, opposite) {
				cures = append(cures, fmt.Sprintf("%s %s (%s)", x.Label, x.Values[1-i], n.Value(a.Arms[otherX].Of(analysis.LengthMetric).Mean)))
			}
			if len(cures) > 0 {
				out = append(out, fmt.Sprintf("The short completions belong to %s %s together with %s %s: %s undoes them.",
					x.Label, x.Values[i], y.Label, y.Values[j], strings.Join(cures, " or ")))
			}
		}
	}
	return out
}
