package train

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model/tinylm"
	"grpo/pkg/policy"
)

// memoryOf estimates a configuration over its problems.
func memoryOf(t testing.TB, cfg config.Config) Memory {
	t.Helper()
	cfg = config.Resolve(cfg)
	p, err := LoadProblems(cfg.Data)
	if err != nil {
		t.Fatal(err)
	}
	m, err := MemoryOf(modelOf(t, cfg.Model, cfg.Train.LoRA), cfg, p, 1)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestMemoryOfARun compares the estimate with the allocations of a run of one step. With
// completions of a fixed length less than a third of that is garbage.
func TestMemoryOfARun(t *testing.T) {
	long(t)
	fixed := []string{"n_grpo_steps=1", "sampling_min_tokens=48", "sampling_max_tokens=48", "data.val_size=16", "data.test_size=0", "data.unseen_size=0", "eval.greedy=false"}
	for name, set := range map[string][]string{
		"plain":        {"rollout_batch_size=256"},
		"accumulation": {"rollout_batch_size=512", "gradient_accumulation_steps=4"},
		"ppo":          {"rollout_batch_size=256", "algorithm.type=ppo", "loss_type=grpo_clip", "beta=0.01", "kl_in=reward"},
		"dpo":          {"rollout_batch_size=256", "algorithm.type=dpo", "reward.functions=random", "use_weighting=true", "resample_every_n_steps=0"},
		"wide":         {"rollout_batch_size=96", "model.init=random", "hidden_size=256", "num_layers=3"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := small(slices.Concat(fixed, set)...)
			// The program itself is not allocated here.
			want := memoryOf(t, cfg).Total() - 34<<20
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			mustRun(t, cfg, filepath.Join(t.TempDir(), "run"), 1)
			runtime.ReadMemStats(&after)
			got := float64(after.TotalAlloc - before.TotalAlloc)
			if ratio := want / got; ratio < 0.7 || ratio > 1.25 {
				t.Errorf("estimate %s, allocated %s: ratio %.2f", Bytes(want), Bytes(got), ratio)
			}
		})
	}
}

// The estimate never overflows, and grows with each setting.
func TestMemoryOfHugeSettings(t *testing.T) {
	long(t)
	huge := small("model.init=random", "hidden_size=4096", "num_layers=16", "rollout_batch_size=1048576", "group_size=1024",
		"sampling_max_tokens=65536", "beta=0.1", "algorithm.type=ppo", "loss_type=grpo_clip", "kl_in=reward")
	huge.Model.HiddenSize, huge.Rollout.RolloutBatchSize = math.MaxInt32, math.MaxInt32/1024*1024
	m := memoryOf(t, huge)
	for _, p := range m.Parts {
		if !(p.Bytes >= 0) || math.IsInf(p.Bytes, 0) {
			t.Errorf("%s: %v bytes", p.What, p.Bytes)
		}
	}
	if m.Total() < 1e20 {
		t.Errorf("%v bytes", m.Total())
	}
	least := memoryOf(t, small()).Total()
	for _, set := range []string{"rollout_batch_size=96", "sampling_max_tokens=128", "data.val_size=1024", "beta=0.1", "keep_checkpoints=2"} {
		if more := memoryOf(t, small(set, "loss_type=grpo_clip")).Total(); more < least {
			t.Errorf("%s: %v bytes, below the %v without", set, more, least)
		}
	}
	if accumulated := memoryOf(t, small("gradient_accumulation_steps=6")).Total(); accumulated >= least {
		t.Errorf("accumulation: %v bytes, not below %v", accumulated, least)
	}
}

