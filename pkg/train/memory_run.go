package train

import (
	"fmt"
	"os"
	"slices"

	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/policy"
	"grpo/pkg/rundir"
)

// checkRoom checks the memory and the disk space for an unfinished run; showing a result needs none.
func (t *trainer) checkRoom() error {
	if _, err := os.Stat(t.path(rundir.ResultFile)); err == nil {
		return nil
	}
	var err error
	if t.need, err = MemoryOf(t.model, t.cfg, t.data.problems, t.opts.Threads); err != nil {
		return err
	}
	if err := t.opts.Memory.pass(t.need); err != nil {
		return err
	}
	return t.opts.Disk.pass(t.opts.Dir, DiskOf(t.model, t.cfg).Less(t.opts.Dir).Peak)
}

// MemoryOf estimates the memory of a resolved configuration's run over these
// problems.
func MemoryOf(m *policy.Model, cfg config.Config, p *Problems, threads int) (Memory, error) {
	need, err := runMemory(m, cfg, p, threads)
	if m.IsDecoder() && cfg.Train.LoRA.Rank == 0 && cfg.Algorithm.RefModelSyncSteps == 0 {
		need.rankKey, need.adapters = "train.lora.rank", func() Memory {
			cfg.Train.LoRA.Rank = usualRank
			with, _ := runMemory(m.WithLoRA(cfg.Train.LoRA), cfg, p, threads) // the error is that above
			return with
		}
	}
	return need, err
}

func runMemory(m *policy.Model, cfg config.Config, p *Problems, threads int) (Memory, error) {
	template, err := m.Template(cfg.Data)
	if err != nil {
		return Memory{}, err
	}
	lengths := policy.PromptLengths(m.Tokenizer, template, p.Train)
	if cfg.Algorithm.FromFile() {
		var d trainData
		if err := d.readPairs(m, cfg); err != nil {
			return Memory{}, err
		}
		cfg, lengths = asRollouts(cfg, d.pairs.list)
		return Memory{Parts: runParts(m, cfg, p, template, lengths, threads)}, nil
	}
	need := Memory{Parts: runParts(m, cfg, p, template, lengths, threads)}
	if len(lengths) == 0 {
		return need, nil
	}
	// Find prompts that are much longer than the others.
	median := slices.Sorted(slices.Values(lengths))[len(lengths)/2]
	usual := slices.DeleteFunc(slices.Clone(lengths), func(n int) bool { return n > 10*median })
	if len(usual) == len(lengths) {
		return need, nil
	}
	need.rest = Memory{Parts: runParts(m, cfg, p, template, usual, threads)}.Total()
	longest := slices.Index(lengths, slices.Max(lengths))
	where := fmt.Sprintf("problem %q", p.Train[longest].ID)
	if line := p.Train[longest].Line; line > 0 {
		where = fmt.Sprintf("%s: line %d", cfg.Data.TrainFile, line)
	}
	if count := len(lengths) - len(usual); count > 1 {
		need.longPrompts = fmt.Sprintf("%d long prompts, the longest of them ", count)
	}
	need.longPrompts += fmt.Sprintf("the prompt of %s, which has %d tokens (half of the prompts have %d or fewer): "+
		"shorten or remove it", where, lengths[longest], median)
	return need, nil
}

// asRollouts is a configuration whose rollouts are as large as the pairs of a file: groups of two
// completions of the longest one's length, of prompts with the lengths returned.
func asRollouts(cfg config.Config, pairs []policy.Pair) (config.Config, []int) {
	lengths, longest := make([]int, len(pairs)), 0
	for i, p := range pairs {
		lengths[i], longest = len(p.Prompt), max(longest, len(p.Chosen), len(p.Rejected))
	}
	cfg.Rollout.GroupSize, cfg.Rollout.SamplingMaxTokens = 2, longest
	return cfg, lengths
}

// sharedTokens are the tokens that all prompts begin with, at least: those of the template, but for
// the last one, which the question may change.
func sharedTokens(tok model.Tokenizer, t gsm8k.Template) float64 {
	return float64(max(0, len(tok.Start())+len(tok.Encode(t.Prefix))-1))
}

// batchOf is the largest batch of rows completions, in groups of group, that prompts of these
// lengths can make.
func batchOf(lengths []int, rows, group, maxTokens int) model.BatchSize {
	prompts := (rows + group - 1) / group
	if rows%group != 0 {
		prompts++ // it may start and end within a group
	}
	sorted := slices.Clone(lengths)
	slices.SortFunc(sorted, func(a, b int) int { return b - a })
	b := model.BatchSize{Prompts: float64(prompts), Completions: float64(rows),
		Tokens: float64(rows) * float64(maxTokens), Longest: float64(maxTokens)}
	for i := range prompts {
		if len(sorted) > 0 {
			b.PromptTokens += float64(sorted[i%len(sorted)])
			b.LongestPrompt = float64(sorted[0])
		}
	}
	return b
}

