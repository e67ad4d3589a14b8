package explain

import (
	"fmt"
	"io"
	"math"

	"grpo/pkg/rl"
)

// WriteText writes the steps with their matrices.
func (r WalkthroughResult) WriteText(w io.Writer) error {
	p := &printer{w: w}
	n := len(r.Rewards)
	p.line("From rewards to the loss, one group of %s", count(n, "completion"))
	p.gap()
	p.line("1. Rewards and advantages")
	p.gap()
	p.line("   mean = %s", num(r.Mean))
	p.line("   std  = sqrt(sum (r - mean)^2 / (n - 1)) = %s   (sample, n = %d)", num(r.Std), n)
	if r.UseStd {
		p.line("   A    = (r - mean) / (std + eps), eps = %s", short(r.Eps))
	} else {
		p.line("   A    = r - mean   (not divided by std)")
	}
	p.gap()
	table := [][]string{{"   completion", "reward", "A"}}
	for i := range r.Rewards {
		table = append(table, []string{fmt.Sprintf("   %d", i), num(r.Rewards[i]), num(r.Advantages[i])})
	}
	p.table("l", table...)
	if r.UseStd && r.Std > 0 {
		p.gap()
		p.wrap("   ", fmt.Sprintf("Some texts print another std for this, %s, and advantages %s: those of the population, with divisor n = %d, although their formula has n - 1 = %d. The sample std is %s and gives %s.",
			fixed(r.PopulationStd, 3), list3(r.PopulationAdvantages), n, n-1, fixed(r.Std, 3), list3(r.Advantages)))
	}
	p.gap()
	p.line("2. Log-probabilities of the sampled tokens")
	p.matrix("logp, the policy's now", r.LogProbs, num)
	p.matrix("old, at sampling time", r.OldLogProbs, num)
	p.gap()
	p.line("3. Importance ratio r = exp(logp - old)")
	p.matrix("r", r.Ratio, num)
	p.matrix(fmt.Sprintf("clip(r, %s, %s)", short(round(1-r.epsilon, 9)), short(round(1+r.epsilonHigh, 9))), r.Clipped, num)
	p.gap()
	p.line("4. Loss of each token, -min(r A, clip(r) A)")
	p.matrix("r A", r.Unclipped, num)
	p.matrix("clip(r) A", r.Bounded, num)
	p.matrix("loss", r.TokenLoss, num)
	p.gap()
	p.line("5. Aggregation %s%s", r.Aggregation, r.constantClause())
	p.matrix("mask", floats(r.Mask), short)
	p.matrix("weight of each token", r.Weights, num)
	p.gap()
	table = [][]string{{"   completion", "sum of weight * loss"}}
	for b, x := range r.PerSequence {
		table = append(table, []string{fmt.Sprintf("   %d", b), num(x)})
	}
	p.table("l", append(table, []string{"   loss", num(r.Loss)})...)
	p.gap()
	p.line("6. Gradient of the loss by each logp")
	p.matrix("dL/dlogp", r.Gradient, num)
	p.gap()
	p.line("What follows")
	r.writeConsequences(p)
	return p.err
}

func (r WalkthroughResult) constantClause() string {
	if r.Constant == 0 {
		return ""
	}
	return ", Z = " + short(r.Constant)
}

func (r WalkthroughResult) writeConsequences(p *printer) {
	p.point("The loss is %s. The update follows its gradient: a step against it raises the log-probability where dL/dlogp is negative.", num(r.Loss))
	if r.ClipFraction != nil {
		p.point("%d of %s lost %s gradient to the clip (clip fraction %s): with A > 0 above %s, with A < 0 below %s. On the other side the minimum takes the unclipped value, and the gradient stays.",
			r.ClippedTokens, count(r.Tokens, "token"), their(r.ClippedTokens), num(*r.ClipFraction), short(round(1+r.epsilonHigh, 9)), short(round(1-r.epsilon, 9)))
	}
	for b, a := range r.Advantages {
		if a == 0 {
			p.point("Completion %d got exactly the group's mean: its advantage is 0, and its tokens have no gradient, whatever their ratios.", b)
			break
		}
	}
	if r.Aggregation == rl.MaskedMeanSeq && len(r.Weights) > 1 {
		p.point("Under masked_mean a token's weight is 1/(length * %d): see \"grpo explain lengthnorm\".", len(r.Weights))
	}
}

func list3(xs []float64) string {
	return "[" + each(xs, ", ", func(x float64) string { return fixed(x, 3) }) + "]"
}

func their(n int) string {
	if n == 1 {
		return "its"
	}
	return "their"
}

// matrix writes a named matrix, a dot where there is no token.
func (p *printer) matrix(name string, m [][]float64, format func(float64) string) {
	p.gap()
	p.line("   %s", name)
	cells := make([][]string, len(m))
	for b, row := range m {
		cells[b] = []string{fmt.Sprintf("     %d", b)}
		for t, x := range row {
			if t == widestMatrix && len(row) > widestMatrix {
				cells[b] = append(cells[b], fmt.Sprintf("... (%d in all)", len(row)))
				break
			}
			if math.IsNaN(x) {
				cells[b] = append(cells[b], ".")
			} else {
				cells[b] = append(cells[b], format(x))
			}
		}
	}
	p.table("l", cells...)
}

func floats(m [][]int) [][]float64 {
	out := make([][]float64, len(m))
	for b, row := range m {
		for _, v := range row {
			out[b] = append(out[b], float64(v))
		}
	}
	return out
}
