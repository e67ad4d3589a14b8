package infer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"grpo/internal/jsonkeys"
	"grpo/internal/jsonl"
	"grpo/internal/regular"
	"grpo/pkg/config"
	"grpo/pkg/dataset"
	"grpo/pkg/gsm8k"
)

// RewardTrial is the rewards of some completions, for `grpo reward try`.
type RewardTrial struct {
	Functions   []string          `json:"functions"`
	Weights     []float64         `json:"weights"`
	Completions []TriedCompletion `json:"completions"`
}

// TriedCompletion is a completion with its rewards; null where a function gives none.
type TriedCompletion struct {
	Kind       string         `json:"kind,omitempty"` // of one made from a problem: "right", "truncated"
	Problem    string         `json:"problem"`        // its ID
	Prompt     string         `json:"prompt"`
	Completion string         `json:"completion"`
	Tokens     int            `json:"tokens"`
	Ended      bool           `json:"ended"`
	Rewards    []*float64     `json:"rewards"` // one for each function
	Reward     *float64       `json:"reward"`  // their weighted sum
	Columns    map[string]any `json:"columns,omitempty"`
}

// TryRewards computes the rewards of the completions in a file ("-" = stdin), one JSON object per line with the
// fields of samples.jsonl: completion, and optionally gold, prompt, problem, step and ended (true if
// missing): the first n, or all of them if n is 0. Without a file it makes completions from the
// first n training problems, 2 if n is 0. It reads the tokenizer of the configuration's model, not the weights.
func TryRewards(ctx context.Context, o Options, file string, stdin io.Reader, n int) (*RewardTrial, error) {
	s, err := withProblems(o)
	if err != nil {
		return nil, err
	}
	cfg, answers := s.Config, s.Config.Answers()
	out := &RewardTrial{Functions: cfg.Reward.Functions, Weights: cfg.Reward.RewardWeights}
	var inputs []gsm8k.RewardInput
	var steps []int
	if file == "" {
		for _, x := range madeFrom(s.problems.Train, answers, cmp.Or(n, 2)) {
			inputs = append(inputs, RewardInput(s.model, cfg, s.template, x.problem, x.text, x.ended))
			out.Completions = append(out.Completions, TriedCompletion{Kind: x.kind})
		}
		steps = make([]int, len(inputs))
	} else {
		samples, err := readSamples(file, stdin, n)
		if err != nil {
			return nil, config.Invalid(fmt.Errorf("read completions: %s: %w", file, err))
		}
		for _, x := range samples {
			problem := x.problemIn(s.problems, s.template, answers)
			inputs = append(inputs, RewardInput(s.model, cfg, s.template, problem, *x.Completion, x.Ended == nil || *x.Ended))
			steps = append(steps, x.Step)
		}
		out.Completions = make([]TriedCompletion, len(inputs))
	}
	for i := range inputs { // by place: a completion of a file has none in a rollout
		inputs[i].Noise = gsm8k.RewardNoise(cfg.Seed, steps[i], i, 0)
	}
	o.Progress.Do("opening the reward functions")
	w, err := OpenRewards(ctx, cfg, s.template, s.Threads, o.Note)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	for lo := 0; lo < len(inputs); { // a batch is of one step
		hi := lo + 1
		for hi < len(inputs) && steps[hi] == steps[lo] {
			hi++
		}
		o.Progress.Count("computing rewards", "completion", lo, len(inputs))
		r, err := w.Compute(nil, inputs[lo:hi], 1, steps[lo])
		if err != nil {
			return nil, err
		}
		for i, sum := range r.Rewards {
			in, c := inputs[lo+i], &out.Completions[lo+i]
			c.Problem, c.Prompt, c.Completion = in.Problem.ID, s.template.Render(in.Problem.Question), in.Completion
			c.Tokens, c.Ended, c.Reward = in.Tokens, in.Ended, orNull(sum)
			for _, row := range r.ByFunction {
				c.Rewards = append(c.Rewards, orNull(row[i]))
			}
			if r.Columns != nil {
				c.Columns = r.Columns[i]
			}
		}
		lo = hi
	}
	return out, nil
}