// runParts are the parts of a run whose training prompts have these lengths, in tokens.
func runParts(m *policy.Model, cfg config.Config, p *Problems, template gsm8k.Template, lengths []int, threads int) []MemoryPart {
	size, a, c := m.Size, cfg.Algorithm, cfg.Rollout
	all, part := runBatches(m, cfg, template, lengths)
	largest, lower := largestSplit(p)
	u := useOf(cfg, size, all, threads)

	sampled := size.SampledBytes(all.Prompts, float64(c.GroupSize), all.Longest)
	if a.DynamicSampling {
		sampled *= float64(max(1, a.DynamicSamplingMaxRounds))
	}
	var scored model.BatchSize
	learner, critic, scorers := size.ParamBytes(), 0.0, 0.0
	if a.Type == "ppo" {
		critic = 4 * size.ParamBytes()
	}
	if a.Type == "ppo" || u.scorers > 0 {
		scored = all
	}
	if !m.MayUseGPU() {
		learner, scorers = size.LearnerBytes(part, threads), u.scorers*size.ScorerBytes(all, threads)+u.teacher
		if a.Type == "ppo" {
			critic = size.CriticBytes(all, part, threads)
		}
	}
	learner += 8 * u.numbers * part.Completions * part.Longest
	learner += size.PassBytes(part, scored, []model.BatchSize{all,
		evaluationBatch(m, template, largest, cfg.Eval.MaxTokens)}, threads)

	smaller := m.Smaller()
	batch := fmt.Sprintf("lower rollout.rollout_batch_size, now %d, or rollout.sampling_max_tokens, now %d",
		c.RolloutBatchSize, c.SamplingMaxTokens)
	accumulate := fmt.Sprintf("raise train.gradient_accumulation_steps, now %d; ", cfg.Train.GradientAccumulationSteps)
	if limit := m.MicroBatchTokens(cfg.Train.MicroBatchTokens); limit > 0 {
		accumulate = fmt.Sprintf("lower train.micro_batch_tokens, now %d, or set train.gradient_checkpointing; ", limit)
	}
	everything := [][]gsm8k.Problem{p.Train}
	for _, s := range p.evaluated() {
		everything = append(everything, s.Problems)
	}
	// A checkpoint is read before these are allocated, and written without a copy.
	after := learner + critic + scorers + sampled + u.kept + size.SamplerBytes(threads)
	return append([]MemoryPart{
		{fmt.Sprintf("weights and moments of %v", size), u.weights, smaller},
		{"activations of a micro-batch", learner, accumulate + batch},
		{"the critic", critic, accumulate + batch},
		{"scoring the rollout", scorers, batch},
		{"the completions of a rollout", sampled + u.kept, batch},
		{"an evaluation", evaluationBytes(m, template, largest, cfg.Eval.MaxTokens, cfg.Eval.Greedy),
			fmt.Sprintf("lower eval.max_tokens, now %d, or %s", cfg.Eval.MaxTokens, lower)},
		{"the sampler", size.SamplerBytes(threads), smaller},
		{"the reward models", rewardModelBytes(cfg.Reward, threads), "leave them out of reward.functions"},
		{"reading a checkpoint", max(0, u.saved-after), smaller},
	}, problemParts(lengths, threads, everything...)...)
}

