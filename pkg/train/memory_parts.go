package train

import (
	"fmt"
	"slices"

	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/model/cuda/gpu"
)

// MemoryOf estimates the memory of a resolved configuration's run over these
// problems. Of a run that may take a GPU it counts the host's part only: the
// device refuses by itself what does not fit there.
func MemoryOf(cfg config.Config, p *Problems, threads int) (Memory, error) {
	template, err := gsm8k.LookupTemplate(cfg.Data.PromptTemplate)
	if err != nil {
		return Memory{}, err
	}
	lengths := promptLengths(tokenizerOf(cfg.Model), template, p.Train)
	m := Memory{Parts: runParts(cfg, p, template, lengths, threads)}
	m.blameLongPrompts(cfg, p, template, lengths, threads)
	return m, nil
}

// promptLengths counts the tokens of each prompt.
func promptLengths(tok model.Tokenizer, t gsm8k.Template, problems []gsm8k.Problem) []int {
	out := make([]int, len(problems))
	for i, p := range problems {
		out[i] = len(tok.Start()) + len(tok.Encode(t.Render(p.Question)))
	}
	return out
}

// batchOf is the largest batch of rows completions, group to a prompt, that the
// prompts of these lengths can make.
func batchOf(lengths []int, rows, group, maxTokens int) model.BatchSize {
	prompts := (rows + group - 1) / group
	if rows%group != 0 {
		prompts++ // it may start and end within a group
	}
	sorted := slices.Clone(lengths)
	slices.SortFunc(sorted, func(a, b int) int { return b - a })
	b := model.BatchSize{Prompts: float64(prompts), Completions: float64(rows), Tokens: float64(rows) * float64(maxTokens), Longest: float64(maxTokens)}
	for i := range prompts {
		if len(sorted) > 0 {
			b.PromptTokens += float64(sorted[i%len(sorted)])
			b.LongestPrompt = float64(sorted[0])
		}
	}
	return b
}

func runParts(cfg config.Config, p *Problems, template gsm8k.Template, lengths []int, threads int) []MemoryPart {
	size, a, c := sizeOf(cfg.Model), cfg.Algorithm, cfg.Rollout
	group, rows, width := c.GroupSize, float64(c.RolloutBatchSize), float64(c.SamplingMaxTokens)
	micro := cfg.Train.TrainBatchSize / max(1, cfg.Train.GradientAccumulationSteps)
	all, part := batchOf(lengths, c.RolloutBatchSize, group, c.SamplingMaxTokens), batchOf(lengths, micro, group, c.SamplingMaxTokens)
	one, tokens := size.ParamBytes(), rows*width
	host := mayUseGPU(cfg.Model)

	weights, saved := 4*one, 4*one // now, first and two moments; files of three of them and of the best weights
	numbers := 2.0                 // float64 for each token of a micro-batch: old log-probabilities and gradient
	sampled := size.SampledBytes(all.Prompts, float64(group), width)
	kept := 8*tokens + 2*tokens + 400*rows // old log-probabilities and mask as (N,T), where needed, and text; verdict and rewards
	if a.DynamicSampling {
		sampled *= float64(max(1, a.DynamicSamplingMaxRounds))
	}
	var scorers, critic float64
	score := func() {
		kept += 8 * tokens
		if !host {
			scorers += size.ScorerBytes(all, threads)
		}
	}
	if a.Beta != 0 {
		weights, saved, numbers = weights+one, saved+one, numbers+1
		score()
	}
	if a.Teacher != "" {
		weights += one
		score()
	}
	if a.TopEntropyQuantile < 1 {
		score()
		kept += 2 * tokens
	}
	if a.EntropyCoef != 0 || a.UseAdaptiveEntropy {
		numbers++
	}
	if _, normalizer := a.Advantages(); normalizer == "whiten_tokens" || a.Type == "ppo" || a.KLIn == "reward" && a.Beta != 0 {
		numbers++
		kept += 6 * 8 * tokens
	}
	if a.Type == "ppo" {
		kept += 4 * 8 * tokens // values, rewards and returns
		saved += 3 * one
		if critic = 4 * one; !host {
			critic = size.CriticBytes(all, part, threads)
		}
	}
	learner := one
	if !host {
		learner = size.LearnerBytes(part, threads)
	}
	learner += 8 * numbers * part.Completions * part.Longest

	smaller := "lower model.hidden_size or model.num_layers"
	batch := fmt.Sprintf("lower rollout.rollout_batch_size, now %d, or rollout.sampling_max_tokens, now %d", c.RolloutBatchSize, c.SamplingMaxTokens)
	accumulate := fmt.Sprintf("raise train.gradient_accumulation_steps, now %d; ", cfg.Train.GradientAccumulationSteps)
	split, largest := "val_size", p.Val
	for _, s := range []struct {
		name     string
		problems []gsm8k.Problem
	}{{"test_size", p.Test}, {"unseen_size", p.Unseen}} {
		if len(s.problems) > len(largest) {
			split, largest = s.name, s.problems
		}
	}
	parts := []MemoryPart{
		{fmt.Sprintf("weights and moments of %v", size), weights, smaller},
		{"activations of a micro-batch", learner, accumulate + batch},
		{"the critic", critic, accumulate + batch},
		{"scoring the rollout", scorers, batch},
		{"the completions of a rollout", sampled + kept, batch},
		{"an evaluation", evaluationBytes(size, tokenizerOf(cfg.Model), template, largest, cfg.Eval.MaxTokens, cfg.Eval.Greedy),
			fmt.Sprintf("lower eval.max_tokens, now %d, or data.%s", cfg.Eval.MaxTokens, split)},
		{"the sampler", size.SamplerBytes(threads), smaller},
		{"checkpoints", saved, smaller},
	}
	return append(parts, problemParts(lengths, threads, p.Train, p.Val, p.Test, p.Unseen)...)
}

