package budget

import (
	"fmt"
	"slices"

	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/policy"
)

// StageBatches are what a supervised stage computes: its largest batch, the largest of its validation loss, and the
// number and all tokens of its examples.
type StageBatches struct {
	Learn, Score     model.BatchSize
	Examples, Tokens int
}

// SFT bounds the memory of a recipe of supervised stages: that of its most expensive stage.
func SFT(m *policy.Model, cfg config.SFT, t gsm8k.Template, stages []StageBatches, val []gsm8k.Problem, threads int,
	all ...[]gsm8k.Problem) Memory {
	return orAdapters(m, "lora.rank", func(m *policy.Model) Memory {
		size, evaluated := m.Size, evaluationOf(m, t, val, 1, cfg.EvalTokens)
		always := append([]Part{
			{fmt.Sprintf("weights and moments of %v", size), 3 * size.ParamBytes(), m.Smaller()},
			{"an evaluation", evaluated.bytes(size, true), "lower eval_size"},
		}, problemParts(m, nil, threads, all...)...)
		var most Memory
		for i, st := range cfg.Stages {
			b := stages[i]
			use := model.Use{Learner: true, Samplers: 1, Learn: b.Learn, Sample: []model.BatchSize{evaluated.Batch}}
			learning, stopping := workBytes(m, use, threads), 0.0
			if st.EarlyStoppingPatience > 0 {
				use.Scorers, use.Score = 1, b.Score
				stopping = size.ParamBytes() + workBytes(m, use, threads) - learning
			}
			need := Memory{Parts: append([]Part{
				{fmt.Sprintf("activations of a batch of stage %q", st.Name), learning,
					fmt.Sprintf("lower its batch_size, now %d", st.BatchSize)},
				{fmt.Sprintf("the best weights and the validation loss of stage %q", st.Name), stopping,
					"set its early_stopping_patience to 0"},
				{fmt.Sprintf("the corpus of stage %q", st.Name), exampleBytes(b.Examples, b.Tokens),
					fmt.Sprintf("lower its examples, now %d", st.Examples)},
			}, always...)}
			if need.Total() > most.Total() {
				most = need
			}
		}
		return most
	})
}

// exampleBytes is the memory of examples with this many tokens in all: for each token an id, a weight and its text.
func exampleBytes(examples, tokens int) float64 {
	return float64(tokens)*(8+8+2) + float64(examples)*160
}

// RewardTokens bounds the tokens of a forward pass over held-out pairs or completions to be rewarded.
const RewardTokens = 1 << 13

// RewardModel bounds the memory of training a reward model on pairs, with learn, the largest micro-batch, and score,
// the largest batch of an evaluation.
func RewardModel(m *policy.Model, cfg config.RewardModel, train, eval []policy.Pair, learn, score model.BatchSize,
	threads int) Memory {
	tokens := 0
	for _, p := range slices.Concat(train, eval) {
		tokens += len(p.Prompt) + len(p.Chosen) + len(p.Rejected)
	}
	learn.Checkpointing = cfg.GradientCheckpointing
	use := model.Use{Critic: true, Learn: learn, Score: score}
	return Memory{Parts: append([]Part{
		{fmt.Sprintf("weights of %v", m.Size), m.Size.ParamBytes(), m.Smaller()},
		{"the reward model and its activations", workBytes(m, use, threads),
			fmt.Sprintf("lower batch_size, now %d, or micro_batch_tokens", cfg.BatchSize)},
		{"the pairs", 8*float64(tokens) + 300*float64(len(train)+len(eval)), "use fewer pairs"},
	}, problemParts(m, nil, threads)...)}
}

// rewardModelBytes is the memory of the reward models in reward.functions and eval.reward. A model that can't be read
// counts nothing: opening it reports that.
func rewardModelBytes(cfg config.Config, threads int) (bytes float64) {
	batch := model.BatchSize{Prompts: 1, PromptTokens: RewardTokens / 2, LongestPrompt: RewardTokens / 2,
		Completions: 64, Tokens: RewardTokens / 2, Longest: RewardTokens / 64}
	for _, c := range cfg.Reward.Custom {
		if c.Model == "" {
			continue
		}
		if size := policy.RewardModelSize(c.Model); size != nil {
			n := 1.0
			if c.Name == cfg.Eval.Reward && slices.Contains(cfg.Reward.Functions, c.Name) {
				n = 2 // each opens its own
			}
			bytes += n * (size.ParamBytes() + size.WorkBytes(model.Use{Scorers: 1, Score: batch}, threads))
		}
	}
	return bytes
}