// runBatches are the largest rollout batch and the largest micro-batch.
func runBatches(m *policy.Model, cfg config.Config, template gsm8k.Template, lengths []int) (all, part model.BatchSize) {
	c := cfg.Rollout
	micro := cfg.Train.TrainBatchSize / max(1, cfg.Train.GradientAccumulationSteps)
	all = batchOf(lengths, c.RolloutBatchSize, c.GroupSize, c.SamplingMaxTokens)
	part = batchOf(lengths, micro, c.GroupSize, c.SamplingMaxTokens)
	all.Shared = sharedTokens(m.Tokenizer, template)
	part.Shared, part.Checkpointing = all.Shared, cfg.Train.GradientCheckpointing
	return all, atMost(part, m.MicroBatchTokens(cfg.Train.MicroBatchTokens))
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

// largestSplit is the evaluated split with the most problems, and the key that makes it smaller.
func largestSplit(p *Problems) (largest []gsm8k.Problem, key string) {
	for _, s := range p.evaluated() {
		if len(s.Problems) <= len(largest) {
			continue
		}
		largest, key = s.Problems, "eval.set_size"
		switch s.Name {
		case rundir.SplitVal, rundir.SplitTest, rundir.SplitUnseen:
			key = "data." + s.Name + "_size"
		}
	}
	return largest, key
}

// memoryUse is what the options of a run keep in memory.
type memoryUse struct {
	weights float64 // bytes of weights and moments
	saved   float64 // bytes of a checkpoint
	kept    float64 // bytes kept with the completions of a rollout
	numbers float64 // float64 for each token of a micro-batch
	scorers float64 // passes over the rollout under a policy
	teacher float64 // bytes of the teacher's pass
}

func useOf(cfg config.Config, size model.Size, all model.BatchSize, threads int) memoryUse {
	a, c := cfg.Algorithm, cfg.Rollout
	one, rows, tokens := size.ParamBytes(), all.Completions, all.Tokens
	u := memoryUse{
		weights: 3 * one, saved: 3 * one, // current and two moments; the same in a checkpoint
		numbers: 2,                    // old log-probabilities and gradient
		kept:    10*tokens + 400*rows, // old log-probabilities and mask as (N,T), and text; verdict and rewards
	}
	if a.Beta != 0 || a.Type == "dpo" && !a.FromFile() {
		u.weights, u.saved, u.numbers, u.scorers = u.weights+one, u.saved+one, u.numbers+1, u.scorers+1
	}
	if c.Stale() {
		u.weights += one
		if cfg.Train.LoRA.Rank == 0 { // frozen weights are shared
			u.weights += size.SamplerBytes(threads)
		}
	}
	if c.ResampleEveryNSteps > 1 {
		u.saved += one
	}
	if a.Teacher != "" {
		size := policy.TeacherSize(a.Teacher, size)
		u.weights, u.kept = u.weights+size.ParamBytes(), u.kept+8*tokens
		u.teacher = size.ScorerBytes(all, threads) + size.PassBytes(model.BatchSize{}, all, nil, threads)
	}
	if a.Type == "dpo" {
		u.numbers++
		if a.DPO.Preference().NeedsBatch() || a.DPO.EvalPairsFile != "" || a.FromFile() {
			u.scorers++
		}
		if a.DPO.UseWeighting {
			u.scorers++
		}
	}
	if a.TopEntropyQuantile < 1 {
		u.kept, u.scorers = u.kept+2*tokens, u.scorers+1
	}
	if a.EntropyCoef != 0 || a.UseAdaptiveEntropy {
		u.numbers++
	}
	chargesKL := a.KLIn == "reward" && a.Beta != 0
	if _, normalizer := a.Advantages(); normalizer == config.WhitenTokens || a.Type == "ppo" || chargesKL {
		u.numbers++
		u.kept += 6 * 8 * tokens
	}
	u.kept += 8 * tokens * u.scorers
	if a.Type == "ppo" {
		u.kept += 4 * 8 * tokens // values, rewards and returns
		u.saved += 3 * one
	}
	return u
}

// evaluationBytes is the memory for decoding all problems of a split. Greedy decoding may start
// while the sampled completions are still in memory.
func evaluationBytes(m *policy.Model, t gsm8k.Template, problems []gsm8k.Problem, maxTokens int, greedy bool) float64 {
	bytes := m.Size.SampledBytes(float64(len(problems)), 1, float64(maxTokens))
	if greedy {
		bytes *= 2
	}
	for _, n := range policy.PromptLengths(m.Tokenizer, t, problems) {
		bytes += 8 * float64(n)
	}
	return bytes
}

// evaluationBatch is a split's prompts, with one completion each.
func evaluationBatch(m *policy.Model, t gsm8k.Template, problems []gsm8k.Problem, maxTokens int) model.BatchSize {
	b := batchOf(policy.PromptLengths(m.Tokenizer, t, problems), len(problems), 1, maxTokens)
	b.Shared = sharedTokens(m.Tokenizer, t)
	return b
}

// problemParts are the problems, the tokens of the training prompts, and the idle program.
func problemParts(lengths []int, threads int, splits ...[]gsm8k.Problem) []MemoryPart {
	const program, thread, problem = 32 << 20, 2 << 20, 256
	var bytes float64
	for _, n := range lengths {
		bytes += 8 * float64(n)
	}
	for _, p := range slices.Concat(splits...) {
		bytes += problem + float64(len(p.Question)+len(p.Answer))
	}
	return []MemoryPart{
		{"the problems", bytes, "lower data.train_size"},
		{"the program", program + thread*float64(max(1, threads)), ""},
	}
}

// memoryOfEvaluation is the estimate for `grpo eval`.
func memoryOfEvaluation(m *policy.Model, cfg config.Config, template gsm8k.Template, problems []gsm8k.Problem, threads int) Memory {
	size, e := m.Size, cfg.Eval
	return Memory{Parts: append([]MemoryPart{
		{fmt.Sprintf("weights of %v", size), 3 * size.ParamBytes(), ""}, // read, checked and copied
		{"the completions", evaluationBytes(m, template, problems, e.MaxTokens, e.Greedy),
			fmt.Sprintf("lower eval.max_tokens, now %d, or the number of problems", e.MaxTokens)},
		{"the sampler", size.SamplerBytes(threads) + size.PassBytes(model.BatchSize{}, model.BatchSize{},
			[]model.BatchSize{evaluationBatch(m, template, problems, e.MaxTokens)}, threads), ""},
	}, problemParts(nil, threads, problems)...)}
}
