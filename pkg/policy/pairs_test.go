package policy

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/preference"
)

// The tokens of a pair are those that training sees of the same prompt and completions.
func TestEncodePairs(t *testing.T) {
	chat := []preference.Message{{Role: "system", Content: "S"}, {Role: "user", Content: "q?"}}
	answer := func(text string) preference.Text {
		return preference.Text{Turns: []preference.Message{{Role: "assistant", Content: text}}}
	}
	plain := func(text string) preference.Text { return preference.Text{Plain: text} }
	m, err := Resolve(config.Model{Init: decodertest.Folder(t)}, config.LoRA{})
	expect.OK(t, err)
	template, err := m.Template(config.Data{PromptTemplate: "chat", SystemPrompt: "S"})
	expect.OK(t, err)
	tok := m.Tokenizer
	prompt := EncodePrompts(tok, template, []gsm8k.Problem{{Question: "q?"}})[0]
	e, err := m.PairEncoder()
	expect.OK(t, err)
	end := decodertest.Vocab - 1
	text := preference.Pair{Prompt: plain(template.Render("q?")), Chosen: plain("ab"), Rejected: plain("<|end|>"), RejectedTruncated: true}
	got, err := e.Encode(text)
	if err != nil || !slices.Equal(got.Prompt, prompt) || !slices.Equal(got.Chosen, []int{'a', 'b', end}) ||
		!slices.Equal(got.Rejected, tok.EncodeAround("", "<|end|>", "")) {
		t.Errorf("a text is %+v (%v), want the prompt %v", got, err, prompt)
	}
	turns := preference.Pair{Prompt: preference.Text{Turns: chat}, Chosen: answer("ab"), Rejected: answer("c"), ChosenTruncated: true}
	got, err = e.Encode(turns)
	if err != nil || !slices.Equal(got.Prompt, prompt) || !slices.Equal(got.Chosen, tok.Encode("assistant: ab")) ||
		!slices.Equal(got.Rejected, append(tok.Encode("assistant: c"), end)) {
		t.Errorf("turns are %+v (%v), want the prompt %v", got, err, prompt)
	}
	for says, p := range map[string]preference.Pair{
		"contains <|end|>, a special token":                        {Prompt: preference.Text{Turns: chat}, Chosen: answer("a<|end|>"), Rejected: answer("b")},
		"more than the model's context of 512":                     {Prompt: plain(strings.Repeat("x", 512)), Chosen: plain("a"), Rejected: plain("b")},
		"chosen and rejected are identical as tokens of the model": {Prompt: plain("q"), Chosen: plain("a"), Rejected: plain("a")},
	} {
		expect.Error(t, expect.Err(e.Encode(p)), says)
	}
}

// TinyLM: characters without a token and turns are refused, or skipped and counted.
func TestReadPairs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pairs.jsonl")
	lines := []string{
		`{"prompt":"1+1?\n","chosen":"2","rejected":"3","margin":1}`,
		`{"prompt":"1+1?\n","chosen":"2","rejected":"雪"}`,
		`{"prompt":[{"role":"user","content":"q"}],"chosen":[{"role":"assistant","content":"a"}],"rejected":[{"role":"assistant","content":"b"}]}`,
		`{"prompt":"1+1?\n","chosen":"2","rejected":"2"}`,
	}
	write := func(lines ...string) {
		expect.OK(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o644))
	}
	m, err := Resolve(config.Default().Model, config.LoRA{})
	expect.OK(t, err)
	write(lines...)
	pairs, report, err := m.ReadPairs(file, "--pairs", true)
	if err != nil || len(pairs) != 1 || !pairs[0].HasMargin || pairs[0].ID != "line 1" || report.Pairs != 1 || report.Unusable != 2 ||
		!strings.Contains(report.String(), "3 of 4 lines skipped: 1 with identical completions, 0 with an empty prompt or completion, "+
			"0 beyond the model's context, 2 that the model has no tokens for, 0 otherwise invalid; for example line 4: ") {
		t.Errorf("%+v, %+v (%v), %v", pairs, report, report, err)
	}
	for says, some := range map[string][]string{
		`line 1: "雪" has characters outside the model's vocabulary`: lines[1:2],
		"a TinyLM has no chat template (write the pair as texts)":   lines[2:3],
	} {
		write(some...)
		for _, skip := range []bool{false, true} {
			if _, _, err := m.ReadPairs(file, "--pairs", skip); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("skip %v: %v, want %q", skip, err, says)
			}
		}
	}
	if _, _, err := m.ReadPairs(file+"x", "--pairs", true); err == nil || !strings.Contains(err.Error(), "(--pairs)") {
		t.Errorf("a missing file: %v", err)
	}
}

// The folder of a decoder's reward model is one that transformers loads: its class, one label, and a
// padding token that no completion ends with.
func TestRewardModelFolder(t *testing.T) {
	base := decodertest.Folder(t)
	m, err := Resolve(config.Model{Init: base}, config.LoRA{})
	expect.OK(t, err)
	f, err := m.Folder(true)
	expect.OK(t, err)
	var c struct {
		Architectures []string
		Labels        map[string]string `json:"id2label"`
		Pad           int               `json:"pad_token_id"`
		End           int               `json:"eos_token_id"`
	}
	var tokens struct {
		Pad string `json:"pad_token"`
	}
	expect.OK(t, errors.Join(json.Unmarshal(f.files["config.json"], &c), json.Unmarshal(f.files["tokenizer_config.json"], &tokens)))
	if len(c.Architectures) != 1 || c.Architectures[0] != "LlamaForSequenceClassification" || len(c.Labels) != 1 ||
		c.Pad != decodertest.Vocab-2 || c.End != decodertest.Vocab-1 || tokens.Pad != "<|start|>" {
		t.Errorf("%+v, %+v", c, tokens)
	}
	two := strings.Replace(string(f.files["config.json"]), `"0": "LABEL_0"`, `"0": "good", "1": "bad"`, 1)
	expect.OK(t, os.WriteFile(filepath.Join(base, "config.json"), []byte(two), 0o644))
	if _, _, err := OpenRewardModel(base, nil); err == nil || !strings.Contains(err.Error(), "a classifier of 2 labels") {
		t.Errorf("two labels: %v", err)
	}
}
