package infer

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/dataset"
	"grpo/pkg/model"
	"grpo/pkg/policy"
	"grpo/pkg/rundir"
)

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

// load is a configuration of few problems.
func load(path string, set ...string) config.Config {
	return must(config.Load(config.LoadOptions{Path: path, Checkpoint: policy.FindCheckpoint, Set: append([]string{
		"val_size=6", "test_size=2", "unseen_size=2", "train_size=8", "sampling_max_tokens=5"}, set...)})).Config
}

// tinyDecoder has a real checkpoint's kind and chat prompts.
func tinyDecoder(t *testing.T, set ...string) config.Config {
	return load("", append([]string{"model.init=" + decodertest.Folder(t), "prompt_template=chat", "few_shot=1",
		"system_prompt=Solve it."}, set...)...)
}

// An evaluation that is interrupted has the completions that were complete, the same as those of a whole one.
func TestInterruptedEvaluation(t *testing.T) {
	for name, cfg := range map[string]config.Config{
		"decoder": tinyDecoder(t, "eval.max_tokens=60", "val_size=6", "eval.top_k=3", "eval.temperature=2"),
		"TinyLM":  load("smoke", "data.val_size=24"),
	} {
		n := len(must(dataset.Of(config.Resolve(cfg))).Val)
		evaluate := func(stopAt int) *Evaluated {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			out, err := EvaluateCheckpoint(ctx, EvalOptions{Samples: n, Options: Options{Config: cfg, Threads: 2, Note: func(string) {},
				Progress: func(a model.Activity) {
					if stopAt > 0 && a.Tokens >= stopAt {
						cancel()
					}
				}}})
			expect.OK(t, err)
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

// A warning tells how many completions were cut, if they are a tenth or more.
func TestCutWarnings(t *testing.T) {
	e := rundir.Eval{Split: "val", Sampled: rundir.Counts{N: 64, Truncated: 42}, Greedy: &rundir.Counts{N: 64, Truncated: 6}}
	got := CutWarnings(e, 256)
	if len(got) != 1 || !strings.HasPrefix(got[0], "42 of 64 completions of val, sampled, were cut at 256 tokens") {
		t.Errorf("%q", got)
	}
	if got := CutWarnings(rundir.Eval{}, 1); got != nil {
		t.Errorf("without completions: %q", got)
	}
}

// The tokens, ends and spared tokens that a sampler reports add up to all of its work, and the pairs of a file are
// sampled the same; their sampling ends when the command does.
func TestProgressOfSampling(t *testing.T) {
	for name, cfg := range map[string]config.Config{"decoder": tinyDecoder(t), "TinyLM": load("smoke", "data.val_size=24")} {
		var last model.Activity
		out, err := Generate(GenerateOptions{Prompts: []string{"a", "b c d"}, N: 3, Seed: 1,
			Options:  Options{Config: cfg, Threads: 2, Progress: func(a model.Activity) { last = a }},
			Sampling: model.Sampling{Temperature: 1, TopP: 1, MaxTokens: 12}})
		expect.OK(t, err)
		tokens := 0
		for _, g := range out {
			tokens += len(g.Tokens)
		}
		if want := (model.Activity{What: "sampling", Unit: "completion", Done: 6, Of: 6, Tokens: tokens, Part: 1}); last != want {
			t.Errorf("%s: %+v, want %+v", name, last, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cfg := load("smoke", "data.val_size=24")
	_, _, err := MakePairs(ctx, PairOptions{Split: "train", Options: Options{Config: cfg, Note: func(string) {},
		Progress: func(a model.Activity) {
			if a.Tokens > 0 {
				cancel()
			}
		}}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("pairs: %v", err)
	}
}

func TestGenerate(t *testing.T) {
	cfg := tinyDecoder(t)
	generate := func(change func(*GenerateOptions)) []Generated {
		t.Helper()
		o := GenerateOptions{Options: Options{Config: cfg, Threads: 1}, Prompts: []string{"Hello", "<|end|>"}, N: 2, Seed: 1,
			Sampling: model.Sampling{Temperature: 1, TopP: 1, MaxTokens: 6}}
		change(&o)
		out, err := Generate(o)
		if err != nil || len(out) != o.N*len(o.Prompts) || len(out[0].Tokens) == 0 || len(out[0].Tokens) != len(out[0].LogProbs) {
			t.Fatalf("%+v, %v", out, err)
		}
		return out
	}
	chat := generate(func(*GenerateOptions) {})
	if chat[0].Prompt != "Hello" || chat[1].Prompt != "Hello" || chat[2].Prompt != "<|end|>" {
		t.Errorf("%+v", chat)
	}
	// The configuration's system prompt and worked examples are part of the prompt.
	for name, change := range map[string]func(*GenerateOptions){
		"raw":                   func(o *GenerateOptions) { o.Raw = true },
		"another system prompt": func(o *GenerateOptions) { o.System = "Be brief." },
		"no examples":           func(o *GenerateOptions) { o.Config.Data.FewShot = 0 },
		"the default template":  func(o *GenerateOptions) { o.Config.Data = config.Default().Data },
	} {
		if out := generate(change); out[0].LogProbs[0] == chat[0].LogProbs[0] {
			t.Errorf("%s: the prompt is the same", name)
		}
	}
	// A raw prompt that is rendered by hand is the chat's.
	same := generate(func(o *GenerateOptions) {
		o.Raw = true
		tpl, err := must(policy.Of(cfg)).Template(cfg.Data)
		expect.OK(t, err)
		o.Prompts[0] = tpl.Render("Hello")
	})
	if !slices.Equal(same[0].LogProbs, chat[0].LogProbs) {
		t.Errorf("log-probabilities %v, want %v", same[0].LogProbs, chat[0].LogProbs)
	}
	generate(func(o *GenerateOptions) { o.Config = config.Default() })
	for says, change := range map[string]func(*GenerateOptions){
		"context of 512 tokens":       func(o *GenerateOptions) { o.MaxTokens = 512 },
		"encode prompt 1: it has no":  func(o *GenerateOptions) { o.Prompts[0], o.Raw = "", true },
		"a system prompt is for":      func(o *GenerateOptions) { o.System, o.Config = "S", config.Default() },
		"not enough memory: this nee": func(o *GenerateOptions) { o.Memory = func(m budget.Memory) error { return m.Fits(1) } },
	} {
		o := GenerateOptions{Options: Options{Config: cfg, Threads: 1}, Prompts: []string{"Hello"}, N: 1, Sampling: model.Sampling{Greedy: true, TopP: 1, MaxTokens: 6}}
		change(&o)
		expect.Error(t, expect.Err(Generate(o)), says)
	}
}
