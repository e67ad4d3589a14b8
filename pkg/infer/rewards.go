package infer

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
	"grpo/pkg/policy"
	"grpo/pkg/reward"
	"grpo/pkg/rl"
)

// Rewards are the reward functions of a configuration, in the order of reward.functions. Each is built in or
// custom; the other one is nil.
type Rewards struct {
	names    []string
	builtin  []gsm8k.RewardFunc
	custom   []reward.Function
	weights  []float64
	template gsm8k.Template
	answers  gsm8k.Answers
	limit    int    // of completions, in tokens
	seed     uint64 // of the random reward and of noise
	noise    rl.VerifierNoise
	verifier gsm8k.RewardFunc // without errors; nil without noise
}

// OpenRewards makes the reward functions of a configuration. The processes of custom ones end with
// ctx, reward models compute on threads, and note gets problems.
func OpenRewards(ctx context.Context, cfg config.Config, t gsm8k.Template, threads int, note func(string)) (
	*Rewards, error) {
	out := &Rewards{names: cfg.Reward.Functions, weights: cfg.Reward.RewardWeights, template: t, answers: cfg.Answers(),
		limit: cfg.Rollout.SamplingMaxTokens, seed: cfg.Seed, noise: cfg.Reward.Noise}
	if out.noise.On() {
		var err error
		if out.verifier, err = gsm8k.NewReward(cfg.Reward.Verifiers()[0], gsm8k.RewardParams{}, t.Opening()); err != nil {
			return nil, fmt.Errorf("reward.noise: %w", err)
		}
	}
	for _, name := range cfg.Reward.Functions {
		var builtin gsm8k.RewardFunc
		var custom reward.Function
		var err error
		if i := slices.IndexFunc(cfg.Reward.Custom, func(c config.CustomReward) bool { return c.Name == name }); i >= 0 {
			if c := cfg.Reward.Custom[i]; c.Model != "" {
				custom, err = OpenLearned(c, threads)
			} else {
				custom, err = reward.Open(ctx, specOfReward(c), note)
			}
			if err != nil {
				out.Close()
				return nil, config.Invalid(err)
			}
		} else if builtin, err = gsm8k.NewReward(name, cfg.Reward.RewardParams, t.Opening()); err != nil {
			out.Close()
			return nil, fmt.Errorf("reward.functions: %w", err)
		}
		out.builtin, out.custom = append(out.builtin, builtin), append(out.custom, custom)
	}
	return out, nil
}

func specOfReward(c config.CustomReward) reward.Spec {
	return reward.Spec{
		Name: c.Name, Command: c.Command, Pattern: c.Pattern, Expr: c.Expr, NullOnError: c.OnError == "null",
		Timeout: time.Duration(c.Timeout * float64(time.Second)), Workers: c.Workers, Restarts: c.Restarts, Reuse: c.Reuse,
	}
}

// Rewarded are the rewards of N completions, in groups.
type Rewarded struct {
	ByFunction [][]float64      // (F,N), one row for each function
	Rewards    []float64        // (N), the weighted sums
	Columns    []map[string]any // (N), what custom functions log about each completion; nil if nothing
	Verdicts   Verdicts
}

// Verdicts are the rewards of the verifier before and after reward.noise, (N): 1 right, 0 wrong, NaN neither; nil
// without noise.
type Verdicts struct{ True, Noisy []float64 }

// Append adds verdicts lo to hi-1 of others.
func (v *Verdicts) Append(o Verdicts, lo, hi int) {
	if o.True != nil {
		v.True, v.Noisy = append(v.True, o.True[lo:hi]...), append(v.Noisy, o.Noisy[lo:hi]...)
	}
}

// Score decodes and grades the completions of problems, which are adjacent in groups, and computes their rewards. The
// random reward and the verifier's errors are those of the step and of prompt and sample number, from the given ones on.
func (w *Rewards) Score(pool *kernel.Pool, tok model.Tokenizer, completions []model.Completion,
	problems []gsm8k.Problem, step, prompt, sample int) ([]gsm8k.RewardInput, Rewarded, error) {
	inputs, size := make([]gsm8k.RewardInput, len(completions)), len(completions)/max(1, len(problems))
	forEach(pool, len(inputs), func(i int) {
		x, p := completions[i], problems[i/size]
		inputs[i] = graded(w.answers, p, tok.Decode(x.Tokens), x.Tokens, x.Ended, w.limit)
		inputs[i].Noise = gsm8k.RewardNoise(w.seed, step, prompt+i/size, sample+i%size)
		if w.noise.On() {
			inputs[i].VerdictDraw = gsm8k.VerdictDraw(w.seed, step, prompt+i/size, sample+i%size)
		}
	})
	out, err := w.Compute(pool, inputs, size, step)
	if err == nil && w.noise.On() {
		out.Verdicts = w.verdicts(pool, inputs)
	}
	return inputs, out, err
}

