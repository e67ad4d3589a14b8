package train

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/infer"
	"grpo/pkg/model"
	"grpo/pkg/model/hf"
	"grpo/pkg/policy"
)

// Transformers reads exports as this program reads what they were made from: the same ids, chat,
// greedy completion and log-probabilities. It needs a Python with transformers:
//
//	GRPO_TEST_PYTHON=python GRPO_SMOLLM2=SmolLM2.gguf go test -run PythonLoadsExports ./pkg/train
func TestPythonLoadsExports(t *testing.T) {
	python := os.Getenv("GRPO_TEST_PYTHON")
	if python == "" {
		t.Skip("set GRPO_TEST_PYTHON to a Python with transformers to run this")
	}
	sources := map[string]string{"tiny": decodertest.Folder(t)}
	if path := os.Getenv("GRPO_SMOLLM2"); path != "" {
		sources["SmolLM2"] = path
	}
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			if _, err := policy.Export(context.Background(), policy.ExportOptions{Path: source, Out: out, Dtype: "f32"}); err != nil {
				t.Fatal(err)
			}
			c := config.Config{Model: config.Model{Init: source, Device: "cpu"}}
			const prompt = "Tom has 7 pens and gets 5 more."
			g := infer.GenerateOptions{Options: infer.Options{Config: c, Threads: 2}, Prompts: []string{prompt}, Raw: true, N: 1,
				Sampling: model.Sampling{Greedy: true, TopP: 1, MaxTokens: 12}}
			want, err := infer.Generate(g)
			expect.OK(t, err)
			chat := []hf.Message{{Role: "system", Content: "Solve it."}, {Role: "user", Content: "What is 2 + ½?"}}
			given, _ := json.Marshal(map[string]any{
				"strings": []string{prompt, "12345 ½ ²", "  tabs\t\tand\nlines\r\n", "don't <|im_end|> naïve 北京 🙂"},
				"chat":    chat, "tokens": g.MaxTokens,
			})
			file := filepath.Join(t.TempDir(), "given.json")
			put(t, file, given)
			cmd := exec.Command(python, filepath.Join("testdata", "load_export.py"), out, file)
			cmd.Stderr = os.Stderr
			text, err := cmd.Output()
			var got struct {
				IDs    [][]int
				Chat   string
				Tokens []int
				LogPs  []float64
			}
			expect.OK(t, errors.Join(err, json.Unmarshal(text, &got)))
			var strs struct{ Strings []string }
			_ = json.Unmarshal(given, &strs)
			m := modelOf(t, c.Model, config.LoRA{})
			tok := m.Tokenizer
			for i, s := range strs.Strings {
				if ids := append(tok.Start(), tok.Encode(s)...); !slices.Equal(got.IDs[i], ids) {
					t.Errorf("%q: %v, want %v", s, got.IDs[i], ids)
				}
			}
			template, err := m.Template(config.Data{PromptTemplate: "chat", SystemPrompt: chat[0].Content})
			if err != nil || got.Chat != template.Render(chat[1].Content) {
				t.Errorf("the chat is %q, %v", got.Chat, err)
			}
			if !slices.Equal(got.Tokens, want[0].Tokens) {
				t.Errorf("greedy: %v, want %v", got.Tokens, want[0].Tokens)
			}
			for i, x := range want[0].LogProbs {
				if math.Abs(got.LogPs[i]-float64(x)) > 1e-4 {
					t.Errorf("log-probability %d is %v, want %v", i, got.LogPs[i], x)
				}
			}
		})
	}
}

// An export that can't be made leaves nothing.
func TestExportLeavesNothing(t *testing.T) {
	source := decodertest.Folder(t)
	out := filepath.Join(t.TempDir(), "out")
	full := errors.New("no room")
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, tt := range []struct {
		ctx  context.Context
		disk budget.DiskCheck
		says string
	}{
		{ended, nil, "canceled"},
		{context.Background(), func(string, float64) error { return full }, "no room"},
	} {
		_, err := policy.Export(tt.ctx, policy.ExportOptions{Path: source, Out: out, Dtype: "bf16", Disk: tt.disk})
		expect.Error(t, err, tt.says, source)
	}
	cutOff(t, filepath.Join(source, "model.safetensors"), 10)
	expect.Error(t, expect.Err(policy.Export(context.Background(), policy.ExportOptions{Path: source, Out: out, Dtype: "f32"})), "truncated")
	if entries, _ := os.ReadDir(filepath.Dir(out)); len(entries) > 0 {
		t.Errorf("left behind: %v", entries)
	}
}
