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

	"grpo/internal/expect"
	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/dataset"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model/tinylm"
	"grpo/pkg/policy"
)

// memoryOf estimates a configuration over its problems.
func memoryOf(t testing.TB, cfg config.Config) budget.Memory {
	t.Helper()
	cfg = config.Resolve(cfg)
	p, err := dataset.Load(cfg.Data, cfg.Answers())
	expect.OK(t, err)
	m, err := MemoryOf(modelOf(t, cfg.Model, cfg.Train.LoRA), cfg, p, 1)
	expect.OK(t, err)
	return m
}

// TestMemoryOfARun compares the estimate with the allocations of a run of one step. With
// completions of a fixed length less than a third of that is garbage.
func TestMemoryOfARun(t *testing.T) {
	long(t)
	fixed := []string{"n_grpo_steps=1", "sampling_min_tokens=48", "sampling_max_tokens=48", "data.val_size=16", "data.test_size=0", "data.unseen_size=0", "eval.greedy=false"}
	for name, set := range map[string][]string{
		"plain":        {"rollout_batch_size=128"},
		"accumulation": {"rollout_batch_size=256", "gradient_accumulation_steps=4"},
		"ppo":          {"rollout_batch_size=128", "algorithm.type=ppo", "loss_type=grpo_clip", "beta=0.01", "kl_in=reward"},
		"dpo":          {"rollout_batch_size=128", "algorithm.type=dpo", "reward.functions=random", "use_weighting=true", "resample_every_n_steps=0"},
		"wide":         {"rollout_batch_size=48", "model.init=random", "hidden_size=256", "num_layers=3"},
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
				t.Errorf("estimate %s, allocated %s: ratio %.2f", budget.Bytes(want), budget.Bytes(got), ratio)
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

// have is a check on a machine with this much available memory.
func have(available int64) budget.MemoryCheck {
	return func(m budget.Memory) error { return m.Fits(available) }
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
	expect.OK(t, expect.Err(Run(context.Background(), cfg, opts)))
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
	expect.OK(t, err)
	if _, err := f.WriteString(`{"question": "` + strings.Repeat("word ", 200_000) + `?", "answer": "3\n#### 3"}` + "\n"); err != nil {
		t.Fatal(err)
	}
	expect.OK(t, f.Close())
	m := memoryOf(t, cfg)
	expect.Error(t, m.Fits(100<<20), cfg.Data.TrainFile+": line 5, which has 10000")
	if err := m.Fits(10 << 20); err == nil || strings.Contains(err.Error(), "line 5") {
		t.Errorf("without the long prompt it would not fit either: %v", err)
	}
	if err := m.Fits(1 << 30); err != nil {
		t.Error(err)
	}
}

func TestPromptLengths(t *testing.T) {
	template, err := gsm8k.LookupTemplate("r1_zero")
	expect.OK(t, err)
	problems := []gsm8k.Problem{{Question: "How many?"}, {Question: "Wie viele Äpfel – und Öl?\n\u2028"}, {}}
	for i, ids := range policy.EncodePrompts(tinylm.Tokenizer{}, template, problems) {
		if got := policy.PromptLengths(tinylm.Tokenizer{}, template, problems)[i]; got != len(ids) {
			t.Errorf("%q: %d tokens, want %d", problems[i].Question, got, len(ids))
		}
	}
}
