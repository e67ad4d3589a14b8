package budget

import (
	"fmt"
	"math"
	"slices"

	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/policy"
)

// SFT bounds the memory of a recipe of supervised stages: that of its most expensive stage. It
// assumes that every example is as long as the longest prompt plus the longest completion.
func SFT(m *policy.Model, cfg config.SFT, t gsm8k.Template, train, val []gsm8k.Problem, threads int,
	all ...[]gsm8k.Problem) Memory {
	return orAdapters(m, "lora.rank", func(m *policy.Model) Memory {
		size, evaluated := m.Size, evaluationOf(m, t, val, 1, cfg.EvalTokens)
		prompt, completion := longestExample(m, cfg, t, train)
		always := append([]Part{
			{fmt.Sprintf("weights and moments of %v", size), 4 * size.ParamBytes(), m.Smaller()},
			{"an evaluation", evaluated.bytes(size, true), "lower eval_size"},
		}, problemParts(m, nil, threads, all...)...)
		var most Memory
		for _, st := range cfg.Stages {
			use := model.Use{Learner: true, Samplers: 1, Learn: stageBatch(m, st, t, prompt, completion),
				Sample: []model.BatchSize{evaluated.Batch}}
			learning, stopping := workBytes(m, use, threads), 0.0
			if st.EarlyStoppingPatience > 0 {
				p, c := longestExample(m, cfg, t, val)
				st.Packing = false
				use.Scorers, use.Score = 1, stageBatch(m, st, t, p, c)
				stopping = size.ParamBytes() + exampleBytes(len(val), p+c) + workBytes(m, use, threads) - learning
			}
			need := Memory{Parts: append([]Part{
				{fmt.Sprintf("activations of a batch of stage %q", st.Name), learning,
					fmt.Sprintf("lower its batch_size, now %d", st.BatchSize)},
				{fmt.Sprintf("the best weights and the validation loss of stage %q", st.Name), stopping,
					"set its early_stopping_patience to 0"},
				{fmt.Sprintf("the corpus of stage %q", st.Name), exampleBytes(st.Examples, prompt+completion),
					fmt.Sprintf("lower its examples, now %d", st.Examples)},
			}, always...)}
			if need.Total() > most.Total() {
				most = need
			}
		}
		return most
	})
}

// longestExample bounds the tokens of the examples of all stages that are drawn from problems.
func longestExample(m *policy.Model, cfg config.SFT, t gsm8k.Template, problems []gsm8k.Problem) (
	prompt, completion int) {
	prompt = slices.Max(policy.PromptLengths(m.Tokenizer, t, problems))
	completion = config.Default().Rollout.SamplingMaxTokens
	if slices.ContainsFunc(cfg.Stages, func(c config.Stage) bool { return c.Corpus == "answers" }) {
		for _, p := range problems {
			completion = max(completion, len(m.Tokenizer.Encode(p.Answer))+1)
		}
	}
	return prompt, completion
}

// stageBatch is the largest batch of a stage with examples of these lengths.
func stageBatch(m *policy.Model, st config.Stage, t gsm8k.Template, prompt, completion int) model.BatchSize {
	rows, n := st.BatchSize, prompt+completion
	if st.MaxLength > 0 {
		n = min(n, st.MaxLength)
	}
	if st.Packing { // no pack has more tokens than these examples
		rows *= int(math.Ceil(float64(st.MaxLength) / float64(n)))
	}
	if st.PromptLossWeight > 0 {
		return batchOf([]int{1}, rows, 1, n)
	}
	b := batchOf([]int{prompt}, rows, 1, completion) // prompts share the first messages of a chat
	b.Shared = sharedTokens(m.Tokenizer, t)
	return b
}

// exampleBytes is the memory of examples of equal length: for each of its tokens an id and a weight,
// and its text.
func exampleBytes(examples, tokens int) float64 {
	return float64(examples) * (float64(tokens)*(8+8+2) + 160)
}

// RewardTokens bounds the tokens of a forward pass over held-out pairs or completions to be rewarded.
const RewardTokens = 1 << 13

// RewardModel bounds the memory of training a reward model on pairs. It assumes that every pair is as
// long as the longest prompt and the longest completion.
func RewardModel(m *policy.Model, cfg config.RewardModel, train, eval []policy.Pair, threads int) Memory {
	var prompt, longest, tokens int
	for _, p := range slices.Concat(train, eval) {
		prompt, longest = max(prompt, len(p.Prompt)), max(longest, len(p.Chosen)+1, len(p.Rejected)+1)
		tokens += len(p.Prompt) + len(p.Chosen) + len(p.Rejected)
	}
	batch := func(pairs, limit int) model.BatchSize {
		return atMost(batchOf([]int{prompt}, 2*pairs, 2, longest), limit)
	}
	use := model.Use{Critic: true, Learn: batch(cfg.BatchSize, m.MicroBatchTokens(cfg.MicroBatchTokens)),
		Score: batch(max(1, len(eval)), RewardTokens)}
	use.Learn.Checkpointing = cfg.GradientCheckpointing
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
