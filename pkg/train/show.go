package train

import (
	"fmt"
	"slices"

	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/policy"
	"grpo/pkg/rundir"
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
func ShowPrompts(cfg config.Config, split string, n int) (*Prompts, error) {
	cfg = config.Resolve(cfg)
	problems, err := ProblemsOf(cfg)
	if err != nil {
		return nil, err
	}
	chosen, err := problems.Split(split)
	if err != nil {
		return nil, err
	}
	m, err := policy.Of(cfg)
	if err != nil {
		return nil, err
	}
	t, err := m.Template(cfg.Data)
	if err != nil {
		return nil, err
	}
	tok := m.Tokenizer
	out := &Prompts{Template: t.Name, FewShot: t.FewShot, Split: split, Context: m.Context,
		Special: m.Special(cfg.Data)}
	chosen = chosen[:min(n, len(chosen))]
	for i, ids := range policy.EncodePrompts(tok, t, chosen) {
		out.Shown = append(out.Shown, shownPrompt(tok, t, chosen[i], ids))
	}
	for _, s := range promptSplits(cfg, problems) {
		if len(s.Problems) > 0 {
			out.Lengths = append(out.Lengths, s.lengths(policy.PromptLengths(tok, t, s.Problems), out.Context))
		}
	}
	if err := checkContext(m, cfg, t, problems); err != nil {
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

// promptSplit is a split with the limit of its completions and the key that sets it.
type promptSplit struct {
	Set
	most int
	key  string
}

func promptSplits(c config.Config, p *Problems) []promptSplit {
	out := []promptSplit{
		{Set{rundir.SplitTrain, p.Train}, c.Rollout.SamplingMaxTokens, "rollout.sampling_max_tokens"},
	}
	for _, s := range p.evaluated() {
		out = append(out, promptSplit{s, c.Eval.MaxTokens, "eval.max_tokens"})
	}
	return out
}

// lengths describes lengths, of which there is at least one.
func (s promptSplit) lengths(lengths []int, context int) SplitLength {
	slices.Sort(lengths)
	at := func(percent int) int { return lengths[(len(lengths)*percent+99)/100-1] } // nearest rank
	out := SplitLength{s.Name, len(lengths), lengths[0], at(50), at(90), at(99), at(100), s.most, 0}
	for _, n := range lengths {
		if context > 0 && n+s.most > context {
			out.TooLong++
		}
	}
	return out
}

// checkContext returns an error if a prompt with its completion is longer than the model's context.
func checkContext(m *policy.Model, c config.Config, t gsm8k.Template, p *Problems) error {
	for _, s := range promptSplits(c, p) {
		if err := s.fits(m, t); err != nil {
			return err
		}
	}
	return nil
}

func (s promptSplit) fits(m *policy.Model, t gsm8k.Template) error {
	context := m.Context
	if context == 0 || len(s.Problems) == 0 {
		return nil
	}
	lengths := policy.PromptLengths(m.Tokenizer, t, s.Problems)
	longest := slices.Max(lengths)
	if longest+s.most <= context {
		return nil
	}
	p, fix := s.Problems[slices.Index(lengths, longest)], ""
	if t.FewShot > 0 {
		fix = ", use fewer worked examples (data.few_shot)"
	}
	return config.Invalid(fmt.Errorf("encode the prompts of the split %q: that of problem %q has %d tokens; with %s (%d) "+
		"it exceeds the model's context of %d tokens (shorten or remove the problem%s, or lower %s)",
		s.Name, p.ID, longest, s.key, s.most, context, fix, s.key))
}
