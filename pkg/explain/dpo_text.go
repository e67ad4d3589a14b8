package explain

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"grpo/internal/textutil"
	"grpo/pkg/plots"
	"grpo/pkg/rl"
)

// WriteText writes the tables and the conclusions.
func (r DPOResult) WriteText(w io.Writer) error {
	p := &page{}
	p.title("The loss of %s", textutil.Count(len(r.Pairs), "preference pair"))
	setting := fmt.Sprintf("loss_type %s, beta %s, f_divergence_type %s", each(r.LossTypes, ", ", asText[rl.PreferenceLoss]),
		short(r.Beta), r.Divergence)
	if r.LabelSmoothing != 0 {
		setting += ", label_smoothing " + short(r.LabelSmoothing)
	}
	if r.LDAlpha != 1 {
		setting += ", ld_alpha " + short(r.LDAlpha)
	}
	p.title("%s", setting)
	p.title("1. Log-ratio of policy to reference, and reward = beta * log-ratio")
	table := [][]string{{"   pair", "completion", "tokens", "log p", "reference", "log-ratio", "reward"}}
	losses := [][]string{{"   pair", "margin", "P(chosen)", "right", "loss"}}
	gradients := make([][]float64, 0, 2*len(r.Pairs))
	for i, pair := range r.Pairs {
		for _, side := range []struct {
			name string
			DPOCompletion
		}{{"chosen", pair.Chosen}, {"rejected", pair.Rejected}} {
			table = append(table, []string{
				fmt.Sprintf("   %d", i), side.name, strconv.Itoa(side.Tokens), num(side.LogProb), num(side.RefLogP), num(side.LogRatio),
				num(side.Reward),
			})
			gradients = append(gradients, side.Gradient)
		}
		right, loss := "no", "n/a"
		if pair.Margin > 0 {
			right = "yes"
		}
		if pair.Loss != nil {
			loss = num(*pair.Loss)
		}
		losses = append(losses, []string{fmt.Sprintf("   %d", i), num(pair.Margin), percent(pair.Prob), right, loss})
	}
	p.table("llr", table...)
	p.gap()
	p.title("2. Margin of the rewards, P(chosen) = sigmoid(margin), and loss")
	p.table("lr", losses...)
	p.gap()
	m := r.Metrics
	p.line("   loss %s, rewards/accuracies %s, rewards/margins %s", num(r.Loss), num(m.Accuracies), num(m.Margins))
	p.gap()
	p.line("3. Gradient of the loss with respect to each logp")
	matrix(p, "dL/dlogp (rows: chosen and rejected of each pair in turn)", gradients, num)
	p.gap()
	p.title("4. The same pairs under each loss")
	compared := [][]string{{"   loss_type", "loss", "dL/dlogp chosen", "dL/dlogp rejected"}}
	for _, c := range r.Compared {
		name := "   " + string(c.LossType)
		if c.LabelSmoothing != r.LabelSmoothing {
			name += fmt.Sprintf(" (label_smoothing %s)", short(c.LabelSmoothing))
		}
		compared = append(compared, []string{name, num(c.Loss), num(c.GradChosen), num(c.GradRejected)})
	}
	p.table("lr", compared...)
	p.gap()
	p.line("   The derivatives are those of the first tokens of pair 0.")
	p.meaning()
	r.writeMeaning(p)
	return p.writeTo(w)
}

func (r DPOResult) writeMeaning(p *page) {
	equal := true
	for _, pair := range r.Pairs {
		equal = equal && pair.Chosen.LogRatio == 0 && pair.Rejected.LogRatio == 0
	}
	if equal {
		p.point(`Policy and reference are equal, as at the first step of a run: every reward and margin is 0. The sigmoid
			loss is log 2 = 0.6931, and rewards/accuracies is 0, because a margin of 0 does not count as right.`)
	}
	if len(r.LossTypes) == 1 && r.LossTypes[0] == rl.DPOSigmoid && r.Divergence == rl.ReverseKL && !equal {
		byMargin := func(a, b DPOPair) int { return cmp.Compare(a.Margin, b.Margin) }
		worst, best := slices.MinFunc(r.Pairs, byMargin), slices.MaxFunc(r.Pairs, byMargin)
		if n := float64(len(r.Pairs)); worst.Margin < best.Margin {
			p.point(`The gradient of a pair is beta * (1 - P(chosen)) / number of pairs: the pair with the margin %s weighs %s,
				the one with %s weighs %s. A pair that is clearly right hardly counts any more.`,
				num(worst.Margin), num(r.Beta*(1-worst.Prob)/n), num(best.Margin), num(r.Beta*(1-best.Prob)/n))
		}
	}
	for i, pair := range r.Pairs {
		if pair.Margin > 0 && pair.Chosen.LogRatio < 0 {
			p.point(`Pair %d is right although its chosen completion is less likely than under the reference (log-ratio
				%s): the rejected one fell further (%s). A loss of the margin compares the two and does not see it; apo_zero,
				nca_pair, bco_pair, sppo_hard and sft look at the chosen completion itself.`,
				i, num(pair.Chosen.LogRatio), num(pair.Rejected.LogRatio))
			break
		}
	}
	for i, pair := range r.Pairs {
		if pair.Chosen.Tokens != pair.Rejected.Tokens {
			p.point(`Rewards are sums over tokens: in pair %d over %d chosen and %d rejected ones, so a longer completion can
				gain more. ipo and sigmoid_norm divide by the lengths, and ld_alpha below 1 discounts the tokens beyond the
				shorter length.`, i, pair.Chosen.Tokens, pair.Rejected.Tokens)
			break
		}
	}
	ninety := math.Log(9)
	p.point(`beta sets how far the policy moves: P(chosen) = 90%% needs a margin of %s, at beta %s a difference of the
		log-ratios of %s nats.`, num(ninety), short(r.Beta), digits(ninety/r.Beta, 4))
}

