package policy

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

// Pair is a preference pair as the tokens of a model. The completions end with the end token
// unless they were cut.
type Pair struct {
	ID                       string // the pair's, or its line
	Prompt, Chosen, Rejected []int  // at least one token each
	Margin                   float64
	HasMargin                bool
}

// PairReport counts the pairs of a file that a model can't be trained on.
type PairReport struct {
	preference.Report
	TooLong   int `json:"too_long"`    // longer than the model's context
	Unusable  int `json:"unusable"`    // the model has no tokens for a text, or no chat template for turns
	SameToken int `json:"same_tokens"` // different texts with the same tokens
}

var errTooLong = errors.New("more than the model's context")

// ReadPairs reads a file of pairs as the tokens of the model. A line that is invalid or
// that the model can't be trained on is an error, or skipped and counted if skipBad is true. key
// names the setting in errors.
func (m *Model) ReadPairs(path, key string, skipBad bool) (out []Pair, report PairReport, err error) {
	pairs, read, err := preference.ReadFile(path, skipBad)
	if err != nil {
		return nil, report, config.Invalid(fmt.Errorf("%w (%s)", err, key))
	}
	report.Report = read
	e, err := m.PairEncoder()
	if err != nil {
		return nil, report, err
	}
	for _, p := range pairs {
		tokens, bad := e.Encode(p)
		if bad == nil {
			out = append(out, tokens)
			continue
		}
		if errors.Is(bad, model.ErrNoAnswerEnd) {
			return nil, report, config.Invalid(fmt.Errorf("encode pairs for %s (model.init): %w", m.Config.Init, bad))
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
		return nil, report, config.Invalid(fmt.Errorf("read pairs: %s: the model can't be trained on any of its %d pairs; "+
			"for example %s", path, read.Pairs, report.FirstBad))
	}
	return out, report, nil
}

// String says what was left out; empty for nothing.
func (r PairReport) String() string {
	if r.Skipped == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d lines skipped: %d with identical completions, %d with an empty prompt or completion, "+
		"%d beyond the model's context, %d that the model has no tokens for, %d otherwise invalid; for example %s",
		r.Skipped, r.Lines, r.Identical+r.SameToken, r.Empty, r.TooLong, r.Unusable,
		r.Skipped-r.Identical-r.SameToken-r.Empty-r.TooLong-r.Unusable, r.FirstBad)
}

// PairEncoder turns pairs into tokens of a model.
type PairEncoder struct {
	tok     model.Tokenizer
	chat    *decoder.Chat
	noChat  error // why there is none
	context int
}

// PairEncoder returns the encoder of pairs for the model.
func (m *Model) PairEncoder() (*PairEncoder, error) {
	e := &PairEncoder{tok: m.Tokenizer, context: m.Context}
	if m.IsDecoder() {
		e.chat, e.noChat = m.checkpoint.Chat()
	} else {
		e.noChat = errors.New("a TinyLM has no chat template")
	}
	if err := e.tok.Special().Check(); err != nil {
		return nil, config.Invalid(fmt.Errorf("encode pairs for %s (model.init): %w", m.Config.Init, err))
	}
	return e, nil
}

// Encode is the pair's tokens. A prompt of text is encoded with its special tokens, as
// [model.EncodeRaw] does; completions are plain text.
func (e *PairEncoder) Encode(p preference.Pair) (out Pair, err error) {
	out.ID = cmp.Or(p.ID, fmt.Sprintf("line %d", p.Line))
	if p.Margin != nil {
		out.Margin, out.HasMargin = *p.Margin, true
	}
	if p.Prompt.IsChat() {
		err = e.encodeChat(p, &out)
	} else {
		err = e.encodeText(p, &out)
	}
	longest := len(out.Prompt) + max(len(out.Chosen), len(out.Rejected))
	switch {
	case err != nil:
		return out, err
	case len(out.Prompt) == 0 || len(out.Chosen) == 0 || len(out.Rejected) == 0:
		return out, fmt.Errorf("the prompt or a completion %w: the model has no token for it", preference.ErrEmpty)
	case e.context > 0 && longest > e.context:
		return out, fmt.Errorf("its prompt of %d tokens and its longer completion have %d, %w of %d",
			len(out.Prompt), longest, errTooLong, e.context)
	case slices.Equal(out.Chosen, out.Rejected):
		return out, fmt.Errorf("%w as tokens of the model", preference.ErrIdentical)
	}
	return out, nil
}

func (e *PairEncoder) encodeText(p preference.Pair, out *Pair) error {
	var err error
	if out.Prompt, err = e.prompt(p.Prompt.Plain); err != nil {
		return err
	}
	if out.Chosen, err = e.completion(p.Prompt.Plain, out.Prompt, p.Chosen.Plain, p.ChosenTruncated); err != nil {
		return err
	}
	out.Rejected, err = e.completion(p.Prompt.Plain, out.Prompt, p.Rejected.Plain, p.RejectedTruncated)
	return err
}

// prompt is the tokens of a prompt of text.
func (e *PairEncoder) prompt(text string) ([]int, error) {
	if err := e.knows(text); err != nil {
		return nil, err
	}
	return model.EncodeRaw(e.tok, text), nil
}

// completion is the tokens of a completion of text, before being those of the prompt. Its end is the one that the model
// samples: the chat template's where the prompt opens the assistant's turn, otherwise the tokenizer's.
func (e *PairEncoder) completion(prompt string, before []int, text string, truncated bool) ([]int, error) {
	if err := e.knows(text); err != nil {
		return nil, err
	}
	ids := e.tok.EncodeAfter(before, "", text)
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

func (e *PairEncoder) knows(text string) error {
	if !e.tok.Knows(text) {
		return fmt.Errorf("%s has characters outside the model's vocabulary", textutil.Quote(text))
	}
	return nil
}

func (e *PairEncoder) encodeChat(p preference.Pair, out *Pair) (err error) {
	if e.chat == nil {
		return fmt.Errorf("it has turns, but %w (write the pair as texts)", e.noChat)
	}
	messages := make([]hf.Message, len(p.Prompt.Turns))
	for i, m := range p.Prompt.Turns {
		messages[i] = hf.Message(m)
	}
	if out.Prompt, err = e.chat.Prompt(messages); err != nil {
		return err
	}
	if out.Chosen, err = e.chat.Answer(messages, p.Chosen.Turns[0].Content, p.ChosenTruncated); err != nil {
		return err
	}
	out.Rejected, err = e.chat.Answer(messages, p.Rejected.Turns[0].Content, p.RejectedTruncated)
	return err
}

// Sequence is the tokens of a completion of text, which ended or was cut, and those of its prompt: known, if they
// are not nil.
func (e *PairEncoder) Sequence(known []int, prompt, completion string, ended bool) (promptIDs, ids []int, err error) {
	if promptIDs = known; known == nil {
		if promptIDs, err = e.prompt(prompt); err != nil {
			return nil, nil, err
		}
	}
	if ids, err = e.completion(prompt, promptIDs, completion, !ended); err != nil {
		return nil, nil, err
	}
	switch n := len(promptIDs) + len(ids); {
	case len(promptIDs) == 0 || len(ids) == 0:
		return nil, nil, fmt.Errorf("the prompt or the completion %w", preference.ErrEmpty)
	case e.context > 0 && n > e.context:
		return nil, nil, fmt.Errorf("the prompt and the completion %s have %d tokens, %w of %d",
			textutil.Quote(completion), n, errTooLong, e.context)
	}
	return promptIDs, ids, nil
}
