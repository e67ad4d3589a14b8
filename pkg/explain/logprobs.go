package explain

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
	"grpo/pkg/model/tinylm"
	"grpo/pkg/model/tinylm/tokenizer"
)

// longestText bounds prompt and completion together, in tokens: the graph keeps
// the states of all of them.
const longestText = 1 << 14

// LogProbsResult has a number for each token of a completion.
type LogProbsResult struct {
	CompletionIDs []int     `json:"completion_ids"` // the closing <eos> included
	LogProbs      []float64 `json:"logprobs"`
	Entropy       []float64 `json:"entropy"` // nats, of the distribution that the token is from

	prompt string
	// Unknown counts characters that the tokenizer has no token for.
	Unknown int `json:"-"`
}

// LogProbs returns the log-probability of each token of a completion and its
// closing <eos> after a prompt, and the entropy of the distribution that each is
// drawn from, at temperature 1. The prompt is <bos> and the text exactly as given:
// a template's newline has to stand in it.
//
// It is an error when the weights have another vocabulary than the tokenizer, or
// when the texts are longer than 16384 tokens.
func LogProbs(p *tinylm.Weights, prompt, completion string) (LogProbsResult, error) {
	fail := func(err error) (LogProbsResult, error) {
		return LogProbsResult{}, fmt.Errorf("explain logprobs: %w", err)
	}
	if p.Vocab != tokenizer.VocabSize {
		return fail(fmt.Errorf("the model has a vocabulary of %d, the tokenizer of %d (text can't be turned into its tokens)", p.Vocab, tokenizer.VocabSize))
	}
	ids := tokenizer.AppendEncode([]int{tokenizer.BOS}, prompt)
	tokens := append(tokenizer.Encode(completion), tokenizer.EOS)
	if n := len(ids) + len(tokens); n > longestText {
		return fail(fmt.Errorf("prompt and completion have %d tokens; at most %d can be computed", n, longestText))
	}
	pool := kernel.NewPool(1) // one sequence has nothing to share out
	defer pool.Close()
	s, err := tinylm.NewScorer(p, 1, pool)
	if err != nil {
		return fail(err)
	}
	m, err := s.Score(&model.Batch{Prompts: [][]int{ids}, Rows: []model.Row{{Prompt: 0, Tokens: tokens}}})
	if err != nil {
		s.Close()
		return fail(err)
	}
	out := LogProbsResult{CompletionIDs: tokens, prompt: prompt}
	for i, in := range m.Mask {
		if in {
			out.LogProbs, out.Entropy = append(out.LogProbs, m.LogProbs[i]), append(out.Entropy, m.Entropy[i])
		}
	}
	for _, id := range slices.Concat(ids, tokens) {
		if id == tokenizer.Unk {
			out.Unknown++
		}
	}
	if err := s.Close(); err != nil {
		return fail(err)
	}
	return out, nil
}

// WriteText writes a line for each token, and their sum.
func (r LogProbsResult) WriteText(w io.Writer) error {
	p := &printer{w: w}
	p.line("Log-probabilities after <bos>%s, temperature 1", quote(r.prompt, 60))
	p.gap()
	table := [][]string{{"token", "id", "logprob", "probability", "entropy"}}
	sum, entropy := 0.0, 0.0
	for i, id := range r.CompletionIDs {
		table = append(table, []string{tokenName(id), strconv.Itoa(id), num(r.LogProbs[i]), num(math.Exp(r.LogProbs[i])), num(r.Entropy[i])})
		sum += r.LogProbs[i]
		entropy += r.Entropy[i]
	}
	p.table("l", table...)
	n := float64(len(r.CompletionIDs))
	p.gap()
	p.say("The completion of %s has log-probability %s in all (probability %s), %s a token; mean entropy %s nats.",
		count(len(r.CompletionIDs), "token"), num(sum), digits(math.Exp(sum), 3), num(sum/n), num(entropy/n))
	if r.Unknown > 0 {
		p.say("%s no token and became <unk>: the numbers are those of <unk>.", haveUnknown(r.Unknown))
	}
	return p.err
}

func haveUnknown(n int) string {
	if n == 1 {
		return "1 character has"
	}
	return strconv.Itoa(n) + " characters have"
}

func tokenName(id int) string {
	switch id {
	case tokenizer.Pad:
		return "<pad>"
	case tokenizer.BOS:
		return "<bos>"
	case tokenizer.EOS:
		return "<eos>"
	case tokenizer.Unk:
		return "<unk>"
	}
	return strconv.Quote(tokenizer.Decode([]int{id}))
}
