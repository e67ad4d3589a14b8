package train

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/rundir"
)

// evaluateCheckpoint is [EvaluateCheckpoint] without notes.
func evaluateCheckpoint(cfg config.Config, split string, n, threads int, check budget.MemoryCheck) ([]rundir.Eval, []EvalSample, error) {
	out, err := EvaluateCheckpoint(context.Background(), EvalOptions{Config: cfg, Split: split, Samples: n, Threads: threads,
		Note: func(string) {}, Memory: check})
	if err != nil {
		return nil, nil, err
	}
	return out.Evals, out.Samples, nil
}

// An evaluation that is interrupted has the completions that were complete, the same as those of a whole one.
func TestInterruptedEvaluation(t *testing.T) {
	for name, cfg := range map[string]config.Config{
		"decoder": tinyDecoder(t, "eval.max_tokens=60", "val_size=6", "eval.top_k=3", "eval.temperature=2"),
		"TinyLM":  small(),
	} {
		n := len(mustProblems(t, cfg).Val)
		evaluate := func(stopAt int) *Evaluated {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			out, err := EvaluateCheckpoint(ctx, EvalOptions{Config: cfg, Samples: n, Threads: 2, Note: func(string) {},
				Progress: func(a model.Activity) {
					if stopAt > 0 && a.Tokens >= stopAt {
						cancel()
					}
				}})
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		whole := evaluate(0)
		if whole.Partial || whole.Evals[0].Sampled.N != n || whole.Evals[0].Greedy.N != n || len(whole.Evals) != 2 {
			t.Fatalf("%s: %+v", name, whole)
		}
		for _, stopAt := range []int{1, 40, 200} {
			part := evaluate(stopAt)
			e := part.Evals[0]
			if !part.Partial || len(part.Evals) != 1 || len(part.Samples) < e.Sampled.N ||
				!strings.HasPrefix(part.Warnings[len(part.Warnings)-1], "partial: ") {
				t.Errorf("%s, stopped at %d tokens: %+v", name, stopAt, part)
			}
			for _, s := range part.Samples {
				if !slices.ContainsFunc(whole.Samples, func(w EvalSample) bool { return reflect.DeepEqual(w, s) }) {
					t.Errorf("%s, stopped at %d tokens: the whole evaluation has no %+v", name, stopAt, s)
				}
			}
			if name == "decoder" && (e.Sampled.N == n && e.Greedy.N == n || stopAt == 1 && e.Sampled.N != 0) {
				t.Errorf("stopped at %d tokens: %d and %d of %d", stopAt, e.Sampled.N, e.Greedy.N, n)
			}
		}
	}
}

func mustProblems(t *testing.T, cfg config.Config) *Problems {
	t.Helper()
	p, err := ProblemsOf(config.Resolve(cfg))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A warning tells how many completions were cut, if they are a tenth or more.
func TestCutWarnings(t *testing.T) {
	e := rundir.Eval{Split: "val", Sampled: rundir.Counts{N: 64, Truncated: 42}, Greedy: &rundir.Counts{N: 64, Truncated: 6}}
	got := cutWarnings(e, 256)
	if len(got) != 1 || !strings.HasPrefix(got[0], "42 of 64 completions of val, sampled, were cut at 256 tokens") {
		t.Errorf("%q", got)
	}
	if got := cutWarnings(rundir.Eval{}, 1); got != nil {
		t.Errorf("without completions: %q", got)
	}
}

// Everything of a run that may take long is reported, with consistent counts.
func TestProgressOfRun(t *testing.T) {
	for name, c := range map[string]struct {
		set, want []string
	}{
		"grpo": {[]string{"train.gradient_accumulation_steps=2", "beta=0.1"},
			[]string{"opening model", "evaluating val", "sampling", "scoring the rollout under the reference model", "update", "writing a checkpoint"}},
		"dpo": {[]string{"algorithm.type=dpo", "train.n_grpo_steps=1"},
			[]string{"sampling", "scoring the pairs under the reference model", "update"}},
	} {
		seen := map[string]bool{}
		o := options(t.TempDir(), &watch{}, 1)
		o.Progress = func(a model.Activity) {
			for _, want := range c.want {
				if strings.HasPrefix(a.What, want) {
					seen[want] = true
				}
			}
			if a.Done > a.Of || a.Part < 0 || a.Part > 1 || a.Of > 0 && a.Unit == "" {
				t.Errorf("%s: %+v", name, a)
			}
		}
		if _, err := Run(t.Context(), tinyDecoder(t, c.set...), o); err != nil {
			t.Fatal(err)
		}
		if len(seen) != len(c.want) {
			t.Errorf("%s: only %v of %q", name, seen, c.want)
		}
	}
}

// The tokens, ends and spared tokens that a sampler reports add up to all of its work, and the pairs of a file are
// sampled the same; their sampling ends when the command does.
func TestProgressOfSampling(t *testing.T) {
	for name, cfg := range map[string]config.Config{"decoder": tinyDecoder(t), "TinyLM": small()} {
		var last model.Activity
		out, err := Generate(GenerateOptions{Config: cfg, Prompts: []string{"a", "b c d"}, N: 3, Seed: 1, Threads: 2,
			Sampling: model.Sampling{Temperature: 1, TopP: 1, MaxTokens: 12}, Progress: func(a model.Activity) { last = a }})
		if err != nil {
			t.Fatal(err)
		}
		tokens := 0
		for _, g := range out {
			tokens += len(g.Tokens)
		}
		if want := (model.Activity{What: "sampling", Unit: "completion", Done: 6, Of: 6, Tokens: tokens, Part: 1}); last != want {
			t.Errorf("%s: %+v, want %+v", name, last, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cfg := small()
	_, _, err := MakePairs(ctx, PairOptions{Config: cfg, Split: "train", Note: func(string) {},
		Progress: func(a model.Activity) {
			if a.Tokens > 0 {
				cancel()
			}
		}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("pairs: %v", err)
	}
}
