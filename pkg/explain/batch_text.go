package explain

import (
	"fmt"
	"io"
	"math"
	"strconv"
)

// WriteLosses writes a table of the cases of a batch and what follows from it.
func WriteLosses(w io.Writer, file string, cases []LossCase) error {
	p := &printer{w: w}
	p.line("%s of %s", count(len(cases), "case"), file)
	p.gap()
	checked := anyCheck(cases, func(c LossCase) *Check { return c.Check })
	head := []string{"case", "configuration", "", "loss", "|gradient|", "clipped", "low", "high", "dual"}
	if checked {
		head = append(head, "file's values")
	}
	table := [][]string{head}
	onPolicy := 0
	for i, c := range cases {
		note := ""
		if c.OnPolicy {
			note = "on-policy"
			onPolicy++
		}
		row := []string{strconv.Itoa(i), c.Name, note, digits(c.Result.Loss, 6), digits(norm(c.Result.Grad), 6)}
		row = append(row, c.clipFractions()...)
		if checked {
			row = append(row, c.Check.String())
		}
		table = append(table, row)
	}
	p.table("lllrrrrrrl", table...)
	p.gap()
	p.say("|gradient| is the length of dL/dlogp over all tokens; clipped, low, high and dual are shares of tokens (of sequences where the ratio is one for a sequence). --json prints every gradient and metric.")
	if onPolicy > 0 {
		p.gap()
		p.say("On-policy the ratio is 1, so that nothing can be clipped (n/a), and the loss of a ratio form is about minus the mean advantage, 0. Neither is a fault: the gradient is not 0. In --json the clip fractions are TRL's, which reports 0 there.")
	}
	writeChecks(p, cases, func(c LossCase) *Check { return c.Check })
	return p.err
}

// clipFractions are the shares clipped at all, low, high and by the dual clip:
// "n/a" on-policy, "" where the loss has no such clip or the source no such metric.
func (c LossCase) clipFractions() []string {
	out := make([]string, 4)
	if !c.clips {
		return out
	}
	for i, names := range [][]string{
		{"clip_ratio/region_mean", "cispo_clip_ratio", "actor/pg_clipfrac"},
		{"clip_ratio/low_mean"}, {"clip_ratio/high_mean"}, {"actor/pg_clipfrac_lower"},
	} {
		for _, name := range names {
			switch v, ok := c.Result.Metrics[name]; {
			case ok && c.OnPolicy:
				out[i] = "n/a"
			case ok:
				out[i] = fixed(v, 3)
			}
		}
	}
	return out
}

// norm is the Euclidean length of a matrix.
func norm(m [][]float64) float64 {
	sum := 0.0
	for _, row := range m {
		for _, x := range row {
			sum += x * x
		}
	}
	return math.Sqrt(sum)
}

// WriteAdvantages writes a table of the cases of a batch, a line for each group,
// and what follows from it.
func WriteAdvantages(w io.Writer, file string, cases []AdvantageCase, eps float64) error {
	p := &printer{w: w}
	p.line("%s of %s", count(len(cases), "case"), file)
	p.gap()
	checked := anyCheck(cases, func(c AdvantageCase) *Check { return c.Check })
	head := []string{"case", "configuration", "group", "rewards", "advantages"}
	if checked {
		head = append(head, "file's values")
	}
	table := [][]string{head}
	for i, c := range cases {
		for g := 0; g*c.GroupSize < len(c.Rewards); g++ {
			lo, hi := g*c.GroupSize, (g+1)*c.GroupSize
			row := []string{"", "", strconv.Itoa(g), each(c.Rewards[lo:hi], " ", reward), each(c.Result.Advantages[lo:hi], " ", signed)}
			if g == 0 {
				row[0], row[1] = strconv.Itoa(i), c.Name
			}
			if checked {
				check := ""
				if g == 0 {
					check = c.Check.String()
				}
				row = append(row, check)
			}
			table = append(table, row)
		}
	}
	p.table("llllll", table...)
	p.gap()
	p.say("eps %s; standard deviations are those of a sample. A reward of n/a could not be scored by any function: it is left out of the baseline, and its advantage is 0.", short(eps))
	writeChecks(p, cases, func(c AdvantageCase) *Check { return c.Check })
	return p.err
}

func reward(x float64) string {
	if math.IsNaN(x) {
		return "n/a"
	}
	return short(round(x, 4))
}

func signed(x float64) string { return fmt.Sprintf("%7s", num(x)) }

func anyCheck[T any](cases []T, get func(T) *Check) bool {
	for _, c := range cases {
		if get(c) != nil {
			return true
		}
	}
	return false
}

// writeChecks says how the comparison with the file's own values went.
func writeChecks[T any](p *printer, cases []T, get func(T) *Check) {
	checked, wrong, values, worst := 0, 0, 0, 0.0
	for _, c := range cases {
		k := get(c)
		if k == nil {
			continue
		}
		checked++
		values += k.Values
		worst = max(worst, k.Worst)
		if k.Wrong > 0 {
			wrong++
		}
	}
	if checked > 0 {
		p.gap()
	}
	switch {
	case checked == 0:
	case wrong == 0:
		p.say("The file holds expected values for %s: all %s agree within %s + %s * |expected| (largest difference %s).", count(checked, "case"), count(values, "number"), short(atol), short(rtol), digits(worst, 1))
	default:
		p.say("The file holds expected values for %s, and %d differ by more than %s + %s * |expected| (largest difference %s).", count(checked, "case"), wrong, short(atol), short(rtol), digits(worst, 3))
	}
}
