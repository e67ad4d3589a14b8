package budget

import (
	"fmt"
	"slices"

	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/policy"
)

// Data are the problems of a run, as far as they need memory.
type Data struct {
	Template gsm8k.Template
	Train    []gsm8k.Problem
	Pairs    []policy.Pair // of a file, of dpo: these instead of rollouts
	// Evaluated is the largest split of an evaluation, and Smaller the key that makes it smaller.
	Evaluated []gsm8k.Problem
	Smaller   string
	All       [][]gsm8k.Problem // all splits
}

// Run bounds the memory of a resolved configuration's run.
func Run(m *policy.Model, cfg config.Config, d Data, threads int) Memory {
	lengths := policy.PromptLengths(m.Tokenizer, d.Template, d.Train)
	if cfg.Algorithm.FromFile() { // groups of two completions of the longest one's length
		lengths, cfg.Rollout.GroupSize, cfg.Rollout.SamplingMaxTokens = nil, 2, 0
		for _, p := range d.Pairs {
			lengths = append(lengths, len(p.Prompt))
			cfg.Rollout.SamplingMaxTokens = max(cfg.Rollout.SamplingMaxTokens, len(p.Chosen), len(p.Rejected))
		}
	}
	bound := func(m *policy.Model) Memory { return Memory{Parts: runParts(m, cfg, d, lengths, threads)} }
	need := bound(m)
	if cfg.Algorithm.RefModelSyncSteps == 0 { // adapters have no reference that moves
		need = orAdapters(m, "train.lora.rank", bound)
	}
	if cfg.Algorithm.FromFile() || len(lengths) == 0 {
		return need
	}
	// Find prompts that are much longer than the others.
	median := slices.Sorted(slices.Values(lengths))[len(lengths)/2]
	usual := slices.DeleteFunc(slices.Clone(lengths), func(n int) bool { return n > 10*median })
	if len(usual) == len(lengths) {
		return need
	}
	need.rest = Memory{Parts: runParts(m, cfg, d, usual, threads)}.Total()
	longest := slices.Index(lengths, slices.Max(lengths))
	where := fmt.Sprintf("problem %q", d.Train[longest].ID)
	if line := d.Train[longest].Line; line > 0 {
		where = fmt.Sprintf("%s: line %d", cfg.Data.TrainFile, line)
	}
	if count := len(lengths) - len(usual); count > 1 {
		need.longPrompts = fmt.Sprintf("%d long prompts, the longest of them ", count)
	}
	need.longPrompts += fmt.Sprintf("the prompt of %s, which has %d tokens (half of the prompts have %d or fewer): "+
		"shorten or remove it", where, lengths[longest], median)
	return need
}

