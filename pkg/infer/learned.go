package infer

import (
	"fmt"
	"math"
	"slices"

	"grpo/internal/textutil"
	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
	"grpo/pkg/policy"
	"grpo/pkg/reward"
)

// learnedReward is a reward model as a reward function. It has a tokenizer of its own: a completion
// is the text that a pair of package preference would have. It computes on the CPU.
type learnedReward struct {
	name        string
	nullOnError bool
	encoder     *policy.PairEncoder
	values      policy.RewardModel
	pool        *kernel.Pool
}

// OpenLearned opens a reward model as a reward function.
func OpenLearned(c config.CustomReward, threads int) (reward.Function, error) {
	var err error
	l := &learnedReward{name: c.Name, nullOnError: c.OnError == "null", pool: kernel.NewPool(threads)}
	if l.encoder, l.values, err = policy.OpenRewardModel(c.Model, l.pool); err != nil {
		l.pool.Close()
		return nil, fmt.Errorf("reward %s: %w", c.Name, err)
	}
	return l, nil
}

// Score implements [reward.Function].
func (l *learnedReward) Score(b reward.Batch) (reward.Scores, error) {
	out := reward.Scores{Rewards: make([]float64, len(b.Completions))}
	batch, at, tokens := &model.Batch{}, []int(nil), 0
	flush := func() error {
		if len(batch.Rows) == 0 {
			return nil
		}
		m, err := l.values.Values(batch)
		if err != nil {
			return fmt.Errorf("reward %s: %w", l.name, err)
		}
		for row, i := range at {
			x := m.Values[policy.LastValue(m, batch, row)]
			if !model.IsFinite(x) {
				return fmt.Errorf("reward %s: the reward of %s is %v: the reward model is not usable", l.name,
					textutil.Quote(b.Completions[i].Completion), x)
			}
			out.Rewards[i] = x
		}
		batch, at, tokens = &model.Batch{}, nil, 0
		return nil
	}
	var prompt []int
	var last string // the text of prompt: those of a group are the same
	for i, c := range b.Completions {
		if i == 0 || c.Prompt != last {
			prompt, last = nil, c.Prompt
		}
		ids, completion, err := l.encoder.Sequence(prompt, c.Prompt, c.Completion, c.Ended)
		if err != nil && l.nullOnError {
			out.Rewards[i] = math.NaN()
			continue
		} else if err != nil {
			return out, fmt.Errorf("reward %s: step %d: %w (on_error: \"null\" leaves out such completions)",
				l.name, b.Step, err)
		}
		n := len(ids) + len(completion)
		if tokens += n; tokens > budget.RewardTokens {
			if err := flush(); err != nil {
				return out, err
			}
			tokens = n
		}
		if k := len(batch.Prompts); k == 0 || prompt == nil || !slices.Equal(batch.Prompts[k-1], ids) {
			batch.Prompts = append(batch.Prompts, ids)
		}
		prompt = ids
		batch.Rows, at = append(batch.Rows, policy.RewardRow(len(batch.Prompts)-1, completion)), append(at, i)
	}
	return out, flush()
}

// Close implements [reward.Function].
func (l *learnedReward) Close() {
	_ = l.values.Close() // frees memory only
	l.pool.Close()
}
