package train

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/model/kernel"
)

// TestBench: a measured step learns like a real one, and its numbers are consistent.
func TestBench(t *testing.T) {
	o := BenchOptions{Prompts: 8, Group: 4, PromptLen: 9, ResponseLen: 5, Hidden: 8, Layers: 2, Steps: 3, Threads: 1, Seed: 1, Now: time.Now}
	r, err := Bench(context.Background(), o)
	expect.OK(t, err)
	if sum := r.RolloutS + r.UpdateS; math.Abs(sum-r.StepS) > 1e-9 || r.StepS <= 0 {
		t.Errorf("rollout %v and update %v are not the step %v", r.RolloutS, r.UpdateS, r.StepS)
	}
	if got, want := r.RolloutTokS*r.RolloutS, 160.0; math.Abs(got-want) > 1e-6 {
		t.Errorf("%v tokens sampled, want %v", got, want)
	}
	if got, want := r.UpdateTokS*r.UpdateS, 232.0; math.Abs(got-want) > 1e-6 {
		t.Errorf("%v tokens in the update, want %v", got, want)
	}
	if !(r.UpdateExecuted > 0 && r.UpdateExecuted < r.UpdateGFLOPS) {
		t.Errorf("executed %v of %v GFLOP/s: the table of the first layer must save some", r.UpdateExecuted, r.UpdateGFLOPS)
	}
	if !(r.GraphShare > 0 && r.GraphShare < 1) {
		t.Errorf("graph share %v", r.GraphShare)
	}
	if r.AllocsPerStep < 1 || r.Params == 0 || r.Threads != 1 {
		t.Errorf("%+v", r)
	}
}

// TestBenchDPO: the update has the pass of the reference policy, and all completions are in pairs.
func TestBenchDPO(t *testing.T) {
	o := BenchOptions{Algorithm: "dpo", Prompts: 8, Group: 2, PromptLen: 9, ResponseLen: 5, Hidden: 8, Layers: 1, Steps: 2, Threads: 1, Seed: 1, Now: time.Now}
	r, err := Bench(context.Background(), o)
	expect.OK(t, err)
	if !(r.ReferenceS > 0 && r.ReferenceS < r.UpdateS) || r.Tokens != 80 {
		t.Errorf("%+v", r)
	}
	o.Group = 3
	if _, err := Bench(context.Background(), o); !errors.Is(err, config.ErrConfig) || !strings.Contains(err.Error(), "--group 3 must be even") {
		t.Errorf("error %v", err)
	}
}

// TestBenchLengths: no completion ends early, and every group has a signal.
func TestBenchLengths(t *testing.T) {
	b, err := newBench(BenchOptions{Prompts: 4, Group: 3, PromptLen: 6, ResponseLen: 7, Hidden: 8, Layers: 1, Threads: 1, Seed: 2, Now: time.Now})
	expect.OK(t, err)
	defer b.close()
	r, err := b.rollout(1)
	expect.OK(t, err)
	for i, c := range r.completions {
		if len(c.Tokens) != 7 {
			t.Errorf("completion %d has %d tokens, want 7", i, len(c.Tokens))
		}
	}
	for i, p := range r.prompts {
		if len(p) != 6 {
			t.Errorf("prompt %d has %d tokens, want 6", i, len(p))
		}
	}
	equal := 0
	for group := range slices.Chunk(r.rewards, r.groupSize) {
		equal += int(one(equalRewards(group)))
	}
	if equal == r.groups() {
		t.Error("all groups have equal rewards")
	}
}

func TestBenchRefuses(t *testing.T) {
	good := BenchOptions{Prompts: 1, Group: 2, PromptLen: 3, ResponseLen: 1, Hidden: 4, Layers: 1, Steps: 1, Threads: 1, Now: time.Now}
	for _, c := range []struct {
		name   string
		change func(*BenchOptions)
		want   string
	}{
		{"no completion", func(o *BenchOptions) { o.Group = 0 }, "--group 0 must be at least 1"},
		{"no steps", func(o *BenchOptions) { o.Steps = 0 }, "--steps 0"},
		{"a prompt without a question", func(o *BenchOptions) { o.PromptLen = 2 }, "--prompt-len 2"},
		{"no hidden units", func(o *BenchOptions) { o.Hidden = 0 }, "--hidden 0"},
	} {
		o := good
		c.change(&o)
		if _, err := Bench(context.Background(), o); err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, config.ErrConfig) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := Bench(context.Background(), good); err != nil {
		t.Errorf("the smallest step: %v", err)
	}
}

// TestBenchModel: a step of a checkpoint's kind has real prompts, whose common start counts once,
// and leaves the weights as they are.
func TestBenchModel(t *testing.T) {
	long(t)
	dir := decodertest.Folder(t)
	file := filepath.Join(dir, "config.json")
	data, err := os.ReadFile(file)
	expect.OK(t, err)
	expect.OK(t, os.WriteFile(file, bytes.Replace(data, []byte("512"), []byte("4096"), 1), 0o600))
	o := BenchOptions{Model: dir, Prompts: 2, Group: 3, Steps: 2, Threads: 2, Seed: 1, Now: time.Now}
	b, err := newBench(o)
	defer b.close()
	expect.OK(t, err)
	before := slices.Clone(b.Params.Flat)
	for step := range 2 {
		r, _, err := b.trainStep(step+1, newStopwatch(time.Now).lap)
		expect.OK(t, err)
		if r.zeroAdvantage > 0 || len(r.completions) != 6 {
			t.Errorf("%d completions, %d groups without a signal", len(r.completions), r.zeroAdvantage)
		}
		all := len(r.prompts[0]) + len(r.prompts[1])
		if n := b.distinctTokens(r.prompts); n >= all || n <= len(r.prompts[0]) {
			t.Errorf("%d distinct tokens of prompts of %d in all", n, all)
		}
	}
	if !slices.Equal(before, b.Params.Flat) {
		t.Error("the weights changed")
	}
	o.ResponseLen = 4
	r, err := Bench(context.Background(), o)
	expect.OK(t, err)
	if r.Tokens != 2*3*4 || !(r.UpdateGFLOPS > 0) || r.UpdateGFLOPS != r.UpdateExecuted || r.Kernel != kernel.Name() {
		t.Errorf("%+v", r)
	}
	o.PromptLen, o.Set = 9, []string{"train.lora.rank=2", "train.micro_batch_tokens=30"}
	adapted, err := Bench(context.Background(), o)
	expect.OK(t, err)
	if adapted.PromptTokens != 2*9 || adapted.Tokens != 2*3*4 || adapted.Params >= r.Params {
		t.Errorf("random prompts and LoRA: %+v", adapted)
	}
	if (r.Peak > 0) != (kernel.Peak(1) > 0) || r.UpdateShare < 0 || r.UpdateShare > 1.5 {
		t.Errorf("peak %v, share %v", r.Peak, r.UpdateShare)
	}
}
