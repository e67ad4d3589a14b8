package train

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/infer"
	"grpo/pkg/model"
	"grpo/pkg/preference"
	"grpo/pkg/supervised"
)

// withFiles is the tiny model with other files.
func withFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := decodertest.Folder(t)
	for name, text := range files {
		put(t, filepath.Join(dir, name), []byte(text))
	}
	return dir
}

// Of several end tokens a supervised answer and a preferred completion get that of the chat template where
// the prompt is a chat, and otherwise the tokenizer's.
func TestAnswerEnds(t *testing.T) {
	const start, end = decodertest.Vocab - 2, decodertest.Vocab - 1
	m := config.Default().Model
	m.Init = withFiles(t, map[string]string{
		"generation_config.json": `{"eos_token_id": [120, 257, 256]}`,
		"tokenizer_config.json": `{"eos_token": "<|end|>", "chat_template": "{% for m in messages %}{{ m.role }}: {{ m.content }}<|start|>` +
			`{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"}`,
	})
	of := modelOf(t, m, config.LoRA{})
	for template, want := range map[string]int{"chat": start, "plain": end} {
		if got, err := of.Special(config.Data{PromptTemplate: template}).AnswerEnd(); err != nil || got != want {
			t.Errorf("%s: an answer ends in %d (%v), want %d", template, got, err, want)
		}
		data := config.Data{PromptTemplate: template}
		prompt, err := of.Template(data)
		expect.OK(t, err)
		in := infer.RewardInput(of, config.Config{Model: m, Data: data}, prompt, gsm8k.Problem{}, "2", true)
		if got := in.TokenIDs[len(in.TokenIDs)-1]; got != want {
			t.Errorf("%s: a reward function gets an answer that ends in %d, want %d", template, got, want)
		}
	}
	e, err := of.PairEncoder()
	expect.OK(t, err)
	turn := func(role, text string) preference.Text {
		return preference.Text{Turns: []preference.Message{{Role: role, Content: text}}}
	}
	text := func(s string) preference.Text { return preference.Text{Plain: s} }
	for _, p := range []struct {
		pair preference.Pair
		want int
	}{
		{preference.Pair{Prompt: turn("user", "q"), Chosen: turn("assistant", "a"), Rejected: turn("assistant", "b")}, start},
		{preference.Pair{Prompt: text("user: q<|start|>assistant: "), Chosen: text("a"), Rejected: text("b")}, start},
		{preference.Pair{Prompt: text("q"), Chosen: text("a"), Rejected: text("b")}, end},
	} {
		got, err := e.Encode(p.pair)
		if err != nil || got.Chosen[len(got.Chosen)-1] != p.want {
			t.Errorf("%v is %v (%v), want the end %d", p.pair, got.Chosen, err, p.want)
		}
	}
}

// A model without an end token, or without one for answers, is an error before anything is written.
func TestNoEnd(t *testing.T) {
	plain := map[string]string{"tokenizer_config.json": "{}"}
	none := withFiles(t, plain)
	for name, change := range map[string][]string{
		"config.json":    {`"eos_token_id":257`, `"eos_token_id":null`},
		"tokenizer.json": {`|end|`, `|other|`}, // the name of an end token
	} {
		text := strings.NewReplacer(change...).Replace(string(slurp(t, filepath.Join(none, name))))
		put(t, filepath.Join(none, name), []byte(text))
	}
	several := withFiles(t, map[string]string{"tokenizer_config.json": "{}", "generation_config.json": `{"eos_token_id": [120, 121]}`})
	pairs := filepath.Join(t.TempDir(), "pairs.jsonl")
	put(t, pairs, []byte(`{"prompt": "1+1?", "chosen": "2", "rejected": "3"}`+"\n"))
	for _, tt := range []struct {
		init                string
		sft, pairs, rollout error
	}{{none, model.ErrNoEnd, model.ErrNoEnd, model.ErrNoEnd}, {several, model.ErrNoAnswerEnd, model.ErrNoAnswerEnd, nil}} {
		dir := filepath.Join(t.TempDir(), "run")
		sft := config.DefaultSFT()
		sft.Model.Init, sft.Data.PromptTemplate, sft.Data.TrainSize = tt.init, "plain", 8
		_, err := supervised.RunSFT(context.Background(), sft, supervised.Options[supervised.SFTStep]{Dir: dir, Threads: 1})
		refused(t, "sft", err, tt.sft)
		m := config.Default().Model
		m.Init = tt.init
		of := modelOf(t, m, config.LoRA{})
		_, _, err = of.ReadPairs(pairs, "--pairs", true)
		refused(t, "pairs", err, tt.pairs)
		refused(t, "train and eval", of.CheckEnd(), tt.rollout)
		if _, err := os.Stat(dir); err == nil {
			t.Error("a folder was made")
		}
	}
	cfg := tinyDecoder(t, "prompt_template=plain", "few_shot=0", "system_prompt=")
	cfg.Model.Init = none
	dir := filepath.Join(t.TempDir(), "run")
	_, err := Run(context.Background(), cfg, options(dir, &watch{}, 1))
	refused(t, "train", err, model.ErrNoEnd)
	_, _, err = evaluateCheckpoint(cfg, "val", 0, 1, nil)
	refused(t, "eval", err, model.ErrNoEnd)
}

func refused(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) || want != nil && !errors.Is(err, config.ErrConfig) {
		t.Errorf("%s: error %v, want %v", what, err, want)
	}
}