func orNull(x float64) *float64 {
	if math.IsNaN(x) {
		return nil
	}
	return &x
}

// madeCompletion is a completion made from a problem.
type madeCompletion struct {
	kind, text string
	ended      bool
	problem    gsm8k.Problem
}

// madeFrom makes completions of every kind from the first n problems. Without a worked answer there is no right one.
func madeFrom(problems []gsm8k.Problem, a gsm8k.Answers, n int) (out []madeCompletion) {
	for _, p := range problems[:min(n, len(problems))] {
		add := func(kind, text string, ended bool) { out = append(out, madeCompletion{kind, text, ended, p}) }
		right := a.Kind() != gsm8k.KindNone && a.Grade(p.Answer, true, p).Right
		if right {
			add("right", p.Answer, true)
		} else if p.Answer != "" {
			add("solution", p.Answer, true)
		}
		isWrong := func(x gsm8k.Problem) bool {
			return x.Answer != "" && x.Gold != p.Gold && !a.Grade(x.Answer, true, p).Right
		}
		if i := slices.IndexFunc(problems, isWrong); i >= 0 && right {
			add("wrong", problems[i].Answer, true)
		}
		if p.Gold != "" && !a.Grade(p.Gold, true, p).Right {
			add("no format", p.Gold, true)
		}
		if half := []rune(p.Answer); len(half) > 1 {
			add("truncated", string(half[:len(half)/2]), false)
		}
		add("empty", "", true)
	}
	return out
}

// savedSample is the part of a line of samples.jsonl that rewards need.
type savedSample struct {
	Completion *string `json:"completion"`
	Prompt     string  `json:"prompt"`
	Gold       string  `json:"gold"`
	Problem    string  `json:"problem"`
	Step       int     `json:"step"`
	Ended      *bool   `json:"ended"`
}

// problemIn is the sample's problem: the one of its ID, unless the sample has another answer and so is of other data,
// or else one with its prompt and its answer.
func (s savedSample) problemIn(all *dataset.Splits, t gsm8k.Template, a gsm8k.Answers) gsm8k.Problem {
	sets := [][]gsm8k.Problem{all.Train}
	for _, set := range all.Evaluated() {
		sets = append(sets, set.Problems)
	}
	for _, set := range sets {
		if i := slices.IndexFunc(set, func(p gsm8k.Problem) bool {
			return s.Problem != "" && p.ID == s.Problem && (s.Gold == "" || p.Gold == s.Gold)
		}); i >= 0 {
			return set[i]
		}
	}
	question := strings.TrimSuffix(strings.TrimPrefix(s.Prompt, t.Prefix), t.Suffix)
	return gsm8k.Problem{ID: s.Problem, Question: question, Gold: s.Gold, Answer: a.Write(s.Gold)}
}

// maxSamples bounds the completions of a file.
const maxSamples = 1 << 16

// readSamples reads the first n completions of a file, or for "-" of stdin, or all of them if n is 0.
func readSamples(file string, stdin io.Reader, n int) ([]savedSample, error) {
	from := stdin
	if file != "-" {
		f, err := regular.Named(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from = f
	}
	parse := func(text []byte) (s savedSample, err error) {
		if err := cmp.Or(json.Unmarshal(text, &s), jsonkeys.Check(text)); err != nil {
			return s, fmt.Errorf("%w (want one JSON object per line, as in samples.jsonl)", err)
		}
		if s.Completion == nil {
			return s, errors.New(`no "completion" (want the fields of samples.jsonl: completion, ` +
				"and gold, prompt, problem, step or ended)")
		}
		return s, nil
	}
	if n > 0 && n <= maxSamples {
		return jsonl.ReadFirst(from, "completions", n, parse)
	}
	return jsonl.ReadAll(from, "completions", maxSamples, parse)
}