// evaluationBytes is for decoding all problems of a split. The completions of
// the first decoding are garbage, and may still be there, during the second.
func evaluationBytes(size model.Size, tok model.Tokenizer, template gsm8k.Template, problems []gsm8k.Problem, maxTokens int, greedy bool) float64 {
	bytes := size.SampledBytes(float64(len(problems)), 1, float64(maxTokens))
	if greedy {
		bytes *= 2
	}
	for _, n := range promptLengths(tok, template, problems) {
		bytes += 8 * float64(n)
	}
	return bytes
}

// problemParts are the problems with the prompts that are kept as tokens, and
// what the program takes before it does anything.
func problemParts(lengths []int, threads int, splits ...[]gsm8k.Problem) []MemoryPart {
	const program, thread, problem = 32 << 20, 2 << 20, 256
	var bytes float64
	for _, n := range lengths {
		bytes += 8 * float64(n)
	}
	for _, s := range splits {
		for _, p := range s {
			bytes += problem + float64(len(p.Question)+len(p.Answer))
		}
	}
	return []MemoryPart{
		{"the problems", bytes, "lower data.train_size"},
		{"the program", program + thread*float64(max(1, threads)), ""},
	}
}

// mayUseGPU reports whether the graphs may be built in the memory of a GPU.
func mayUseGPU(c config.Model) bool {
	return c.Device != "cpu" && gpu.Built
}

// memoryOfEvaluation is for `grpo eval`.
func memoryOfEvaluation(cfg config.Config, template gsm8k.Template, problems []gsm8k.Problem, threads int) Memory {
	size := sizeOf(cfg.Model)
	parts := []MemoryPart{
		{fmt.Sprintf("weights of %v", size), 3 * size.ParamBytes(), ""}, // read, checked and copied
		{"the completions", evaluationBytes(size, tokenizerOf(cfg.Model), template, problems, cfg.Eval.MaxTokens, cfg.Eval.Greedy),
			fmt.Sprintf("lower eval.max_tokens, now %d, or the number of problems", cfg.Eval.MaxTokens)},
		{"the sampler", size.SamplerBytes(threads), ""},
	}
	return Memory{Parts: append(parts, problemParts(nil, threads, problems)...)}
}

// corpusSample is how many examples of a generated corpus tell how long they are.
const corpusSample = 1000

// memory is the estimate of the stage that needs the most.
func (s *sft) memory() (Memory, error) {
	size, tok := sizeOf(s.cfg.Model), tokenizerOf(s.cfg.Model)
	maxTokens := config.Default().Rollout.SamplingMaxTokens
	sample := *s
	sample.cfg.Stages = slices.Clone(s.cfg.Stages)
	var most Memory
	for i, st := range s.cfg.Stages {
		if st.Corpus != "answers" { // one for each problem
			sample.cfg.Stages[i].Examples = min(st.Examples, corpusSample)
		}
		corpus, err := sample.corpus(i)
		if err != nil {
			return Memory{}, err
		}
		lengths, sum := make([]int, len(corpus)), 0.0
		for k, e := range corpus {
			lengths[k] = len(tokenize(tok, e, 0).tokens)
			sum += float64(lengths[k])
		}
		slices.SortFunc(lengths, func(a, b int) int { return b - a })
		batch := model.BatchSize{Prompts: 1, PromptTokens: 1, LongestPrompt: 1, Completions: float64(st.BatchSize), Longest: float64(lengths[0])}
		for _, n := range lengths[:min(st.BatchSize, len(lengths))] {
			batch.Tokens += float64(n)
		}
		batch.Tokens *= max(1, float64(st.BatchSize)/float64(len(lengths)))
		learner := size.ParamBytes() + 33*batch.Completions*batch.Longest
		if !mayUseGPU(s.cfg.Model) {
			learner = size.LearnerBytes(batch, s.opts.Threads)
		}
		examples, mean := float64(len(corpus)), sum/float64(len(corpus))
		if st.Corpus != "answers" {
			examples = float64(st.Examples)
		}
		now := Memory{Parts: append([]MemoryPart{
			{fmt.Sprintf("weights and moments of %v", size), 4 * size.ParamBytes(), "lower model.hidden_size or model.num_layers"},
			{fmt.Sprintf("activations of a batch of stage %q", st.Name), learner, fmt.Sprintf("lower its batch_size, now %d", st.BatchSize)},
			// An example is its text, its tokens and a weight for each.
			{fmt.Sprintf("the corpus of stage %q", st.Name), examples * (mean*(8+8+2) + 160), fmt.Sprintf("lower its examples, now %d", st.Examples)},
			{"an evaluation", evaluationBytes(size, tok, s.template, s.val, maxTokens, true), "lower eval_size"},
			{"the sampler", size.SamplerBytes(s.opts.Threads), ""},
		}, problemParts(nil, s.opts.Threads, s.problems.SFT, s.problems.Train, s.problems.Val, s.problems.Test, s.problems.Unseen)...)}
		if now.Total() > most.Total() {
			most = now
		}
	}
	return most, nil
}
