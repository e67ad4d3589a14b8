package explain

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"grpo/internal/textutil"
	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
	"grpo/pkg/model/tinylm"
	"grpo/pkg/model/tinylm/tokenizer"
)

// longestText is the maximum number of tokens of prompt and completion: the graph keeps the states
// of all of them.
const longestText = 1 << 14

// LogProbsResult has a number for each token of a completion.
type LogProbsResult struct {
	CompletionIDs []int     `json:"completion_ids"` // including the final <eos>
	LogProbs      []float64 `json:"logprobs"`
	Entropy       []float64 `json:"entropy"` // nats, of the distribution that the token was drawn from

	prompt  string
	unknown int // characters without a token
}

// LogProbs returns the log-probability of each token of a completion and its final <eos> after a
// prompt, and the entropy of the distribution that each was drawn from, at temperature 1. The
// prompt is <bos> and the string exactly as given: it must include a template's newline.
//
// Errors: the vocabulary of the weights differs from the tokenizer's; more than 16384 tokens.
func LogProbs(p *tinylm.Weights, prompt, completion string) (out LogProbsResult, err error) {
	defer named("logprobs", &err)
	if p.Vocab != tokenizer.VocabSize {
		return out, fmt.Errorf("the model has a vocabulary of %d, the tokenizer of %d (use a model of this tokenizer)",
			p.Vocab, tokenizer.VocabSize)
	}
	ids := tokenizer.AppendEncode([]int{tokenizer.BOS}, prompt)
	tokens := append(tokenizer.Encode(completion), tokenizer.EOS)
	all := slices.Concat(ids, tokens)
	if len(all) > longestText {
		return out, fmt.Errorf("prompt and completion have %d tokens; at most %d can be computed", len(all), longestText)
	}
	pool := kernel.NewPool(1) // a single sequence can't be split
	defer pool.Close()
	s, err := tinylm.NewScorer(p, 1, pool)
	if err != nil {
		return out, err
	}
	m, err := s.Score(&model.Batch{Prompts: [][]int{ids}, Rows: []model.Row{{Prompt: 0, Tokens: tokens}}})
	if err != nil {
		s.Close()
		return out, err
	}
	out = LogProbsResult{CompletionIDs: tokens, prompt: prompt}
	for i, in := range m.Mask {
		if in {
			out.LogProbs, out.Entropy = append(out.LogProbs, m.LogProbs[i]), append(out.Entropy, m.Entropy[i])
		}
	}
	for _, id := range all {
		if id == tokenizer.Unk {
			out.unknown++
		}
	}
	return out, s.Close()
}

// WriteText writes a line for each token, and their sum.
func (r LogProbsResult) WriteText(w io.Writer) error {
	p := &page{}
	p.title("Log-probabilities after <bos>%s, temperature 1", quote(r.prompt, 60))
	table := [][]string{{"token", "id", "logprob", "probability", "entropy"}}
	sum, entropy := 0.0, 0.0
	for i, id := range r.CompletionIDs {
		lp, h := r.LogProbs[i], r.Entropy[i]
		table = append(table, []string{tokenName(id), strconv.Itoa(id), num(lp), num(math.Exp(lp)), num(h)})
		sum, entropy = sum+lp, entropy+h
	}
	p.table("l", table...)
	n := float64(len(r.CompletionIDs))
	p.gap()
	p.paragraph("The completion of %s has log-probability %s in total (probability %s), %s per token; mean entropy %s nats.",
		textutil.Count(len(r.CompletionIDs), "token"), num(sum), digits(math.Exp(sum), 3), num(sum/n), num(entropy/n))
	if r.unknown > 0 {
		p.paragraph("%s no token and became <unk>: the numbers are those of <unk>.",
			textutil.Count(r.unknown, "character")+plural(r.unknown, " has", " have"))
	}
	return p.writeTo(w)
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
