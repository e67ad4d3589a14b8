package train

import (
	"fmt"
	"math"
	"slices"

	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/infer"
	"grpo/pkg/model"
	"grpo/pkg/rl"
	"grpo/pkg/rundir"
)

// A run checks its invariants while it trains. A failed check ends the run with an
// error. The checks are always on: together they cost less than a tenth of a
// percent of a step (BenchmarkChecks). The result counts the checks that passed;
// the count is a function of the configuration.
//
//	once          no evaluation split shares a question with the training problems
//	completion    one log-probability for each token; <eos> is last, and only if it
//	              ended; its row of the learner's mask has its length
//	group         its advantages sum to 0, for the methods that imply it
//	step          sampler and graph agree on the log-probabilities; weights are finite;
//	              the line of metrics.jsonl reads back as it was written
//	update        loss and gradient norm are finite (else the run is diverged, a result)
//	evaluation    counts add up, and the reward is their ratio

func (t *trainer) passed(n int) { t.state.Checks += n }

// failed returns the error of a failed check.
func failed(step int, format string, args ...any) error {
	return fmt.Errorf("check of step %d failed: %s (this is a bug or a hardware fault: "+
		"do not trust metrics after it; the last checkpoint is from before it)", step, fmt.Sprintf(format, args...))
}

// checkSplits: no evaluation problem is a training problem, or a worked example of the user's.
func (t *trainer) checkSplits() error {
	p := t.data.problems
	for _, s := range p.Evaluated() {
		if n := gsm8k.Overlap(p.Train, s.Problems); n > 0 {
			return fmt.Errorf("load problems: %d questions of the split %q are also training questions: "+
				"its metrics would include problems that were trained on", n, s.Name)
		}
		for i, turn := range t.data.template.Examples {
			same := func(x gsm8k.Problem) bool { return x.Question == turn.Question }
			if t.cfg.Data.FewShotFile != "" && slices.ContainsFunc(s.Problems, same) {
				return config.Invalid(fmt.Errorf("load problems: the question of worked example %d in %s is also in the split %q: "+
					"its metrics would include a problem whose answer is in the prompt; remove the example",
					i+1, t.cfg.Data.FewShotFile, s.Name))
			}
		}
		t.passed(min(1, len(s.Problems)))
	}
	return nil
}

// checkCompletions: a completion has log-probabilities, and what ends it only at its end.
func (t *trainer) checkCompletions(r *rollout, step int) error {
	limit, end := t.cfg.Rollout.SamplingMaxTokens, t.Policy.End()
	sampling := infer.RolloutSampling(t.cfg.Rollout, t.data.template, t.Policy)
	for i, c := range r.completions {
		n := len(c.Tokens)
		if n == 0 || n > limit || len(c.LogProbs) != n {
			return failed(step, "completion %d has %d tokens and %d log-probabilities; the limit is %d tokens",
				i, n, len(c.LogProbs), limit)
		}
		for k, id := range c.Tokens {
			ends := slices.Contains(end, id) || k == n-1 && sampling.Ends(c.Tokens, end)
			if ends != (c.Ended && k == n-1) {
				return failed(step, "completion %d of %d tokens, ended %v, has the token %d at %d",
					i, n, c.Ended, id, k)
			}
		}
	}
	t.passed(len(r.completions))
	return nil
}

// checkMask: the graph's mask covers each completion's tokens and no others.
func (t *trainer) checkMask(r *rollout, rows []int, x *model.TokenMatrix) error {
	if x.B != len(rows) || len(x.Mask) != x.B*x.T {
		return fmt.Errorf("check failed: the graph's mask has %d entries for %d completions of at most %d tokens",
			len(x.Mask), len(rows), x.T)
	}
	for k, i := range rows {
		n := len(r.completions[i].Tokens)
		for at, in := range x.Mask[k*x.T : (k+1)*x.T] {
			if in != (at < n) {
				return fmt.Errorf("check failed: the graph's mask of completion %d, which has %d tokens, "+
					"is %v at %d", i, n, in, at)
			}
		}
	}
	t.passed(len(rows))
	return nil
}

// samplerTolerance is the largest allowed difference between the log-probabilities of sampler and
// graph, in nats. On amd64 they are bit-identical; on a GPU they differ by rounding, and in tf32 and
// bf16, where matmul operands are rounded to 11 or 8 bits, the check finds only large errors.
//
// A TinyLM's sampler is always float32. A decoder's rounds as its graph does, but they add in other
// orders (attention over a cache and over tiles; cuBLAS chooses a kernel by the shape). The last bit
// of a sum decides to which side an operand of the next layer is rounded, so over many layers the
// difference grows to that of independent roundings. Mean and largest difference, for the 30 layers of
// SmolLM2, of the CPU and the emulated GPU in the same precision, or of a precision and float32:
//
//	float32   CPU and GPU      1e-5, 3e-5 of 39 tokens
//	tf32      and float32      4e-3, 0.015 of 17 tokens
//	bf16      CPU and GPU      0.02, 0.06 of 17 tokens; sampler and graph 0.05 of 40 tokens at most
//	bf16      and float32      0.013, 0.18 of 7171 tokens, both on the CPU
//
// The limits are 10 times the largest or more, for runs of millions of tokens and larger networks.
// Log-probabilities after another context differ by several nats.
func (t *trainer) samplerTolerance() float64 {
	switch {
	case t.Device.GPU == nil:
		return 1e-4
	case t.model.IsDecoder():
		return map[string]float64{"float32": 2e-3, "tf32": 0.25, "bf16": 2}[t.Device.GPU.Precision()]
	}
	return map[string]float64{"float32": 1e-4, "tf32": 0.05, "bf16": 0.4}[t.Device.GPU.Precision()]
}

