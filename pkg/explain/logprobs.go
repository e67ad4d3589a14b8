package explain

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"grpo/internal/textutil"
	"grpo/pkg/model"
)

// longestText is the maximum number of tokens of prompt and completion: the states of all of them
// are kept.
const longestText = 1 << 14

// LogProbsResult has a number for each token of a completion.
type LogProbsResult struct {
	PromptIDs     []int     `json:"prompt_ids"` // including start tokens
	CompletionIDs []int     `json:"completion_ids"`
	Tokens        []string  `json:"tokens"` // the texts of the completion's
	LogProbs      []float64 `json:"logprobs"`
	Entropy       []float64 `json:"entropy"` // nats, of the distribution that the token was drawn from
	// Special are the tokens that begin texts and end completions and answers. Appended: the completion
	// got the one that ends answers.
	Special  model.SpecialTokens `json:"special_tokens"`
	Appended bool                `json:"end_appended"`

	prompt  string
	special []bool
	unknown int // characters without a token
}

// LogProbs returns the log-probability of each token of a completion after a prompt, and the entropy
// of the distribution that each was drawn from, at temperature 1. Both texts are taken exactly as
// given, without a template; special tokens in them are parsed. The prompt gets the tokenizer's start
// tokens unless it begins with them. The completion gets the end token of answers if no text can stand for it,
// as with TinyLM.
//
// Errors: an empty prompt where there is no start token; an empty completion; more tokens than the
// model's context, or than 16384.
func LogProbs(p model.Policy, prompt, completion string) (out LogProbsResult, err error) {
	defer named("logprobs", &err)
	ids := model.EncodeRaw(p, prompt)
	tokens := p.EncodeAfter(ids, completion, "")
	special, appended := p.Special(), false
	if end := special.Answer; end != nil && !slices.Equal(p.Encode(end.Text), []int{end.ID}) {
		tokens, appended = append(tokens, end.ID), true
	}
	n := len(ids) + len(tokens)
	switch context := p.Context(); {
	case len(ids) == 0:
		return out, errors.New("the prompt has no tokens, and this model has no start token (give a prompt)")
	case len(tokens) == 0:
		return out, errors.New("the completion has no tokens")
	case context > 0 && n > context:
		return out, fmt.Errorf("prompt and completion have %d tokens; the model's context is %d", n, context)
	case n > longestText:
		return out, fmt.Errorf("prompt and completion have %d tokens; at most %d can be computed", n, longestText)
	}
	s, err := p.NewScorer(1)
	if err != nil {
		return out, err
	}
	m, err := s.Score(&model.Batch{Prompts: [][]int{ids}, Rows: []model.Row{{Prompt: 0, Tokens: tokens}}})
	if err != nil {
		s.Close()
		return out, err
	}
	out = LogProbsResult{PromptIDs: ids, CompletionIDs: tokens, Special: special, Appended: appended, prompt: prompt}
	for i, in := range m.Mask {
		if in {
			out.LogProbs, out.Entropy = append(out.LogProbs, m.LogProbs[i]), append(out.Entropy, m.Entropy[i])
		}
	}
	for _, id := range tokens {
		text, special := p.Token(id)
		out.Tokens, out.special = append(out.Tokens, text), append(out.special, special)
	}
	for _, r := range prompt + completion {
		if !p.Knows(string(r)) {
			out.unknown++
		}
	}
	return out, s.Close()
}

// WriteText writes a line for each token, and their sum.
func (r LogProbsResult) WriteText(w io.Writer) error {
	type row struct {
		Name                   string
		ID                     int
		LogProb, Prob, Entropy float64
	}
	page := struct {
		LogProbsResult
		Prompt, End                  string
		Rows                         []row
		Sum, Prob, Mean, MeanEntropy float64
		Unknown                      int
	}{LogProbsResult: r, Prompt: r.prompt, Unknown: r.unknown}
	n := float64(len(r.CompletionIDs))
	for i, id := range r.CompletionIDs {
		lp, h := r.LogProbs[i], r.Entropy[i]
		page.Rows = append(page.Rows, row{tokenName(r.Tokens[i], r.special[i]), id, lp, math.Exp(lp), h})
		page.Sum, page.MeanEntropy = page.Sum+lp, page.MeanEntropy+h
	}
	page.Prob, page.Mean, page.MeanEntropy = math.Exp(page.Sum), page.Sum/n, page.MeanEntropy/n
	if end := r.Special.Answer; end != nil {
		page.End = tokenName(end.Text, true)
	}
	return writePage(w, "logprobs", page)
}

// tokenName shows a special token by its name and another one quoted.
func tokenName(text string, special bool) string {
	if special {
		return textutil.Printable(text, 0)
	}
	return strconv.Quote(text)
}