// runParts are the parts of a run whose training prompts have these lengths, in tokens.
func runParts(m *policy.Model, cfg config.Config, d Data, lengths []int, threads int) []Part {
	size, a, c, e := m.Size, cfg.Algorithm, cfg.Rollout, cfg.Eval
	one := size.ParamBytes()
	all, part := runBatches(m, cfg, d.Template, lengths)
	evaluated := evaluationOf(m, d.Template, d.Evaluated, e.LastSamples(), e.MaxTokens)
	learn := model.Use{Learner: true, Learn: part, Samplers: 1, Sample: []model.BatchSize{all, evaluated.Batch}}
	sets := 3.0 // of parameters: the current ones and two moments
	if c.Stale() {
		sets++
		if m.LoRA.Rank == 0 { // frozen weights are shared
			learn.Samplers++
		}
	}
	score := learn
	score.Critic = a.Type == "ppo"
	if a.NeedsReference() || a.Type == "dpo" && !a.FromFile() {
		sets++
		score.Scorers++
	}
	if d := a.DPO; a.TopEntropyQuantile < 1 || a.Type == "dpo" &&
		(d.Preference().NeedsBatch() || d.EvalPairsFile != "" || a.FromFile()) { // the policy
		score.Scorers++
	}
	if a.Type == "dpo" && a.DPO.UseWeighting {
		score.Scorers++
	}
	if score.Scorers > 0 || score.Critic {
		score.Score = all
	}
	numbers := float64(4 + 2*score.Scorers) // float64 for each token of a rollout
	if _, n := a.Advantages(); n == config.WhitenTokens || score.Critic || a.KLIn == "reward" && a.Beta != 0 {
		numbers += 12
	}
	var teacher float64
	if a.Teacher != "" {
		t := policy.TeacherSize(a.Teacher, cfg.Model.Device, size)
		teacher = t.ParamBytes() + t.WorkBytes(model.Use{Scorers: 1, Score: all}, threads)
		numbers++
	}
	activations := workBytes(m, learn, threads)
	scoring := workBytes(m, score, threads) - activations
	rollout := size.SampledBytes(all.Prompts, float64(c.GroupSize), all.Longest)
	if c.LogProbs == "sampled" && c.Cuts() {
		rollout += all.Tokens * model.KeptBytes(size.Vocabulary())
	}
	if a.DynamicSampling {
		rollout *= float64(max(1, a.DynamicSamplingMaxRounds))
	}
	const completion = 400 // text, verdict and rewards
	rollout += 8*numbers*all.Tokens + completion*all.Completions

	batch := fmt.Sprintf("lower rollout.rollout_batch_size, now %d, or rollout.sampling_max_tokens, now %d",
		c.RolloutBatchSize, c.SamplingMaxTokens)
	accumulate := fmt.Sprintf("raise train.gradient_accumulation_steps, now %d; ", cfg.Train.GradientAccumulationSteps)
	if limit := m.MicroBatchTokens(cfg.Train.MicroBatchTokens); limit > 0 {
		accumulate = fmt.Sprintf("lower train.micro_batch_tokens, now %d, or set train.gradient_checkpointing; ", limit)
	}
	return append([]Part{
		{fmt.Sprintf("weights and moments of %v", size), sets * one, m.Smaller()},
		{"activations of a micro-batch and the sampler", activations, accumulate + batch},
		{"scoring the rollout", scoring, batch},
		{"the teacher", teacher, batch},
		{"the completions of a rollout", rollout, batch},
		{"an evaluation", evaluated.bytes(size, e.Greedy),
			fmt.Sprintf("lower eval.max_tokens, now %d, or %s", e.MaxTokens, d.Smaller)},
		{"the reward models", rewardModelBytes(cfg, threads), "leave them out of reward.functions"},
		// It is read before these are allocated, and written without a copy.
		{"reading a checkpoint", max(0, CheckpointBytes(m, cfg)-activations-scoring-rollout), m.Smaller()},
	}, problemParts(m, lengths, threads, d.All...)...)
}

// Evaluation bounds the memory of sampling completions of problems with the settings of evaluations.
func Evaluation(m *policy.Model, cfg config.Config, t gsm8k.Template, problems []gsm8k.Problem, threads int) Memory {
	size, e := m.Size, cfg.Eval
	evaluated := evaluationOf(m, t, problems, e.LastSamples(), e.MaxTokens)
	use := model.Use{Samplers: 1, Sample: []model.BatchSize{evaluated.Batch}}
	weights := size.ParamBytes()
	if !m.IsDecoder() || m.HasCheckpoint() { // read, checked and copied
		weights *= 3
	}
	return Memory{Parts: append([]Part{
		{fmt.Sprintf("weights of %v", size), weights, ""},
		{"the completions", evaluated.bytes(size, e.Greedy),
			fmt.Sprintf("lower eval.max_tokens, now %d, or the number of problems", e.MaxTokens)},
		{"the sampler", workBytes(m, use, threads), ""},
	}, problemParts(m, nil, threads, problems)...)}
}

// workBytes bounds the host's memory for a use of the model. The graphs of a TinyLM may be in the memory of a GPU.
func workBytes(m *policy.Model, u model.Use, threads int) float64 {
	if m.MayUseGPU() && !m.IsDecoder() {
		u.Learn, u.Score, u.Scorers = model.BatchSize{}, model.BatchSize{}, 0
	}
	return m.Size.WorkBytes(u, threads)
}

