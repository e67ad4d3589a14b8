package train

import (
	"fmt"
	"math"
	"slices"

	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/policy"
)

// rewardModelBytes is the memory of the reward models in reward.functions. A model that can't be read
// counts nothing: opening it reports that.
func rewardModelBytes(r config.Reward, threads int) (bytes float64) {
	batch := model.BatchSize{Prompts: 1, PromptTokens: evalTokens / 2, LongestPrompt: evalTokens / 2,
		Completions: 64, Tokens: evalTokens / 2, Longest: evalTokens / 64}
	for _, c := range r.Custom {
		if c.Model == "" {
			continue
		}
		if size := policy.RewardModelSize(c.Model); size != nil {
			bytes += size.ParamBytes() + size.ScorerBytes(batch, threads) + size.PassBytes(model.BatchSize{}, batch, nil, threads)
		}
	}
	return bytes
}

// memory is the estimate of the run.
func (s *sft) memory() Memory {
	m := s.memoryOfStages()
	if s.model.IsDecoder() && s.cfg.LoRA.Rank == 0 {
		m.rankKey, m.adapters = "lora.rank", func() Memory {
			with := *s
			with.cfg.LoRA.Rank = usualRank
			with.model = s.model.WithLoRA(with.cfg.LoRA)
			return with.memoryOfStages()
		}
	}
	return m
}

// memoryOfStages is the estimate of the most expensive stage. It assumes that every example is as long as
// the longest prompt plus the longest completion.
func (s *sft) memoryOfStages() Memory {
	m, size := s.model, s.model.Size
	longest, longestVal := s.longestOf(s.problems.SFT), s.longestOf(s.val)
	always := append([]MemoryPart{
		{fmt.Sprintf("weights and moments of %v", size), 4 * size.ParamBytes(), m.Smaller()},
		{"an evaluation", evaluationBytes(m, s.template, s.val, s.cfg.EvalTokens, true), "lower eval_size"},
		{"the sampler", size.SamplerBytes(s.opts.Threads), ""},
	}, problemParts(nil, s.opts.Threads, s.problems.SFT, s.problems.Train, s.problems.Val, s.problems.Test,
		s.problems.Unseen)...)
	var most Memory
	for _, st := range s.cfg.Stages {
		rows := float64(st.BatchSize)
		if st.Packing { // no pack has more tokens than these examples
			rows *= math.Ceil(float64(st.MaxLength) / longest.tokens(st))
		}
		batch, scored, stopping := s.batchOf(st, rows, longest), model.BatchSize{}, 0.0
		if st.EarlyStoppingPatience > 0 {
			scored = s.batchOf(st, float64(st.BatchSize), longestVal)
			stopping = size.ParamBytes() + exampleBytes(len(s.val), longestVal.tokens(st))
		}
		learner := size.ParamBytes() + 33*rows*longest.tokens(st)
		if !m.MayUseGPU() {
			learner = size.LearnerBytes(batch, s.opts.Threads) + size.PassBytes(batch, scored,
				[]model.BatchSize{evaluationBatch(m, s.template, s.val, s.cfg.EvalTokens)}, s.opts.Threads)
			if st.EarlyStoppingPatience > 0 {
				stopping += size.ScorerBytes(scored, s.opts.Threads)
			}
		}
		now := Memory{Parts: append([]MemoryPart{
			{fmt.Sprintf("activations of a batch of stage %q", st.Name), learner,
				fmt.Sprintf("lower its batch_size, now %d", st.BatchSize)},
			{fmt.Sprintf("the best weights and the validation loss of stage %q", st.Name), stopping,
				"set its early_stopping_patience to 0"},
			{fmt.Sprintf("the corpus of stage %q", st.Name), exampleBytes(st.Examples, longest.tokens(st)),
				fmt.Sprintf("lower its examples, now %d", st.Examples)},
		}, always...)}
		if now.Total() > most.Total() {
			most = now
		}
	}
	return most
}

// exampleBound bounds the tokens of examples.
type exampleBound struct{ prompt, completion int }

// longestOf bounds the examples of all stages that are drawn from problems.
func (s *sft) longestOf(problems []gsm8k.Problem) exampleBound {
	b := exampleBound{slices.Max(policy.PromptLengths(s.model.Tokenizer, s.template, problems)),
		config.Default().Rollout.SamplingMaxTokens}
	if slices.ContainsFunc(s.cfg.Stages, func(c config.Stage) bool { return c.Corpus == "answers" }) {
		for _, p := range problems {
			b.completion = max(b.completion, len(s.model.Tokenizer.Encode(p.Answer))+1)
		}
	}
	return b
}

// tokens bounds the tokens of an example in a stage, which may cut it.
func (b exampleBound) tokens(st config.Stage) float64 {
	n := b.prompt + b.completion
	if st.MaxLength > 0 {
		n = min(n, st.MaxLength)
	}
	return float64(n)
}

// batchOf is the largest batch of a stage with a number of examples.
func (s *sft) batchOf(st config.Stage, rows float64, longest exampleBound) model.BatchSize {
	if st.PromptLossWeight == 0 { // prompts share the first messages of a chat
		batch := batchOf([]int{longest.prompt}, int(rows), 1, longest.completion)
		batch.Shared = sharedTokens(s.model.Tokenizer, s.template)
		return batch
	}
	n := longest.tokens(st)
	return model.BatchSize{Prompts: 1, PromptTokens: 1, LongestPrompt: 1, Completions: rows, Tokens: rows * n, Longest: n}
}

// exampleBytes is the memory of examples of equal length: for each of its tokens an id and a weight, and its text.
func exampleBytes(examples int, tokens float64) float64 {
	return float64(examples) * (tokens*(8+8+2) + 160)
}
