package infer

import (
	"slices"

	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/policy"
)

// Prompts is what a model sees of a configuration's problems.
type Prompts struct {
	Template string        `json:"template"`
	FewShot  int           `json:"few_shot"` // worked examples in each prompt
	Split    string        `json:"split"`    // of the prompts shown
	Shown    []ShownPrompt `json:"prompts"`
	Lengths  []SplitLength `json:"lengths"`
	Context  int           `json:"context"` // tokens that the model can read; 0 for no limit
	// Special are the tokens before a prompt, at the end of completions and after answers to train on.
	Special model.SpecialTokens `json:"special_tokens"`
	// Stop has the texts that end completions (data.stop).
	Stop []string `json:"stop,omitempty"`
	// Problem is the error that a run would end with because a prompt is too long; empty if all fit.
	Problem string `json:"problem,omitempty"`
}

// ShownPrompt is a prompt as text, with its special tokens, and as tokens.
type ShownPrompt struct {
	ID     string   `json:"id"`
	Text   string   `json:"text"`
	Count  int      `json:"tokens"`
	IDs    []int    `json:"ids"`
	Tokens []string `json:"token_texts"`
	// Special are the places in IDs of special tokens.
	Special []int `json:"special"`
}

// SplitLength describes the lengths of a split's prompts in tokens. NewTokens is the
// limit of their completions.
type SplitLength struct {
	Split     string `json:"split"`
	Problems  int    `json:"problems"`
	Min       int    `json:"min"`
	P50       int    `json:"p50"`
	P90       int    `json:"p90"`
	P99       int    `json:"p99"`
	Max       int    `json:"max"`
	NewTokens int    `json:"max_new_tokens"`
	TooLong   int    `json:"too_long"` // prompts that exceed the context with NewTokens
}

// ShowPrompts renders and encodes the prompts of a configuration, without the model's
// weights, and returns the first n of a split.
func ShowPrompts(o Options, split string, n int) (*Prompts, error) {
	s, err := withProblems(o)
	if err != nil {
		return nil, err
	}
	chosen, err := s.problems.Split(split)
	if err != nil {
		return nil, err
	}
	m, t, tok := s.model, s.template, s.model.Tokenizer
	out := &Prompts{Template: t.Name, FewShot: len(t.Examples), Split: split, Context: m.Context,
		Special: m.Special(s.Config.Data), Stop: t.Stop}
	chosen = chosen[:min(n, len(chosen))]
	for i, ids := range policy.EncodePrompts(tok, t, chosen) {
		out.Shown = append(out.Shown, shownPrompt(tok, t, chosen[i], ids))
	}
	sets := PromptSets(s.Config, s.problems)
	for _, set := range sets {
		if len(set.Problems) > 0 {
			out.Lengths = append(out.Lengths, set.lengths(policy.PromptLengths(tok, t, set.Problems), out.Context))
		}
	}
	if err := CheckContext(m, t, sets...); err != nil {
		out.Problem = err.Error()
	}
	return out, nil
}

func shownPrompt(tok model.Tokenizer, t gsm8k.Template, p gsm8k.Problem, ids []int) ShownPrompt {
	s := ShownPrompt{ID: p.ID, Text: t.Render(p.Question), Count: len(ids), IDs: ids, Special: []int{}}
	for i, id := range ids {
		text, special := tok.Token(id)
		s.Tokens = append(s.Tokens, text)
		if special {
			s.Special = append(s.Special, i)
		}
	}
	if !t.Complete {
		for i := range tok.Start() {
			s.Text = s.Tokens[len(tok.Start())-1-i] + s.Text
		}
	}
	return s
}

// lengths describes lengths, of which there is at least one.
func (s PromptSet) lengths(lengths []int, context int) SplitLength {
	slices.Sort(lengths)
	at := func(percent int) int { return lengths[(len(lengths)*percent+99)/100-1] } // nearest rank
	out := SplitLength{s.Name, len(lengths), lengths[0], at(50), at(90), at(99), at(100), s.MaxTokens, 0}
	for _, n := range lengths {
		if context > 0 && n+s.MaxTokens > context {
			out.TooLong++
		}
	}
	return out
}