// runBatches are the largest rollout batch and the largest micro-batch.
func runBatches(m *policy.Model, cfg config.Config, t gsm8k.Template, lengths []int) (all, part model.BatchSize) {
	c := cfg.Rollout
	micro := cfg.Train.TrainBatchSize / max(1, cfg.Train.GradientAccumulationSteps)
	all = batchOf(lengths, c.RolloutBatchSize, c.GroupSize, c.SamplingMaxTokens)
	part = batchOf(lengths, micro, c.GroupSize, c.SamplingMaxTokens)
	all.Shared = sharedTokens(m.Tokenizer, t)
	part.Shared, part.Checkpointing = all.Shared, cfg.Train.GradientCheckpointing
	return all, atMost(part, m.MicroBatchTokens(cfg.Train.MicroBatchTokens))
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
		if i < model.ReadTogether {
			b.LongPrompts = b.PromptTokens
		}
	}
	return b
}

// atMost is the largest part of a batch, with at most limit tokens (0 = no limit), that micro-batches
// are cut into.
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

// sharedTokens are the tokens that all prompts begin with, at least: those of the template, but for
// the last one, which the question may change.
func sharedTokens(tok model.Tokenizer, t gsm8k.Template) float64 {
	return float64(max(0, len(tok.Start())+len(tok.Encode(t.Prefix))-1))
}

// EvaluatedTogether is the number of problems that an evaluation samples in one call, with this many completions
// of each: all problems together could have a million completions.
func EvaluatedTogether(samples int) int {
	const completions = 8192
	return max(1, completions/samples)
}

// evaluated is a split in an evaluation.
type evaluated struct {
	Batch        model.BatchSize // the largest call of the sampler
	promptTokens float64
	verdicts     float64 // of all completions
}

// evaluationOf is a split's evaluation with this many sampled completions of each problem.
func evaluationOf(m *policy.Model, t gsm8k.Template, problems []gsm8k.Problem, samples, maxTokens int) evaluated {
	lengths := policy.PromptLengths(m.Tokenizer, t, problems)
	together := min(len(problems), EvaluatedTogether(samples))
	e := evaluated{Batch: batchOf(lengths, together*samples, samples, maxTokens)}
	e.Batch.Shared = sharedTokens(m.Tokenizer, t)
	for _, n := range lengths {
		e.promptTokens += float64(n)
	}
	e.verdicts = float64(len(problems)) * float64(samples)
	return e
}

// bytes is the memory for completing a split. Greedy decoding may start while the sampled
// completions are still in memory.
func (e evaluated) bytes(size model.Size, greedy bool) float64 {
	bytes := size.SampledBytes(e.Batch.Completions, 1, e.Batch.Longest)
	if greedy {
		bytes += size.SampledBytes(e.Batch.Prompts, 1, e.Batch.Longest)
	}
	const verdict = 3 // growing a slice, and its digits in eval.jsonl
	return bytes + 8*e.promptTokens + verdict*e.verdicts
}

// problemParts are the problems, the tokens of the training prompts, and the idle program with its tokenizer.
func problemParts(m *policy.Model, lengths []int, threads int, splits ...[]gsm8k.Problem) []Part {
	const program, thread, problem = 32 << 20, 2 << 20, 256
	var bytes, decoder float64
	if m.IsDecoder() {
		const code, token = 48 << 20, 320 // of what only decoders use, and of a tokenizer
		decoder = code + token*float64(m.Size.Vocabulary())
	}
	for _, n := range lengths {
		bytes += 8 * float64(n)
	}
	for _, p := range slices.Concat(splits...) {
		bytes += problem + float64(len(p.Question)+len(p.Answer))
	}
	return []Part{
		{"the problems", bytes, "lower data.train_size"},
		{"the program", program + decoder + thread*float64(max(1, threads)), ""},
	}
}
