package tinylm

import (
	"encoding/json"
	"regexp"
	"slices"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/golden"
	"grpo/pkg/model"
)

// The assignment's tokenize_prompt_and_output (2026) concatenates prompt and output, shifts the
// labels by one and masks all tokens outside the output. The packed layout must predict the same
// tokens in the same order: the labels where the mask is true.
func TestGoldenTokenizePromptAndOutput(t *testing.T) {
	var all map[string]json.RawMessage
	expect.OK(t, json.Unmarshal(golden.File(t, "golden", "cs336-2026", "expected.json"), &all))
	var want struct {
		InputIDs struct{ Data [][]int }  `json:"input_ids"`
		Labels   struct{ Data [][]int }  `json:"labels"`
		Mask     struct{ Data [][]bool } `json:"response_mask"`
	}
	golden.Decode(t, "test_tokenize_prompt_and_output", all["test_tokenize_prompt_and_output"], &want, "dtype", "shape")
	// The fixture's word-level tokenizer; "<unk>" is 2.
	words := regexp.MustCompile(`\w+|[^\w\s]+`)
	vocab := map[string]int{"Hello": 3, "world": 4, "This": 5, "is": 6, "a": 7, "test": 8, "another": 9}
	encode := func(text string) (ids []int) {
		for _, w := range words.FindAllString(text, -1) {
			id, ok := vocab[w]
			if !ok {
				id = 2
			}
			ids = append(ids, id)
		}
		return ids
	}
	b := &model.Batch{}
	for i, text := range []string{"Hello, world!", "This is a test.", "This is another test."} {
		b.Prompts = append(b.Prompts, encode(text))
		b.Rows = append(b.Rows, model.Row{Prompt: i, Tokens: encode(text)})
	}
	var p Packed
	expect.OK(t, p.pack(b, 15))
	got := make([][]int, len(b.Rows))
	p.each(func(i, packed int) {
		row := i / p.width
		got[row] = append(got[row], p.Targets[packed])
	})
	for i := range b.Rows {
		var labels []int
		for k, in := range want.Mask.Data[i] {
			if in {
				labels = append(labels, want.Labels.Data[i][k])
			}
		}
		if !slices.Equal(got[i], labels) {
			t.Errorf("row %d predicts %v, the assignment's labels are %v", i, got[i], labels)
		}
		// input_ids omit the last token: nothing is predicted from it.
		inputs := slices.Concat(b.Prompts[i], b.Rows[i].Tokens)
		n := min(len(inputs), len(want.InputIDs.Data[i]))
		if !slices.Equal(inputs[:n], want.InputIDs.Data[i][:n]) {
			t.Errorf("row %d reads %v, the assignment's input_ids are %v", i, inputs, want.InputIDs.Data[i])
		}
	}
}
