package train

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
	"grpo/pkg/policy"
	"grpo/pkg/reward"
	"grpo/pkg/rundir"
)

// rewards are the reward functions of a run, in the order of reward.functions. Each is built in or
// custom; the other one is nil.
type rewards struct {
	names    []string
	builtin  []gsm8k.RewardFunc
	custom   []reward.Function
	template gsm8k.Template
}

// openRewards makes the reward functions of a configuration. The processes of custom ones end with
// ctx, reward models compute on threads, and note gets problems.
func openRewards(ctx context.Context, cfg config.Config, t gsm8k.Template, threads int, note func(string)) (rewards, error) {
	out := rewards{names: cfg.Reward.Functions, template: t}
	for _, name := range cfg.Reward.Functions {
		var builtin gsm8k.RewardFunc
		var custom reward.Function
		var err error
		if i := slices.IndexFunc(cfg.Reward.Custom, func(c config.CustomReward) bool { return c.Name == name }); i >= 0 {
			if c := cfg.Reward.Custom[i]; c.Model != "" {
				custom, err = openLearned(c, threads)
			} else {
				custom, err = reward.Open(ctx, specOfReward(c), note)
			}
			if err != nil {
				out.close()
				return rewards{}, config.Invalid(err)
			}
		} else if builtin, err = gsm8k.NewReward(name, cfg.Reward.RewardParams, t.Opening()); err != nil {
			out.close()
			return rewards{}, fmt.Errorf("reward.functions: %w", err)
		}
		out.builtin, out.custom = append(out.builtin, builtin), append(out.custom, custom)
	}
	return out, nil
}

func specOfReward(c config.CustomReward) reward.Spec {
	return reward.Spec{
		Name: c.Name, Command: c.Command, Pattern: c.Pattern, Expr: c.Expr, NullOnError: c.OnError == "null",
		Timeout: time.Duration(c.Timeout * float64(time.Second)), Workers: c.Workers, Restarts: c.Restarts,
	}
}

// compute returns the rewards of N completions, adjacent in groups, as one row for each function,
// (F,N), and what custom functions log about each completion, (N); nil if nothing.
func (w *rewards) compute(pool *kernel.Pool, inputs []gsm8k.RewardInput, groupSize, step int) (
	byFunction [][]float64, columns []map[string]any, err error) {
	byFunction = make([][]float64, len(w.names))
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
			return nil, nil, err
		}
		byFunction[f] = scores.Rewards
		for name, values := range scores.Columns {
			if columns == nil {
				columns = make([]map[string]any, len(inputs))
			}
			for i, v := range values {
				if v == nil {
					continue
				}
				if columns[i] == nil {
					columns[i] = map[string]any{}
				}
				columns[i][w.names[f]+"."+name] = v
			}
		}
	}
	return byFunction, columns, nil
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

// rewardInput decodes a completion and grades it into verdict.
func rewardInput(tok model.Tokenizer, c config.Config, x model.Completion, p gsm8k.Problem, verdict *gsm8k.Verdict,
	noise float64) gsm8k.RewardInput {
	text := tok.Decode(x.Tokens)
	*verdict = gsm8k.Grade(text, x.Ended, p.Gold)
	return gsm8k.RewardInput{
		Completion: text, TokenIDs: x.Tokens, Tokens: len(x.Tokens), MaxTokens: c.Rollout.SamplingMaxTokens,
		Ended: x.Ended, Problem: p, Verdict: verdict, Noise: noise,
	}
}

// describe is what custom functions know about completions.
func (w *rewards) describe(inputs []gsm8k.RewardInput) []reward.Completion {
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

func (w *rewards) close() {
	for _, f := range w.custom {
		if f != nil {
			f.Close()
		}
	}
}

// tryRewards calls the custom functions with the worked answer of the first problem, before
// anything is written: a script with a mistake should not leave a folder.
func (t *trainer) tryRewards() error {
	if len(t.cfg.Reward.Custom) == 0 {
		return nil
	}
	in := inputOf(t.model, t.cfg, t.data.problems.Train[0], t.data.problems.Train[0].Answer, true)
	_, _, err := t.rewards.compute(t.Pool, []gsm8k.RewardInput{in}, 1, 0)
	if errors.Is(err, context.Canceled) {
		return ErrNothingSaved
	}
	return err
}

// inputOf is the input of reward functions for a text that was not sampled.
func inputOf(m *policy.Model, cfg config.Config, p gsm8k.Problem, text string, ended bool) gsm8k.RewardInput {
	ids := m.Tokenizer.Encode(text)
	if end := m.Special(cfg.Data).Answer; ended && end != nil {
		ids = append(ids, end.ID)
	}
	v := gsm8k.Grade(text, ended, p.Gold)
	return gsm8k.RewardInput{
		Completion: text, TokenIDs: ids, Tokens: len(ids), MaxTokens: cfg.Rollout.SamplingMaxTokens,
		Ended: ended, Problem: p, Verdict: &v,
	}
}

// columnStats are the mean and the standard deviation of the numbers in columns.
func columnStats(columns []map[string]any) map[string]rundir.Stat {
	numbers := map[string][]float64{}
	for _, c := range columns {
		for name, v := range c {
			if x, ok := v.(float64); ok {
				numbers[name] = append(numbers[name], x)
			}
		}
	}
	var out map[string]rundir.Stat
	for name, x := range numbers {
		if out == nil {
			out = map[string]rundir.Stat{}
		}
		out[name] = describe(x)
	}
	return out
}

// rewardFiles returns the SHA-256 of the files that the commands of a configuration name and of its
// reward models; nil if there are none.
func rewardFiles(r config.Reward) (map[string]string, error) {
	var out map[string]string
	for _, c := range r.Custom {
		files, err := reward.HashFiles(c.Command)
		if c.Model != "" {
			files, err = policy.HashRewardModel(c.Model)
		}
		if err != nil {
			return nil, config.Invalid(err)
		}
		if out == nil && len(files) > 0 {
			out = map[string]string{}
		}
		maps.Copy(out, files)
	}
	return out, nil
}

// hashFields is the SHA-256 of the other fields of problems; "" if they have none.
func hashFields(problems []gsm8k.Problem) string {
	h, some := sha256.New(), false
	for _, p := range problems {
		fmt.Fprintln(h, p.Fields) // a line of JSON
		some = some || p.Fields != ""
	}
	if !some {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}

// differentFiles describes the files of reward functions that have changed.
func differentFiles(then, now map[string]string) (out []string) {
	all := map[string]string{}
	maps.Copy(all, then)
	maps.Copy(all, now)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		switch {
		case then[path] == now[path]:
		case now[path] == "":
			out = append(out, path+", a file of a reward function, which is not there")
		case then[path] == "":
			out = append(out, path+", a file of a reward function, which was not there")
		default:
			out = append(out, path+", a file of a reward function")
		}
	}
	return out
}

// SameRewards returns an error unless the files of reward functions, which commands name or reward models
// consist of, are those that a finished run was made with. One that is not there any more can't be compared.
func SameRewards(cfg config.Config, meta *rundir.Meta) error {
	if len(cfg.Reward.Custom) == 0 || meta == nil {
		return nil
	}
	now, err := rewardFiles(cfg.Reward)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	then := maps.Clone(meta.RewardFiles)
	maps.DeleteFunc(then, func(path, _ string) bool { return now[path] == "" })
	if changed := differentFiles(then, now); len(changed) > 0 {
		return madeWithOther(changed[:1])
	}
	return nil
}
