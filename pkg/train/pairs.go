package train

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/model/decoder"
	"grpo/pkg/model/hf"
	"grpo/pkg/preference"
)

// pairTokens is a preference pair as the tokens of a model. The completions end with the end token
// unless they were cut.
type pairTokens struct {
	id                       string // the pair's, or its line
	prompt, chosen, rejected []int  // at least one token each
	margin                   float64
	hasMargin                bool
}

// pairReport counts the pairs of a file that a model can't be trained on.
type pairReport struct {
	preference.Report
	TooLong   int `json:"too_long"`    // longer than the model's context
	Unusable  int `json:"unusable"`    // the model has no tokens for a text, or no chat template for turns
	SameToken int `json:"same_tokens"` // different texts with the same tokens
}

var errTooLong = errors.New("more than the model's context")

// readPairs reads a file of pairs as the tokens of a configuration's model. A line that is invalid or
// that the model can't be trained on is an error, or skipped and counted if skipBad is true. key
// names the setting in errors.
func readPairs(path, key string, m config.Model, skipBad bool) (out []pairTokens, report pairReport, err error) {
	pairs, read, err := preference.ReadFile(path, skipBad)
	if err != nil {
		return nil, report, config.Invalid(fmt.Errorf("%w (%s)", err, key))
	}
	report.Report = read
	e, err := newPairEncoder(m)
	if err != nil {
		return nil, report, err
	}
	for _, p := range pairs {
		tokens, bad := e.encode(p)
		if bad == nil {
			out = append(out, tokens)
			continue
		}
		if errors.Is(bad, model.ErrNoAnswerEnd) {
			return nil, report, config.Invalid(fmt.Errorf("encode pairs for %s (model.init): %w", m.Init, bad))
		}
		bad = fmt.Errorf("line %d: %w", p.Line, bad)
		if !skipBad {
			return nil, report, config.Invalid(fmt.Errorf("read pairs: %s: %w (fix the line, or count and skip such lines "+
				"with --skip-bad)", path, bad))
		}
		report.Pairs--
		report.Skipped++
		report.FirstBad = cmp.Or(report.FirstBad, bad.Error())
		switch {
		case errors.Is(bad, errTooLong):
			report.TooLong++
		case errors.Is(bad, preference.ErrIdentical):
			report.SameToken++
		default:
			report.Unusable++
		}
	}
	if len(out) == 0 {
		return nil, report, config.Invalid(fmt.Errorf("read pairs: %s: the model can't be trained on any of its %d pairs; for example %s",
			path, read.Pairs, report.FirstBad))
	}
	return out, report, nil
}

// String says what was left out; empty for nothing.
func (r pairReport) String() string {
	if r.Skipped == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d lines skipped: %d with identical completions, %d with an empty prompt or completion, "+
		"%d beyond the model's context, %d that the model has no tokens for, %d otherwise invalid; for example %s",
		r.Skipped, r.Lines, r.Identical+r.SameToken, r.Empty, r.TooLong, r.Unusable,
		r.Skipped-r.Identical-r.SameToken-r.Empty-r.TooLong-r.Unusable, r.FirstBad)
}

// pairEncoder turns pairs into tokens of a model.
type pairEncoder struct {
	tok     model.Tokenizer
	chat    *decoder.Chat
	noChat  error // why there is none
	context int
}

func newPairEncoder(m config.Model) (*pairEncoder, error) {
	e := &pairEncoder{tok: tokenizerOf(m), context: contextOf(m)}
	if d := checkpointOf(m); d != nil {
		e.chat, e.noChat = d.Chat()
	} else {
		e.noChat = errors.New("a TinyLM has no chat template")
	}
	if err := e.tok.Special().Check(); err != nil {
		return nil, config.Invalid(fmt.Errorf("encode pairs for %s (model.init): %w", m.Init, err))
	}
	return e, nil
}

// encode is the pair's tokens. A prompt of text is encoded with its special tokens, as
// [model.EncodeRaw] does; completions are plain text.
func (e *pairEncoder) encode(p preference.Pair) (out pairTokens, err error) {
	out.id = cmp.Or(p.ID, fmt.Sprintf("line %d", p.Line))
	if p.Margin != nil {
		out.margin, out.hasMargin = *p.Margin, true
	}
	if p.Prompt.IsChat() {
		err = e.encodeChat(p, &out)
	} else {
		err = e.encodeText(p, &out)
	}
	longest := len(out.prompt) + max(len(out.chosen), len(out.rejected))
	switch {
	case err != nil:
		return out, err
	case len(out.prompt) == 0 || len(out.chosen) == 0 || len(out.rejected) == 0:
		return out, fmt.Errorf("the prompt or a completion %w: the model has no token for it", preference.ErrEmpty)
	case e.context > 0 && longest > e.context:
		return out, fmt.Errorf("its prompt of %d tokens and its longer completion have %d, %w of %d",
			len(out.prompt), longest, errTooLong, e.context)
	case slices.Equal(out.chosen, out.rejected):
		return out, fmt.Errorf("%w as tokens of the model", preference.ErrIdentical)
	}
	return out, nil
}

func (e *pairEncoder) encodeText(p preference.Pair, out *pairTokens) error {
	var err error
	if out.prompt, err = e.prompt(p.Prompt.Plain); err != nil {
		return err
	}
	if out.chosen, err = e.completion(p.Prompt.Plain, p.Chosen.Plain, p.ChosenTruncated); err != nil {
		return err
	}
	out.rejected, err = e.completion(p.Prompt.Plain, p.Rejected.Plain, p.RejectedTruncated)
	return err
}

// prompt is the tokens of a prompt of text.
func (e *pairEncoder) prompt(text string) ([]int, error) {
	if err := e.knows(text); err != nil {
		return nil, err
	}
	return model.EncodeRaw(e.tok, text), nil
}

// completion is the tokens of a completion of text. Its end is the one that the model samples: the chat
// template's where the prompt opens the assistant's turn, otherwise the tokenizer's.
func (e *pairEncoder) completion(prompt, text string, truncated bool) ([]int, error) {
	if err := e.knows(text); err != nil {
		return nil, err
	}
	ids := e.tok.EncodeAround("", text, "")
	if truncated {
		return ids, nil
	}
	special := e.tok.Special()
	if e.chat != nil && e.chat.Opens(prompt) {
		special = e.chat.Special()
	}
	end, err := special.AnswerEnd()
	return append(ids, end), err
}

func (e *pairEncoder) knows(text string) error {
	if !e.tok.Knows(text) {
		return fmt.Errorf("%s has characters outside the model's vocabulary", textutil.Quote(text))
	}
	return nil
}

func (e *pairEncoder) encodeChat(p preference.Pair, out *pairTokens) (err error) {
	if e.chat == nil {
		return fmt.Errorf("it has turns, but %w (write the pair as texts)", e.noChat)
	}
	messages := make([]hf.Message, len(p.Prompt.Turns))
	for i, m := range p.Prompt.Turns {
		messages[i] = hf.Message(m)
	}
	if out.prompt, err = e.chat.Prompt(messages); err != nil {
		return err
	}
	if out.chosen, err = e.chat.Answer(messages, p.Chosen.Turns[0].Content, p.ChosenTruncated); err != nil {
		return err
	}
	out.rejected, err = e.chat.Answer(messages, p.Rejected.Turns[0].Content, p.RejectedTruncated)
	return err
}
