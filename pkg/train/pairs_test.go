package train

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grpo/internal/decodertest"
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
	m := config.Default().Model
	m.Init = decodertest.Folder(t)
	template, err := templateOf(config.Data{PromptTemplate: "chat", SystemPrompt: "S"}, m)
	if err != nil {
		t.Fatal(err)
	}
	tok := tokenizerOf(m)
	prompt := encodePrompts(tok, template, []gsm8k.Problem{{Question: "q?"}})[0]
	e, err := newPairEncoder(m)
	if err != nil {
		t.Fatal(err)
	}
	end := decodertest.Vocab - 1
	text := preference.Pair{Prompt: plain(template.Render("q?")), Chosen: plain("ab"), Rejected: plain("<|end|>"), RejectedTruncated: true}
	got, err := e.encode(text)
	if err != nil || !slices.Equal(got.prompt, prompt) || !slices.Equal(got.chosen, []int{'a', 'b', end}) ||
		!slices.Equal(got.rejected, tok.EncodeAround("", "<|end|>", "")) {
		t.Errorf("a text is %+v (%v), want the prompt %v", got, err, prompt)
	}
	turns := preference.Pair{Prompt: preference.Text{Turns: chat}, Chosen: answer("ab"), Rejected: answer("c"), ChosenTruncated: true}
	got, err = e.encode(turns)
	if err != nil || !slices.Equal(got.prompt, prompt) || !slices.Equal(got.chosen, tok.Encode("assistant: ab")) ||
		!slices.Equal(got.rejected, append(tok.Encode("assistant: c"), end)) {
		t.Errorf("turns are %+v (%v), want the prompt %v", got, err, prompt)
	}
	for says, p := range map[string]preference.Pair{
		"contains <|end|>, a special token":                        {Prompt: preference.Text{Turns: chat}, Chosen: answer("a<|end|>"), Rejected: answer("b")},
		"more than the model's context of 512":                     {Prompt: plain(strings.Repeat("x", 512)), Chosen: plain("a"), Rejected: plain("b")},
		"chosen and rejected are identical as tokens of the model": {Prompt: plain("q"), Chosen: plain("a"), Rejected: plain("a")},
	} {
		if _, err := e.encode(p); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
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
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m := config.Default().Model
	write(lines...)
	pairs, report, err := readPairs(file, "--pairs", m, true)
	if err != nil || len(pairs) != 1 || !pairs[0].hasMargin || pairs[0].id != "line 1" || report.Pairs != 1 || report.Unusable != 2 ||
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
			if _, _, err := readPairs(file, "--pairs", m, skip); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("skip %v: %v, want %q", skip, err, says)
			}
		}
	}
	if _, _, err := readPairs(file+"x", "--pairs", m, true); err == nil || !strings.Contains(err.Error(), "(--pairs)") {
		t.Errorf("a missing file: %v", err)
	}
}
