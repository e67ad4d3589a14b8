package infer

import (
	"context"
	"errors"
	"fmt"

	"grpo/internal/textutil"
	"grpo/pkg/dataset"
	"grpo/pkg/gsm8k"
	"grpo/pkg/rundir"
)

// EvalOptions say what [EvaluateCheckpoint] evaluates: the initial weights of the configuration (model.init), by its
// section eval.
type EvalOptions struct {
	Options
	Split   string // empty: all sets of eval.sets
	Samples int    // completions to return, per set and decoding
}

// Evaluated are the results of [EvaluateCheckpoint].
type Evaluated struct {
	Evals   []rundir.Eval
	Samples []EvalSample
	// Partial: the evaluation was interrupted. The counts are of the completions that were complete.
	Partial bool
	// Warnings limit what the counts mean, a line each.
	Warnings []string
}

// EvalSample is a completion of an evaluation.
type EvalSample struct {
	rundir.Sample
	Question string `json:"question"` // without the prompt's template
	// Outcome is "right", or why the answer counts as wrong: "cut" at the limit of tokens, "format" for a completion
	// without a final answer of the expected form, "answer" for another answer than gold.
	Outcome string `json:"outcome"`
}

// EvaluateCheckpoint evaluates a checkpoint. When ctx ends after the first tokens, the results are partial, and the
// error is nil.
func EvaluateCheckpoint(ctx context.Context, o EvalOptions) (*Evaluated, error) {
	s, err := withProblems(o.Options)
	if err != nil {
		return nil, err
	}
	defer s.close()
	cfg, sets := s.Config, s.problems.Configured()
	if o.Split != "" {
		chosen, err := s.problems.Split(o.Split)
		if err != nil {
			return nil, err
		}
		sets = []dataset.Set{{Name: o.Split, Problems: chosen}}
	}
	if err := s.model.CheckEnd(); err != nil {
		return nil, err
	}
	var batches [][]gsm8k.Problem
	for _, set := range sets {
		if err := CheckContext(s.model, s.template, evalSet(cfg, set)); err != nil {
			return nil, err
		}
		batches = append(batches, set.Problems)
	}
	if err := s.open(cfg.Seed, cfg.Eval.MaxTokens, cfg.Eval.Greedy, batches...); err != nil {
		return nil, err
	}
	judge, err := OpenJudge(ctx, cfg, s.template, s.Threads, o.Note)
	if err != nil {
		return nil, err
	}
	defer judge.Close()
	out := &Evaluated{Warnings: []string{}}
	for _, set := range sets {
		right, samples := set.Name == rundir.SplitVal || set.Name == rundir.SplitTest, cfg.Eval.Samples
		if right {
			samples = cfg.Eval.LastSamples()
		}
		e := EvaluationOf(cfg, s.template, samples)
		e.Right, e.Samples, e.Finite, e.Progress, e.Stop = right, o.Samples, true, o.Progress, ctx.Err
		e.Judge = judge
		eval, kept, err := Evaluate(s.Policy, s.sampler, e, set.Name, set.Problems, 0)
		out.Partial = err != nil && errors.Is(err, ctx.Err())
		if err != nil && !out.Partial {
			return nil, err
		}
		out.Evals, out.Samples = append(out.Evals, eval), append(out.Samples, kept...)
		out.Warnings = append(out.Warnings, CutWarnings(eval, cfg.Eval.MaxTokens)...)
		if out.Partial {
			out.Warnings = append(out.Warnings, interruptedAt(eval, len(set.Problems)*e.Group, len(sets)-len(out.Evals)))
			break
		}
	}
	return out, nil
}

// interruptedAt says how much of an evaluation of n completions was done, and how many sets were left.
func interruptedAt(e rundir.Eval, n, left int) string {
	unit := "problem"
	if e.Samples > 1 {
		unit = "completion"
	}
	done := fmt.Sprintf("partial: interrupted when %d of %s of %s were sampled",
		e.Sampled.N, textutil.Count(n, unit), e.Split)
	if e.Greedy != nil {
		done += fmt.Sprintf(" and %d decoded greedily", e.Greedy.N)
	}
	if left > 0 {
		done += fmt.Sprintf("; %s not evaluated", textutil.Count(left, "more set"))
	}
	return done + "; unfinished completions are not counted, so long ones are missing"
}
