package supervised

import (
	"fmt"
	"math"
	"slices"

	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/policy"
	"grpo/pkg/rng"
)

// microTokens bounds the tokens of the pairs of a forward and backward pass; 0 = none.
func (t *rewardTrainer) microTokens() int {
	return t.model.MicroBatchTokens(t.cfg.MicroBatchTokens)
}

// readPairs reads the pairs to train on and those held out.
func (t *rewardTrainer) readPairs() error {
	c := t.cfg
	for _, f := range []struct {
		path, key string
		to        *[]policy.Pair
	}{{c.Pairs, "pairs", &t.pairs}, {c.EvalPairs, "eval_pairs", &t.eval}} {
		if f.path == "" {
			continue
		}
		pairs, report, err := t.model.ReadPairs(f.path, f.key, c.SkipBad)
		if err != nil {
			return err
		}
		if text := report.String(); text != "" {
			t.opts.Note(f.path + ": " + text)
		}
		t.rec.Skipped += report.Skipped
		*f.to = pairs
		if !c.UseMargin {
			continue
		}
		if i := slices.IndexFunc(pairs, func(p policy.Pair) bool { return !p.HasMargin }); i >= 0 {
			return config.Invalid(fmt.Errorf("read pairs: %s: the pair %q has no \"margin\", which use_margin "+
				"needs of each pair (set use_margin=false)", f.path, pairs[i].ID))
		}
	}
	if c.EvalPairs == "" {
		t.holdOut()
	} else if t.rec.SharedPrompts = sharedPrompts(t.pairs, t.eval); t.rec.SharedPrompts > 0 {
		t.opts.Note(fmt.Sprintf("%s of %s are also in %s: the held-out accuracy is too good",
			textutil.Count(t.rec.SharedPrompts, "prompt"), c.EvalPairs, c.Pairs))
	}
	if len(t.pairs) == 0 {
		return config.Invalid(fmt.Errorf("read pairs: %s: all pairs are of one prompt, and none would be left to train on "+
			"(set eval_share=0, or name other pairs with eval_pairs)", c.Pairs))
	}
	t.n = (len(t.pairs)*c.Epochs + c.BatchSize - 1) / c.BatchSize
	if c.WarmupSteps > t.n {
		return config.Invalid(fmt.Errorf("warmup_steps is %d, but %s in %d epochs are %s (lower warmup_steps)",
			c.WarmupSteps, textutil.Count(len(t.pairs), "pair"), c.Epochs, textutil.Count(t.n, "update")))
	}
	return nil
}

// holdOut moves the pairs of a share of the prompts to the held-out ones: no prompt is in both.
func (t *rewardTrainer) holdOut() {
	first := map[string]int{}
	for _, p := range t.pairs {
		if key := promptKey(p.Prompt); first[key] == 0 {
			first[key] = len(first) + 1
		}
	}
	n := int(math.Round(t.cfg.EvalShare * float64(len(first))))
	if t.cfg.EvalShare > 0 {
		n = min(max(1, n), max(1, len(first)-1)) // a prompt is left to train on
	}
	held := make([]bool, len(first)+1)
	drawn := rng.Epochs{Stream: rng.New(t.cfg.Seed, rng.Shuffle), Place: 1, N: len(first)}
	for i := range n {
		held[drawn.At(i)+1] = true
	}
	all := t.pairs
	t.pairs = nil
	for _, p := range all {
		if held[first[promptKey(p.Prompt)]] {
			t.eval = append(t.eval, p)
		} else {
			t.pairs = append(t.pairs, p)
		}
	}
}

// sharedPrompts counts the prompts of b that are also in a.
func sharedPrompts(a, b []policy.Pair) (n int) {
	in := map[string]bool{}
	for _, p := range a {
		in[promptKey(p.Prompt)] = true
	}
	for _, p := range b {
		if key := promptKey(p.Prompt); in[key] {
			in[key] = false // once
			n++
		}
	}
	return n
}

// pairParts cuts pairs into runs of at most limit tokens, or of one pair; 0 = no limit.
func pairParts(pairs []policy.Pair, limit int) (parts [][]policy.Pair) {
	first, tokens := 0, 0
	for i, p := range pairs {
		n := len(p.Prompt) + len(p.Chosen) + len(p.Rejected)
		if limit > 0 && i > first && tokens+n > limit {
			parts = append(parts, pairs[first:i])
			first, tokens = i, 0
		}
		tokens += n
	}
	return append(parts, pairs[first:])
}

// order is the order in which the pairs are drawn.
func (t *rewardTrainer) order() rng.Epochs {
	return rng.Epochs{Stream: rng.New(t.cfg.Seed, rng.Shuffle), N: len(t.pairs)}
}

// batch are the first pairs of a step, from 1 on.
func (t *rewardTrainer) batch(order *rng.Epochs, step, pairs int) []policy.Pair {
	batch := make([]policy.Pair, pairs)
	for k := range batch {
		batch[k] = t.pairs[order.At((step-1)*t.cfg.BatchSize+k)]
	}
	return batch
}

// largest is the largest micro-batch of the run.
func (t *rewardTrainer) largest() (most model.BatchSize) {
	order := t.order()
	pairs, steps := looked(t.cfg.BatchSize, len(t.pairs), t.n)
	for step := 1; step <= steps; step++ {
		most = larger(most, largestPart(t.batch(&order, step, pairs), t.microTokens()))
	}
	if t.microTokens() == 0 {
		most = repeated(most, float64(t.cfg.BatchSize)/float64(pairs))
	}
	return most
}

// largestPart is the largest of the parts that [pairParts] cuts pairs into.
func largestPart(pairs []policy.Pair, limit int) (most model.BatchSize) {
	if len(pairs) == 0 {
		return most
	}
	for _, part := range pairParts(pairs, limit) {
		most = larger(most, rewardBatch(part).Size())
	}
	return most
}

// rewardBatch is the batch of pairs, in which each prompt is once: the chosen completion of pair i is
// row 2i, the rejected one row 2i+1.
func rewardBatch(pairs []policy.Pair) *model.Batch {
	b := &model.Batch{}
	at := promptPlaces{}
	for _, p := range pairs {
		prompt := at.place(b, p.Prompt)
		b.Rows = append(b.Rows, policy.RewardRow(prompt, p.Chosen), policy.RewardRow(prompt, p.Rejected))
	}
	return b
}