// verdicts are the verifier's, with and without errors.
func (w *Rewards) verdicts(pool *kernel.Pool, inputs []gsm8k.RewardInput) Verdicts {
	v := Verdicts{make([]float64, len(inputs)), make([]float64, len(inputs))}
	forEach(pool, len(inputs), func(i int) {
		r := w.verifier(inputs[i])
		v.True[i], v.Noisy[i] = r, r
		if w.noise.Verdict(r == 1, inputs[i].VerdictDraw) != (r == 1) && !math.IsNaN(r) {
			v.Noisy[i] = 1 - r
		}
	})
	return v
}

// Compute returns the rewards of completions, adjacent in groups.
func (w *Rewards) Compute(pool *kernel.Pool, inputs []gsm8k.RewardInput, groupSize, step int) (
	out Rewarded, err error) {
	byFunction := make([][]float64, len(w.names))
	for f := range byFunction {
		byFunction[f] = make([]float64, len(inputs))
	}
	forEach(pool, len(inputs), func(i int) {
		for f, reward := range w.builtin {
			if reward != nil {
				byFunction[f][i] = reward(inputs[i])
			}
		}
	})
	batch := reward.Batch{Step: step, GroupSize: groupSize}
	for f, custom := range w.custom {
		if custom == nil || len(inputs) == 0 {
			continue
		}
		if batch.Completions == nil {
			batch.MaxTokens, batch.Completions = inputs[0].MaxTokens, w.describe(inputs)
		}
		scores, err := custom.Score(batch)
		if err != nil {
			return out, err
		}
		byFunction[f] = scores.Rewards
		for name, values := range scores.Columns {
			if out.Columns == nil {
				out.Columns = make([]map[string]any, len(inputs))
			}
			for i, v := range values {
				if v == nil {
					continue
				}
				if out.Columns[i] == nil {
					out.Columns[i] = map[string]any{}
				}
				out.Columns[i][w.names[f]+"."+name] = v
			}
		}
	}
	out.ByFunction = byFunction
	if out.Rewards, err = rl.CombineRewards(byFunction, w.weights); err != nil {
		return out, fmt.Errorf("reward step %d: %w", step, err)
	}
	return out, nil
}

// forEach calls f for each of n completions, on any worker: f is a function of one completion.
func forEach(pool *kernel.Pool, n int, f func(i int)) {
	const chunk = 64
	pool.Run((n+chunk-1)/chunk, func(task, _ int) {
		for i := task * chunk; i < min(n, (task+1)*chunk); i++ {
			f(i)
		}
	})
}

// describe is what custom functions know about completions.
func (w *Rewards) describe(inputs []gsm8k.RewardInput) []reward.Completion {
	out := make([]reward.Completion, len(inputs))
	for i, in := range inputs {
		p := in.Problem
		out[i] = reward.Completion{
			Prompt: w.template.Render(p.Question), Completion: in.Completion, Tokens: in.TokenIDs, Ended: in.Ended,
			Answer: p.Gold, Right: in.Verdict.Right, Formatted: in.Verdict.Formatted,
			Problem: reward.Problem{ID: p.ID, Question: p.Question, Solution: p.Answer, Type: p.Type, Fact: p.Fact,
				Fields: json.RawMessage(p.Fields)},
		}
	}
	return out
}

// Close ends the processes of custom functions and frees the reward models.
func (w *Rewards) Close() {
	for _, f := range w.custom {
		if f != nil {
			f.Close()
		}
	}
}

// RolloutSampling is the sampler's settings for rollouts.
func RolloutSampling(c config.Rollout, t gsm8k.Template, tok model.Tokenizer) model.Sampling {
	return model.Sampling{Temperature: c.SamplingTemperature, TopP: c.SamplingTopP, TopK: c.SamplingTopK,
		MinTokens: c.SamplingMinTokens, MaxTokens: c.SamplingMaxTokens, Restricted: c.LogProbs == "sampled",
		Stop: model.NewStop(t.Stop, tok.Decode)}
}

// RewardInput is the input of reward functions for a text that was not sampled: a completion of the prompt that t makes
// of a problem.
func RewardInput(m *policy.Model, cfg config.Config, t gsm8k.Template, p gsm8k.Problem, text string,
	ended bool) gsm8k.RewardInput {
	prompt := policy.EncodePrompts(m.Tokenizer, t, []gsm8k.Problem{p})[0]
	ids := m.Tokenizer.EncodeAfter(prompt, text, "")
	if end := m.Special(cfg.Data).Answer; ended && end != nil {
		ids = append(ids, end.ID)
	}
	return graded(cfg.Answers(), p, text, ids, ended, cfg.Rollout.SamplingMaxTokens)
}

// graded is the input of reward functions for a completion with these tokens, of at most limit.
func graded(a gsm8k.Answers, p gsm8k.Problem, text string, ids []int, ended bool, limit int) gsm8k.RewardInput {
	v := a.Grade(text, ended, p)
	return gsm8k.RewardInput{Completion: text, TokenIDs: ids, Tokens: len(ids), MaxTokens: limit, Ended: ended, Problem: p,
		Answers: a, Verdict: &v}
}
