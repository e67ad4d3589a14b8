package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"

	"grpo/internal/textutil"
	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/policy"
	"grpo/pkg/rundir"
)

// EvalOptions say what [EvaluateCheckpoint] evaluates.
type EvalOptions struct {
	Config   config.Config      // its initial weights (model.init) and its section eval
	Split    string             // empty: all sets of eval.sets
	Samples  int                // completions to return, per set and decoding
	Threads  int                // of the CPU; 0 = GOMAXPROCS
	Note     func(string)       // gets notes about the problems
	Memory   budget.MemoryCheck // nil = no check
	Progress model.Progress
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
	cfg := config.Resolve(o.Config)
	problems, err := ProblemsOf(cfg)
	if err != nil {
		return nil, err
	}
	sets, largest := problems.configured(), 0
	if o.Split != "" {
		chosen, err := problems.Split(o.Split)
		if err != nil {
			return nil, err
		}
		sets = []Set{{o.Split, chosen}}
	}
	for _, cut := range problems.Cut {
		o.Note(cut)
	}
	m, err := policy.Of(cfg)
	if err != nil {
		return nil, err
	}
	template, err := m.Template(cfg.Data)
	if err != nil {
		return nil, err
	}
	if err := m.CheckEnd(); err != nil {
		return nil, err
	}
	threads := cmp.Or(o.Threads, runtime.GOMAXPROCS(0))
	for _, s := range sets {
		largest = max(largest, len(s.Problems))
		if err := (promptSplit{s, cfg.Eval.MaxTokens, "eval.max_tokens"}).fits(m, template); err != nil {
			return nil, err
		}
		if err := o.Memory.Pass(budget.Evaluation(m, cfg, template, s.Problems, threads)); err != nil {
			return nil, err
		}
	}
	net, err := m.Open(cfg.Seed, threads, evaluationWork(m, cfg, largest), o.Progress)
	defer net.Close()
	if err != nil {
		return nil, err
	}
	sampler := net.Policy.NewSampler()
	defer sampler.Close()
	e := evaluationOf(cfg, template)
	e.Samples, e.Finite, e.Progress, e.Stop = o.Samples, true, o.Progress, ctx.Err
	out := &Evaluated{Warnings: []string{}}
	for _, s := range sets {
		eval, kept, err := Evaluate(net.Policy, sampler, e, s.Name, s.Problems, 0)
		out.Partial = err != nil && errors.Is(err, ctx.Err())
		if err != nil && !out.Partial {
			return nil, err
		}
		out.Evals, out.Samples = append(out.Evals, eval), append(out.Samples, kept...)
		out.Warnings = append(out.Warnings, cutWarnings(eval, cfg.Eval.MaxTokens)...)
		if out.Partial {
			out.Warnings = append(out.Warnings, interruptedAt(eval, len(s.Problems), len(sets)-len(out.Evals)))
			break
		}
	}
	return out, nil
}

// interruptedAt says how much of an evaluation of a set of n problems was done, and how many sets were left.
func interruptedAt(e rundir.Eval, n, left int) string {
	done := fmt.Sprintf("partial: interrupted when %d of %s of %s were sampled",
		e.Sampled.N, textutil.Count(n, "problem"), e.Split)
	if e.Greedy != nil {
		done += fmt.Sprintf(" and %d decoded greedily", e.Greedy.N)
	}
	if left > 0 {
		done += fmt.Sprintf("; %s not evaluated", textutil.Count(left, "more set"))
	}
	return done + "; unfinished completions are not counted, so long ones are missing"
}

// evaluationWork estimates the operations of an evaluation before the policy is made.
func evaluationWork(m *policy.Model, c config.Config, problems int) float64 {
	tokens := c.Eval.MaxTokens/2 + 1
	return m.Size.Forward(2*problems*tokens, problems*tokens).Nominal
}
