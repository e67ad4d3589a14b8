package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"grpo/pkg/analysis"

	"grpo/internal/textutil"
)

// rateArm is an arm of a learning-rate sweep.
type rateArm struct {
	arm  int
	rate float64
	row  *analysis.ArmResult
	// against is the best arm less this one; nil for the best, or where there is
	// no best.
	against *analysis.Comparison
}

// rateArms are the arms with a result, from the slowest rate to the fastest.
func (a *Report) rateArms() []rateArm {
	var out []rateArm
	for i := range a.Arms {
		row := &a.Arms[i]
		if row.Of(analysis.FinalMetric).N == 0 {
			continue
		}
		v, err := strconv.ParseFloat(row.Arm.Point[0], 64)
		if err != nil {
			continue // rateAxis has looked at all of them
		}
		r := rateArm{arm: i, rate: v, row: row}
		if a.Best >= 0 && a.Best != i {
			r.against = a.Find("final", a.Best, i)
		}
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(x, y rateArm) int { return cmp.Compare(x.rate, y.rate) })
	return out
}

// collapses: the arm fell apart.
func (r rateArm) collapses() bool { return fellApart(r.row) }

// worse: the best arm beats it.
func (r rateArm) worse() bool {
	return r.against != nil && r.against.Separable && r.against.Mean > 0
}

// rises: its reward still grows at the end, by a point or more and by more than
// the seeds explain.
func (r rateArm) rises() bool {
	return r.row.Of(analysis.LateGainMetric).N > 1 && r.row.Of(analysis.LateGainMetric).Lo > 0 && r.row.Of(analysis.LateGainMetric).Mean >= 0.01
}

// slow: below the best rate, worse than it, and still rising.
func (r rateArm) slow(best float64) bool { return r.rate < best && r.worse() && r.rises() }

func (r rateArm) value() string { return analysis.Rate(r.rate) }

// rateAnswer names the best rate, and those that learn slowly or collapse.
func (a *Report) rateAnswer() string {
	if a.Best < 0 {
		return "every learning rate diverged in at least one seed, so none is proposed"
	}
	best := a.Arms[a.Best]
	arms := a.rateArms()
	at := slices.IndexFunc(arms, func(r rateArm) bool { return r.arm == a.Best })
	var slow, lower, falls, ties []string
	for i, r := range arms {
		switch {
		case i == at:
		case r.collapses():
			falls = append(falls, r.value())
		case r.slow(arms[at].rate):
			slow = append(slow, r.value())
		case r.worse():
			lower = append(lower, r.value())
		default:
			ties = append(ties, r.value())
		}
	}
	verb := func(words []string, one, many string) string {
		if len(words) == 1 {
			return analysis.Listed(words) + " " + one
		}
		return analysis.Listed(words) + " " + many
	}
	what := "highest mean validation reward"
	switch a.BestBadge {
	case analysis.BadgeBest:
		what = "best validation reward"
	case "":
		what += " of those that did not diverge"
	}
	s := fmt.Sprintf("learning rate %s has the %s, %s, %s", arms[at].value(), what, analysis.Reward(best.Of(analysis.FinalMetric)), textutil.Count(best.Of(analysis.FinalMetric).N, "seed"))
	if len(ties) > 0 {
		s += ", not separable from " + analysis.Listed(ties)
	}
	if len(slow) > 0 {
		s += "; " + verb(slow, "learns", "learn") + " slowly"
	}
	if len(lower) > 0 {
		s += "; " + verb(lower, "is", "are") + " worse"
	}
	if len(falls) > 0 {
		s += "; " + verb(falls, "collapses", "collapse")
	}
	return s
}

// rateLines have a line for each rate, from the slowest to the fastest.
func (a *Report) rateLines() []string {
	var out []string
	arms := a.rateArms()
	at := slices.IndexFunc(arms, func(r rateArm) bool { return r.arm == a.Best })
	for i, r := range arms {
		out = append(out, a.rateLine(r, i, at, arms)+".")
	}
	switch {
	case at < 0 || len(arms) < 2:
	case at == len(arms)-1:
		out = append(out, fmt.Sprintf("The highest mean is at the largest rate with a result (%s): a larger one may be better.", arms[at].value()))
	case at == 0:
		out = append(out, fmt.Sprintf("The highest mean is at the smallest rate with a result (%s): a smaller one may be better.", arms[at].value()))
	}
	return out
}

func (a *Report) rateLine(r rateArm, i, at int, arms []rateArm) string {
	n := analysis.FormatOf(analysis.FinalMetric, 0)
	steps := ""
	if r.row.Steps > 0 {
		steps = fmt.Sprintf(" after %s", textutil.Count(r.row.Steps, "step"))
	}
	behind := ""
	if r.against != nil && r.against.N > 1 {
		behind = fmt.Sprintf(", %s behind the best", n.Difference(r.against.Mean, r.against.Lo, r.against.Hi))
	}
	rising := ""
	if r.rises() {
		rising = fmt.Sprintf(", still rising (%s over the last quarter)", n.Difference(r.row.Of(analysis.LateGainMetric).Mean, r.row.Of(analysis.LateGainMetric).Lo, r.row.Of(analysis.LateGainMetric).Hi))
	}
	switch {
	case r.collapses():
		return fmt.Sprintf("%s collapses: %s", r.value(), a.endText(r.row))
	case i == at:
		verb := "is best"
		if a.BestBadge != analysis.BadgeBest {
			verb = "has the highest mean"
		}
		return fmt.Sprintf("%s %s: %s%s%s", r.value(), verb, analysis.Reward(r.row.Of(analysis.FinalMetric)), steps, rising)
	case at >= 0 && r.slow(arms[at].rate):
		return fmt.Sprintf("%s learns slowly: %s%s%s%s", r.value(), analysis.Reward(r.row.Of(analysis.FinalMetric)), steps, behind, rising)
	case r.worse():
		return fmt.Sprintf("%s is worse: %s%s%s", r.value(), analysis.Reward(r.row.Of(analysis.FinalMetric)), behind, rising)
	case r.against != nil:
		d, who := *r.against, "the best and it"
		if d.Reversed {
			d, who = d.Swapped(), "it and the best"
		}
		return fmt.Sprintf("%s: %s%s; %s %s", r.value(), analysis.Reward(r.row.Of(analysis.FinalMetric)), rising, who, notSeparable(&d, n))
	}
	return fmt.Sprintf("%s: %s%s", r.value(), analysis.Reward(r.row.Of(analysis.FinalMetric)), rising)
}