// Figure plots the configured losses and a few others against the difference of the log-ratios, with
// their derivatives.
func (r DPOResult) Figure() (plots.ExplainFigure, error) {
	var losses []rl.PreferenceLoss
	for _, l := range append(slices.Clone(r.LossTypes), rl.DPOSigmoid, rl.DPOHinge, rl.DPOAPOZero, rl.DPODiscoPOP) {
		if l != rl.DPOSFT && !slices.Contains(losses, l) && r.only(l).Check() == nil {
			losses = append(losses, l)
		}
	}
	right := 5 / r.Beta
	for _, pair := range r.Pairs {
		right = max(right, 1.2*math.Abs(pair.Chosen.LogRatio-pair.Rejected.LogRatio))
	}
	const xLabel = "log-ratio of chosen minus rejected (nats)"
	value := plots.ExplainPanel{
		Title: "Loss", XLabel: xLabel, YLabel: "loss of the pair", XMin: -right, XMax: right, YMax: 1.2 * (1 + r.Beta*right),
	}
	slope := plots.ExplainPanel{
		Title: "Derivative", XLabel: xLabel, YLabel: "by the difference", XMin: -right, XMax: right,
		YMin: -1.6 * r.Beta, YMax: 0.6 * r.Beta,
	}
	const points = 100
	for style, l := range losses {
		a, b := plots.ExplainCurve{Name: string(l), Style: style}, plots.ExplainCurve{Name: string(l), Style: style}
		for k := 0; k <= points; k++ {
			d := right * (2*float64(k)/points - 1)
			y, dy, err := r.at(l, d)
			if err != nil {
				return plots.ExplainFigure{}, err
			}
			a.X, a.Y = append(a.X, d), append(a.Y, y)
			b.X, b.Y = append(b.X, d), append(b.Y, dy)
		}
		value.Curves, slope.Curves = append(value.Curves, a), append(slope.Curves, b)
	}
	for i, pair := range r.Pairs {
		d := pair.Chosen.LogRatio - pair.Rejected.LogRatio
		y, dy, err := r.at(losses[0], d)
		if err != nil {
			return plots.ExplainFigure{}, err
		}
		name := ""
		if i == 0 {
			name = "the differences of the pairs"
		}
		value.Points = append(value.Points, plots.ExplainPoint{Name: name, X: d, Y: y})
		slope.Points = append(slope.Points, plots.ExplainPoint{Name: name, X: d, Y: dy})
	}
	return plots.ExplainFigure{
		Title:   "Losses of a preference pair",
		Setting: fmt.Sprintf("beta %s, f_divergence_type %s; one token each, log-ratios d/2 and -d/2", short(r.Beta), r.Divergence),
		Panels:  []plots.ExplainPanel{value, slope},
		Caption: []string{
			"d is the log-ratio of the chosen completion (policy to reference) minus that of the rejected one.",
			"Where the derivative is 0, the pair has no effect on the policy.",
		},
	}, nil
}

// at is the loss of a pair of one token each with the log-ratios d/2 and -d/2, and its derivative by d.
func (r DPOResult) at(l rl.PreferenceLoss, d float64) (value, slope float64, err error) {
	got, err := rl.Preference(r.only(l), rl.PreferenceBatch{
		Shape: rl.Shape{B: 2, T: 1}, Mask: []bool{true, true}, LogProbs: []float64{d / 2, -d / 2}, RefLogProbs: []float64{0, 0},
	})
	if err != nil {
		return 0, 0, err
	}
	return got.Loss, (got.Grad[0] - got.Grad[1]) / 2, nil
}
