package train

import "grpo/pkg/model"

// parts cuts the completions of a micro-batch into runs whose inputs have at most
// train.micro_batch_tokens tokens: what all prompts of the rollout begin with once, the rest of
// each prompt once, and the completions without their last tokens. It cuts between units of
// completions of one prompt, such as the two of a pair; a unit that is longer by itself is a part
// of its own. The cut depends on nothing but the configuration and the completions, so a run has
// the same bits on a machine with less memory.
func (t *trainer) parts(r *rollout, rows []int, unit int) (parts [][]int) {
	if len(rows) == 0 {
		return nil
	}
	if t.microTokens == 0 {
		return [][]int{rows}
	}
	shared := model.SharedPrefix(r.prompts)
	first, tokens := 0, 0
	for at := 0; at < len(rows); at += unit {
		group := rows[at] / r.groupSize
		prompt, more := len(r.prompts[group])-shared, 0
		for _, i := range rows[at : at+unit] {
			more += len(r.completions[i].Tokens) - 1
		}
		whole := prompt + more
		if at == first || rows[at-1]/r.groupSize != group {
			more = whole
		}
		if at > first && shared+tokens+more > t.microTokens {
			parts = append(parts, rows[first:at])
			first, tokens, more = at, 0, whole
		}
		tokens += more
	}
	return append(parts, rows[first:])
}

// atMost is the largest part that [trainer.parts] makes of a batch.
func atMost(b model.BatchSize, limit int) model.BatchSize {
	if limit == 0 || b.Prompts == 0 || b.Completions == 0 {
		return b
	}
	prompt, row := b.PromptTokens/b.Prompts-b.Shared, b.Tokens/b.Completions // tokens of one
	total := b.Shared + b.Prompts*prompt + b.Completions*row
	if total <= float64(limit) {
		return b
	}
	group := b.Completions / b.Prompts
	prompts := max(1/group, (float64(limit)-b.Shared)/(prompt+group*row))
	b.Prompts, b.Completions = prompts, prompts*group
	b.PromptTokens, b.Tokens = prompts*(b.Shared+prompt), b.Completions*row
	return b
}