func TestMemoryFits(t *testing.T) {
	m := Memory{Parts: []MemoryPart{{"small things", 1 << 20, "do not care"}, {"weights", 100 << 20, "lower hidden_size"}, {"activations", 3 << 30, "lower the batch"}}}
	for _, available := range []int64{0, -1, 3<<30 + 101<<20, math.MaxInt64} {
		if err := m.Fits(available); err != nil {
			t.Errorf("%d bytes: %v", available, err)
		}
	}
	err := m.Fits(3 << 30)
	if !errors.Is(err, config.ErrConfig) {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{"this needs up to 3.1 GiB, and 3.0 GiB are available", "3.0 GiB for activations (lower the batch)", "GRPO_MEMORY=off"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "small things") {
		t.Errorf("%q names what does not matter", err)
	}
}

// have is a check on a machine with this much available memory.
func have(available int64) MemoryCheck {
	return func(m Memory) error { return m.Fits(available) }
}

// A run without enough memory writes no file; a finished one is shown anyway.
func TestRunWithoutMemory(t *testing.T) {
	cfg := mini(t)
	opts := options(filepath.Join(t.TempDir(), "run"), &watch{}, 1)
	opts.Memory = have(1 << 20)
	if _, err := Run(context.Background(), cfg, opts); !errors.Is(err, config.ErrConfig) || !strings.Contains(err.Error(), "not enough memory") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(opts.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder: %v", err)
	}
	opts.Memory = have(1 << 30)
	if _, err := Run(context.Background(), cfg, opts); err != nil {
		t.Fatal(err)
	}
	opts.Memory = have(1 << 20)
	if res, err := Run(context.Background(), cfg, opts); err != nil || res == nil {
		t.Errorf("a finished run: %v, %v", res, err)
	}
}

// One long question is named with its file and line, but only if it is the cause.
func TestMemoryNamesLongPrompts(t *testing.T) {
	long(t)
	cfg := mini(t)
	f, err := os.OpenFile(cfg.Data.TrainFile, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"question": "` + strings.Repeat("word ", 200_000) + `?", "answer": "3\n#### 3"}` + "\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	m := memoryOf(t, cfg)
	if err := m.Fits(100 << 20); err == nil || !strings.Contains(err.Error(), cfg.Data.TrainFile+": line 5, which has 10000") {
		t.Errorf("error %v", err)
	}
	if err := m.Fits(10 << 20); err == nil || strings.Contains(err.Error(), "line 5") {
		t.Errorf("without the long prompt it would not fit either: %v", err)
	}
	if err := m.Fits(1 << 30); err != nil {
		t.Error(err)
	}
}

// The other commands check memory too.
func TestOthersAskForMemory(t *testing.T) {
	no := errors.New("no memory")
	var asked Memory
	check := func(m Memory) error { asked = m; return no }
	if _, _, err := evaluateCheckpoint(small(), "val", 0, 1, check); !errors.Is(err, no) || asked.Total() < 32<<20 {
		t.Errorf("eval: %v", err)
	}
	if _, err := Bench(context.Background(), BenchOptions{Prompts: 2, Group: 2, PromptLen: 30, ResponseLen: 4, Hidden: 8, Layers: 1, Steps: 1, Threads: 1, Now: time.Now, Memory: check}); !errors.Is(err, no) {
		t.Errorf("bench: %v", err)
	}
	r, err := config.LoadSFT(config.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	before := asked.Total()
	dir := filepath.Join(t.TempDir(), "sft")
	if _, err := RunSFT(context.Background(), r.Config, SFTOptions{Dir: dir, Threads: 1, Memory: check}); !errors.Is(err, no) || asked.Total() <= before {
		t.Errorf("sft: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder: %v", err)
	}
}

// Early stopping adds a copy of the trained parameters, the validation examples, and the scorer of
// their loss, which a decoder has in the memory of a pass.
func TestMemoryOfEarlyStopping(t *testing.T) {
	long(t)
	tiny, err := config.LoadSFT(config.LoadOptions{Set: []string{"data.val_size=4", "eval_size=4"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]config.SFT{"tinylm": config.Resolve(tiny.Config), "decoder": config.Resolve(decoderSFT(t)),
		"lora": config.Resolve(decoderSFT(t, "lora.rank=2"))} {
		s := &sft{cfg: cfg, model: modelOf(t, cfg.Model, cfg.LoRA), opts: SFTOptions{Threads: 1}}
		if s.problems, err = LoadProblems(cfg.Data); err != nil {
			t.Fatal(err)
		}
		if s.template, err = s.model.Template(cfg.Data); err != nil {
			t.Fatal(err)
		}
		s.val = s.problems.Val
		without := s.memory().Total()
		for i := range cfg.Stages {
			cfg.Stages[i].EarlyStoppingPatience = 1
		}
		st, size, longest := cfg.Stages[0], s.model.Size, s.longestOf(s.val)
		examples := exampleBytes(len(s.val), longest.tokens(st))
		want := size.ParamBytes() + size.ScorerBytes(s.batchOf(st, float64(st.BatchSize), longest), 1) + examples
		if got := s.memory().Total() - without; math.Abs(got-want) > 1 {
			t.Errorf("%s: %v bytes more, want %v", name, got, want)
		}
	}
}

func TestBatchOf(t *testing.T) {
	b := batchOf([]int{5, 100, 7, 6}, 24, 8, 10)
	if b.Prompts != 3 || b.PromptTokens != 113 || b.LongestPrompt != 100 || b.Completions != 24 || b.Tokens != 240 || b.Longest != 10 {
		t.Errorf("%+v", b)
	}
	// A micro-batch that is not a multiple of the group may start and end within one.
	if b := batchOf([]int{5}, 12, 8, 10); b.Prompts != 3 || b.PromptTokens != 15 {
		t.Errorf("%+v", b)
	}
}

func TestPromptLengths(t *testing.T) {
	template, err := gsm8k.LookupTemplate("r1_zero")
	if err != nil {
		t.Fatal(err)
	}
	problems := []gsm8k.Problem{{Question: "How many?"}, {Question: "Wie viele Äpfel – und Öl?\n\u2028"}, {}}
	for i, ids := range policy.EncodePrompts(tinylm.Tokenizer{}, template, problems) {
		if got := policy.PromptLengths(tinylm.Tokenizer{}, template, problems)[i]; got != len(ids) {
			t.Errorf("%q: %d tokens, want %d", problems[i].Question, got, len(ids))
		}
	}
}

// An error about a checkpoint whose weights are all trained begins with adapters, if they need less.
func TestMemoryNamesAdaptersFirst(t *testing.T) {
	for with, want := range map[float64]bool{1 << 30: true, 4 << 30: false} {
		m := Memory{Parts: []MemoryPart{{"weights", 3 << 30, "lower something else"}}, rankKey: "train.lora.rank",
			adapters: func() Memory { return Memory{Parts: []MemoryPart{{"weights", with, ""}}} }}
		if err := m.Fits(1 << 20); strings.Contains(err.Error(), "are available: set train.lora.rank to 16, ") != want {
			t.Errorf("with %v bytes: %v", with, err)
		}
	}
	for _, c := range []struct {
		set  []string
		want bool
	}{{nil, true}, {[]string{"train.lora.rank=4"}, false}, {[]string{"beta=0.1", "ref_model_sync_steps=1"}, false}} {
		cfg := config.Resolve(tinyDecoder(t, c.set...))
		m, err := MemoryOf(modelOf(t, cfg.Model, cfg.Train.LoRA), cfg, mustProblems(t, cfg), 1)
		if err != nil || (m.adapters != nil) != c.want || c.want && m.adapters().Total() == 0 {
			t.Errorf("%v: %v, %v", c.set, m, err)
		}
	}
	if m, err := MemoryOf(modelOf(t, small().Model, config.LoRA{}), config.Resolve(small()), mustProblems(t, small()), 1); err != nil || m.adapters != nil {
		t.Errorf("TinyLM: %v, %v", m, err)
	}
}
