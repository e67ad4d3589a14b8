package explain

import (
	"io"
	"math"

	"grpo/pkg/rl"
)

// WriteText writes the table and what follows from it.
func (r OverlongResult) WriteText(w io.Writer) error {
	p := &printer{w: w}
	p.line("Overlong filtering: completions that the length limit cut off")
	p.gap()
	p.line("limit %d tokens, aggregation %s", r.MaxLength, r.Aggregation)
	p.gap()
	table := [][]string{
		{"length", "<eos>", "kept", "reward", "A", "share of the loss", "share, filtered", "soft punishment"},
	}
	for _, c := range r.Completions {
		table = append(table, []string{
			short(float64(c.Length)), yes(c.EOS), yes(c.Kept), short(c.Reward), num(c.Advantage), percent(c.Share), percent(c.ShareFiltered), num(c.SoftPunishment),
		})
	}
	p.table("", table...)
	p.gap()
	p.line("What follows")
	r.writeConsequences(p)
	r.writeSoft(p)
	return p.err
}

func (r OverlongResult) writeConsequences(p *printer) {
	if r.Truncated == 0 {
		p.point("Every completion ended by itself, so the filter changes nothing. Give --eos with a no to see it act.")
		return
	}
	complete := r.AtLimit // of full length and yet complete
	for _, c := range r.Completions {
		if c.AtLimit && !c.Kept {
			complete--
		}
	}
	p.point("%s without <eos>: the answer was cut off, and its reward says nothing about how it would have ended. The filter masks out %d of %d tokens; without it they would carry %s of the loss.",
		count(r.Truncated, "completion"), r.Tokens-r.TokensKept, r.Tokens, percent(r.shareOfTruncated()))
	if complete > 0 {
		p.point("What counts is <eos>, not the length. %s %d tokens long and complete, with <eos> as the last token: kept. A test for length >= %d would have dropped %s.",
			countIs(complete), r.MaxLength, r.MaxLength, itThem(complete))
	}
	for _, c := range r.Completions {
		if !c.EOS && !c.AtLimit {
			p.point("A completion of %d tokens has no <eos> although it is shorter than the limit (a stop string, an aborted request): the filter masks it out as well.", c.Length)
			break
		}
	}
	if r.Truncated == len(r.Completions) {
		p.point("Nothing is left of this group: its loss is 0, and with it the gradient.")
		return
	}
	for _, c := range r.Completions {
		if c.Kept && math.Abs(c.Advantage-c.AdvantageLeftOut) > 1e-9 {
			p.point("The masked ones still count in the group's baseline: the completion of %d tokens has advantage %s; with a baseline of the kept ones alone it would be %s.", c.Length, num(c.Advantage), num(c.AdvantageLeftOut))
			break
		}
	}
	kept := r.firstKept()
	switch r.Aggregation {
	case rl.TokenMean:
		p.point("Under token-mean the masked tokens leave the divisor too (%d, not %d), so that each kept token weighs %s times as much as before. Under a constant its weight would not change.",
			r.TokensKept, r.Tokens, digits(kept.TokenWeightFiltered/kept.TokenWeight, 3))
	default:
		p.point("Under %s each token of the first kept completion weighs %s times as much as before; under token-mean it would be %s times, because the masked tokens leave the divisor.",
			r.Aggregation, digits(kept.TokenWeightFiltered/kept.TokenWeight, 3), digits(float64(r.Tokens)/float64(r.TokensKept), 3))
	}
}

// writeSoft says what the punishment in the reward does instead.
func (r OverlongResult) writeSoft(p *printer) {
	p.point("The soft overlong punishment works on the reward instead: 0 up to %d tokens, then falling to -1 at %d. It looks at the length alone, so that a complete answer near the limit is punished too; the policy learns to be shorter, where the filter only removes the signal.",
		r.MaxLength-r.SoftCache, r.MaxLength)
}

func (r OverlongResult) shareOfTruncated() float64 {
	sum := 0.0
	for _, c := range r.Completions {
		if !c.Kept {
			sum += c.Share
		}
	}
	return sum
}

func (r OverlongResult) firstKept() OverlongCompletion {
	for _, c := range r.Completions {
		if c.Kept {
			return c
		}
	}
	return OverlongCompletion{}
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func countIs(n int) string {
	if n == 1 {
		return "1 completion is"
	}
	return count(n, "completion") + " are"
}

func itThem(n int) string {
	if n == 1 {
		return "it"
	}
	return "them"
}
