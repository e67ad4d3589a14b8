package train

import (
	"fmt"
	"math"
	"slices"

	"grpo/pkg/config"
	"grpo/pkg/model"
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
		path, err := rewardModelAt(c.Model)
		if err != nil {
			continue
		}
		if size := rewardModelSize(path); size != nil {
			bytes += size.ParamBytes() + size.ScorerBytes(batch, threads) + size.PassBytes(model.BatchSize{}, batch, nil, threads)
		}
	}
	return bytes
}

// memory is the estimate of the most expensive stage. It assumes that every example is as long as
// the longest prompt plus the longest completion.
func (s *sft) memory() Memory {
	m, maxTokens := s.cfg.Model, config.Default().Rollout.SamplingMaxTokens
	size := sizeOf(m, s.cfg.LoRA)
	if slices.ContainsFunc(s.cfg.Stages, func(c config.Stage) bool { return c.Corpus == "answers" }) {
		for _, p := range s.problems.SFT {
			maxTokens = max(maxTokens, len(tokenizerOf(m).Encode(p.Answer))+1)
		}
	}
	prompt := slices.Max(promptLengths(tokenizerOf(m), s.template, s.problems.SFT))
	always := append([]MemoryPart{
		{fmt.Sprintf("weights and moments of %v", size), 4 * size.ParamBytes(), smallerModel},
		{"an evaluation", evaluationBytes(m, s.template, s.val, s.cfg.EvalTokens, true), "lower eval_size"},
		{"the sampler", size.SamplerBytes(s.opts.Threads), ""},
	}, problemParts(nil, s.opts.Threads, s.problems.SFT, s.problems.Train, s.problems.Val, s.problems.Test,
		s.problems.Unseen)...)
	var most Memory
	for _, st := range s.cfg.Stages {
		rows, longest := float64(st.BatchSize), float64(prompt+maxTokens)
		if st.MaxLength > 0 {
			longest = min(longest, float64(st.MaxLength))
		}
		if st.Packing { // no pack has more tokens than these examples
			rows *= math.Ceil(float64(st.MaxLength) / longest)
		}
		batch := model.BatchSize{Prompts: 1, PromptTokens: 1, LongestPrompt: 1,
			Completions: rows, Tokens: rows * longest, Longest: longest}
		if st.PromptLossWeight == 0 { // prompts share the first messages of a chat
			batch = batchOf([]int{prompt}, int(rows), 1, maxTokens)
			batch.Shared = sharedTokens(m, s.template)
		}
		learner := size.ParamBytes() + 33*rows*longest
		if !mayUseGPU(m) {
			learner = size.LearnerBytes(batch, s.opts.Threads) + size.PassBytes(batch, model.BatchSize{},
				[]model.BatchSize{evaluationBatch(m, s.template, s.val, s.cfg.EvalTokens)}, s.opts.Threads)
		}
		corpus := float64(st.Examples) * (longest*(8+8+2) + 160) // tokens, a weight for each, and text
		now := Memory{Parts: append([]MemoryPart{
			{fmt.Sprintf("activations of a batch of stage %q", st.Name), learner,
				fmt.Sprintf("lower its batch_size, now %d", st.BatchSize)},
			{fmt.Sprintf("the corpus of stage %q", st.Name), corpus,
				fmt.Sprintf("lower its examples, now %d", st.Examples)},
		}, always...)}
		if now.Total() > most.Total() {
			most = now
		}
	}
	return most
}
