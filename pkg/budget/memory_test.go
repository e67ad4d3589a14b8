package budget

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/policy"
)

func TestMemoryFits(t *testing.T) {
	m := Memory{Parts: []Part{{"small things", 1 << 20, "do not care"}, {"weights", 100 << 20, "lower hidden_size"}, {"activations", 3 << 30, "lower the batch"}}}
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

func TestBatchOf(t *testing.T) {
	b := batchOf([]int{5, 100, 7, 6}, 24, 8, 10)
	if b.Prompts != 3 || b.PromptTokens != 113 || b.LongPrompts != 113 || b.LongestPrompt != 100 || b.Completions != 24 || b.Tokens != 240 || b.Longest != 10 {
		t.Errorf("%+v", b)
	}
	// A sampler may read the longest prompts together.
	lengths := append(slices.Repeat([]int{100}, 1000), slices.Repeat([]int{400}, 200)...)
	if b := batchOf(lengths, 1200, 1, 10); b.PromptTokens != 180000 || b.LongPrompts != 200*400+56*100 {
		t.Errorf("%+v", b)
	}
	// A micro-batch that is not a multiple of the group may start and end within one.
	if b := batchOf([]int{5}, 12, 8, 10); b.Prompts != 3 || b.PromptTokens != 15 {
		t.Errorf("%+v", b)
	}
}

// An error about a checkpoint whose weights are all trained begins with adapters, if they need less.
func TestMemoryNamesAdaptersFirst(t *testing.T) {
	for with, want := range map[float64]bool{1 << 30: true, 4 << 30: false} {
		m := Memory{Parts: []Part{{"weights", 3 << 30, "lower something else"}}, rankKey: "train.lora.rank",
			adapters: func() Memory { return Memory{Parts: []Part{{"weights", with, ""}}} }}
		if err := m.Fits(1 << 20); strings.Contains(err.Error(), "are available: set train.lora.rank to 16, ") != want {
			t.Errorf("with %v bytes: %v", with, err)
		}
	}
	for rank, want := range map[int]bool{0: true, 4: false} {
		m := decoderOf(t, rank)
		need := orAdapters(m, "lora.rank", func(m *policy.Model) Memory {
			return Memory{Parts: []Part{{"weights", float64(m.LoRA.Rank), ""}}}
		})
		if (need.adapters != nil) != want || want && need.adapters().Total() != usualRank {
			t.Errorf("rank %d: %+v", rank, need)
		}
	}
}

func decoderOf(t *testing.T, rank int) *policy.Model {
	m, err := policy.Resolve(config.Model{Init: decodertest.Folder(t), Device: "cpu"}, config.LoRA{Rank: rank})
	expect.OK(t, err)
	return m
}

// Early stopping adds a copy of the trained parameters, and the scorer of its loss, which a decoder
// has in the memory of a pass.
func TestMemoryOfEarlyStopping(t *testing.T) {
	c, err := config.LoadSFT(config.LoadOptions{})
	expect.OK(t, err)
	tiny, err := policy.Resolve(config.Resolve(c.Config).Model, config.LoRA{})
	expect.OK(t, err)
	problems := []gsm8k.Problem{{Question: "1 + 2 = ?", Answer: "#### 3"}}
	for _, m := range []*policy.Model{tiny, decoderOf(t, 0)} {
		b := model.BatchSize{Prompts: 32, PromptTokens: 640, LongestPrompt: 20, Completions: 32, Tokens: 320, Longest: 10}
		batches := slices.Repeat([]StageBatches{{Learn: b, Score: b}}, len(c.Config.Stages))
		without := SFT(m, c.Config, gsm8k.Template{}, batches, problems, 1).Total()
		with := c.Config
		with.Stages = slices.Clone(with.Stages)
		for i := range with.Stages {
			with.Stages[i].EarlyStoppingPatience = 1
		}
		more := SFT(m, with, gsm8k.Template{}, batches, problems, 1).Total() - without
		if least := m.Size.ParamBytes(); more < least || m.IsDecoder() && more > least+2000 {
			t.Errorf("%v: %v bytes more, for weights of %v", m.Size, more, least)
		}
	}
}
