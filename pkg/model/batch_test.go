package model_test

import (
	"strings"
	"testing"

	"grpo/pkg/model"
)

func TestBatchCheck(t *testing.T) {
	row := func(prompt int, tokens ...int) []model.Row { return []model.Row{{Prompt: prompt, Tokens: tokens}} }
	for _, c := range []struct {
		name, want string // "" = no error
		b          model.Batch
	}{
		{"good", "", model.Batch{Prompts: [][]int{{1}, {19, 0}}, Rows: append(row(1, 19), row(0, 0)...)}},
		{"a prompt without completions", "", model.Batch{Prompts: [][]int{{1}, {2}}, Rows: row(1, 1)}},
		{"empty", "0 prompts, 0 completions", model.Batch{}},
		{"no completions", "1 prompts, 0 completions", model.Batch{Prompts: [][]int{{1}}}},
		{"empty prompt", "prompt 0: no tokens", model.Batch{Prompts: [][]int{{}}, Rows: row(0, 1)}},
		{"empty completion", "completion 0: no tokens", model.Batch{Prompts: [][]int{{1}}, Rows: row(0)}},
		{"token outside", "prompt 0: token 1 is 20, outside the vocabulary of 20", model.Batch{Prompts: [][]int{{1, 20}}, Rows: row(0, 1)}},
		{"negative token", "completion 0: token 0 is -1, outside", model.Batch{Prompts: [][]int{{1}}, Rows: row(0, -1)}},
		{"prompt outside", "continues prompt 1 of 1", model.Batch{Prompts: [][]int{{1}}, Rows: row(1, 1)}},
		{"negative prompt", "continues prompt -1 of 1", model.Batch{Prompts: [][]int{{1}}, Rows: row(-1, 1)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.b.Check(20); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}