// checkSampler: the policy that sampled is the policy that learns.
func (t *trainer) checkSampler(s *updateStats) error {
	if limit := t.samplerTolerance(); !(*s.maxDiff <= limit) {
		return failed(s.step, "the log-probabilities of sampler and graph differ by up to %g, more than %g",
			*s.maxDiff, limit)
	}
	t.passed(1)
	return nil
}

// sumsToZero reports whether the configured advantages of a group sum to 0: those centered on the
// mean of the group's own rewards, at any scale, without a KL penalty in the reward or whitening
// over the batch.
func (t *trainer) sumsToZero() bool {
	a := t.cfg.Algorithm
	baseline, normalizer := a.Advantages()
	return a.Type == "grpo" && !a.PassK && a.AdvantageExpr == "" && !(a.KLIn == "reward" && a.Beta != 0) &&
		t.cfg.Reward.MultiObjectiveAggregation == "sum_then_normalize" &&
		(baseline == rl.BaselineGroupMean || baseline == rl.BaselineLeaveOneOut) &&
		normalizer != rl.NormalizerWhiten
}

// checkAdvantages: the advantages of a group sum to 0.
func (t *trainer) checkAdvantages(r *rollout, step int) error {
	if !t.sumsToZero() {
		return nil
	}
	size := t.cfg.Rollout.GroupSize
	for g := range len(r.rewards) / size {
		rewards, advantages := r.rewards[g*size:(g+1)*size], r.advantages[g*size:(g+1)*size]
		if sum, bound := residue(rewards, advantages); !(sum <= bound) {
			return failed(step, "the advantages of group %d, %v, sum to %g; rounding explains %g (rewards %v)",
				g, advantages, sum, bound, rewards)
		}
	}
	t.passed(len(r.rewards) / size)
	return nil
}

// residue returns |sum of A| of a group and the part of it that rounding can
// explain. For A_i = k (r_i - mean) the computed mean is off by at most
// n eps max|r|, each difference by a little more, so that
//
//	|sum A| <= k n^2 eps max|r| + n eps sum|A|,   k <= 2 sum|A| / (max r - min r)
//
// with a safety factor of four. A group of equal rewards has advantages of exactly
// 0. Rewards of NaN are not scored and left out.
func residue(rewards, advantages []float64) (sum, bound float64) {
	const eps = 0x1p-52
	low, high, largest, total := math.Inf(1), math.Inf(-1), 0.0, 0.0
	for i, r := range rewards {
		sum += advantages[i]
		total += math.Abs(advantages[i])
		if !math.IsNaN(r) {
			low, high, largest = min(low, r), max(high, r), max(largest, math.Abs(r))
		}
	}
	if !model.IsFinite(total) {
		return 0, 0 // the loss is not finite: the run diverged
	}
	if !(high > low) {
		return total, 0
	}
	if high-low < 0x1p-960 {
		return 0, 0 // near the smallest number, rounding is not relative
	}
	n := float64(len(rewards))
	return math.Abs(sum), 4 * total * (2*n*n*eps*largest/(high-low) + float64(n*eps))
}

// checkLine: the line of metrics reads back unchanged.
func (t *trainer) checkLine(m rundir.Metrics) error {
	line, err := rundir.Marshal(m)
	if err != nil {
		return fmt.Errorf("write metrics of step %d: %w", m.Step, err)
	}
	var back rundir.Metrics
	if err := rundir.Unmarshal(line, &back); err != nil {
		return failed(m.Step, "its line of metrics can't be read back: %v: %s", err, line)
	}
	if err := rundir.CompareMetrics([]rundir.Metrics{m}, []rundir.Metrics{back}); err != nil {
		return failed(m.Step, "its line of metrics reads back as another: %v", err)
	}
	t.passed(1)
	return nil
}

// checkEval: every problem of a split is counted once.
func (t *trainer) checkEval(e rundir.Eval) error {
	if err := e.Check(); err != nil {
		return failed(e.Step, "evaluation of %s: %v", e.Split, err)
	}
	for _, c := range []*rundir.Counts{&e.Sampled, e.Greedy} {
		if c == nil {
			continue
		}
		if c.AnswerReward != float64(c.CorrectNum)/float64(c.N) {
			return failed(e.Step, "evaluation of %s: the reward %v is not %d of %d",
				e.Split, c.AnswerReward, c.CorrectNum, c.N)
		}
		t.passed(1)
	}
	return nil
}
