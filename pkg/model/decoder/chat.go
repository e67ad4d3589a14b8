package decoder

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"grpo/internal/textutil"
	"grpo/pkg/model"
	"grpo/pkg/model/hf"
)

// Chat renders conversations with a checkpoint's chat template.
type Chat struct {
	of       *Description
	template *hf.ChatTemplate
	special  func() model.SpecialTokens // see Special
	opening  func() string              // see Opens
}

// Chat is the checkpoint's chat template, compiled.
func (d *Description) Chat() (*Chat, error) { return d.compiled() }

func (d *Description) compile() (*Chat, error) {
	if d.chat == "" {
		return nil, errors.New("the checkpoint has no chat template")
	}
	template, err := hf.NewChatTemplate(d.chat)
	if err != nil {
		return nil, err
	}
	c := &Chat{of: d, template: template}
	c.special, c.opening = sync.OnceValue(c.findSpecial), sync.OnceValue(c.findOpening)
	return c, nil
}

// Special is [model.Tokenizer.Special] for conversations: nothing but the template puts a begin token
// before them, and an answer ends in the first end token that the template writes after it, or in the
// tokenizer's if it writes none.
func (c *Chat) Special() model.SpecialTokens { return c.special() }

func (c *Chat) findSpecial() model.SpecialTokens {
	const mark, from = "The-Answer-goes-HERE", "the chat template"
	tok := c.of.Tokenizer
	out := tok.special
	out.Begin = nil
	text, err := c.render([]hf.Message{{Role: "user", Content: "?"}, {Role: "assistant", Content: mark}}, false)
	if err != nil {
		return out
	}
	if ids := tok.Encode(text); len(ids) > 0 && c.of.begin != "" && strings.HasPrefix(text, c.of.begin) {
		out.Begin = []model.SpecialToken{{ID: ids[0], Text: c.of.begin, From: from}}
	}
	_, after, _ := strings.Cut(text, mark)
	for _, id := range tok.Encode(after) {
		if at := slices.Index(tok.end, id); at >= 0 {
			end := out.End[at]
			end.From, out.Answer = from, &end
			break
		}
	}
	return out
}

// Opens reports whether a text ends as the template begins the assistant's turn, so that its completion
// is an answer of [Chat.Special].
func (c *Chat) Opens(text string) bool {
	return c.opening() != "" && strings.HasSuffix(text, c.opening())
}

func (c *Chat) findOpening() string {
	user := []hf.Message{{Role: "user", Content: "?"}}
	turn, err := c.render(user, false)
	open, openErr := c.render(user, true)
	opening, ok := strings.CutPrefix(open, turn)
	if err != nil || openErr != nil || !ok {
		return ""
	}
	return opening
}

// check returns an error if a message contains a special token, which could end a turn.
func (c *Chat) check(messages []hf.Message) error {
	for _, m := range messages {
		if token := c.of.Tokenizer.firstSpecial(m.Content); token != "" {
			return fmt.Errorf("the %s message %q contains %s, a special token of the model (reword it)",
				m.Role, textutil.Cut(m.Content, 60), token)
		}
	}
	return nil
}

func (c *Chat) render(messages []hf.Message, prompt bool) (string, error) {
	return c.template.Render(messages, prompt, map[string]any{"bos_token": c.of.begin, "eos_token": c.of.end})
}

// Prompt returns the tokens of a conversation up to where the assistant's next turn begins.
func (c *Chat) Prompt(messages []hf.Message) ([]int, error) {
	text, err := c.prompt(messages)
	if err != nil {
		return nil, err
	}
	return c.of.Tokenizer.Encode(text), nil
}

func (c *Chat) prompt(messages []hf.Message) (string, error) {
	if err := c.check(messages); err != nil {
		return "", err
	}
	return c.render(messages, true)
}

// Answer returns the tokens of the assistant's turn after [Chat.Prompt] of the same messages, as the
// model samples it: up to the end token, or, of a truncated answer, without it. Text of the template
// after the end token is left out.
func (c *Chat) Answer(messages []hf.Message, answer string, truncated bool) ([]int, error) {
	turn := hf.Message{Role: "assistant", Content: answer}
	if err := c.check([]hf.Message{turn}); err != nil {
		return nil, err
	}
	before, err := c.prompt(messages)
	if err != nil {
		return nil, err
	}
	all, err := c.render(append(messages[:len(messages):len(messages)], turn), false)
	if err != nil {
		return nil, err
	}
	text, ok := strings.CutPrefix(all, before)
	if !ok {
		return nil, errors.New("the chat template writes the conversation in another way when the assistant's answer " +
			"follows (write the pair's prompt and completions as texts)")
	}
	tok := c.of.Tokenizer
	ids := tok.EncodeAfter(tok.Encode(before), text, "")
	if at := slices.IndexFunc(ids, func(id int) bool { return slices.Contains(tok.End(), id) }); at >= 0 {
		ids = ids[:at]
	}
	if !truncated {
		end, err := c.Special().AnswerEnd()
		if err != nil {
			return nil, err
		}
		ids = append(ids, end)
	}
	return ids, nil
}

// Frame is a rendered conversation without its last message.
type Frame struct {
	Before, After string // around the message, up to where the assistant's turn begins
	Answer        string // what the template writes from there to the assistant's answer
	Trim          bool   // the template leaves out white space around messages
}

// ChatFrame renders a conversation whose last message is a user's. turns alternate
// between user and assistant. The frame includes the begin token where the template
// puts one, as in transformers: no tokens of [Tokenizer.Start] belong before it.
func (d *Description) ChatFrame(system string, turns []string) (Frame, error) {
	chat, err := d.Chat()
	if err != nil {
		return Frame{}, err
	}
	var messages []hf.Message
	if system != "" {
		messages = append(messages, hf.Message{Role: "system", Content: system})
	}
	for i, text := range turns {
		messages = append(messages, hf.Message{Role: []string{"user", "assistant"}[i%2], Content: text})
	}
	if err := chat.check(messages); err != nil {
		return Frame{}, err
	}
	const mark = "The-Question-goes-HERE"
	render := func(question string) (string, error) {
		last := hf.Message{Role: "user", Content: question}
		return chat.render(append(messages[:len(messages):len(messages)], last), true)
	}
	text, err := render(mark)
	if err != nil {
		return Frame{}, err
	}
	spaced, err := render(" " + mark + "\n")
	if err != nil {
		return Frame{}, err
	}
	f := Frame{Trim: spaced == text}
	var found bool
	f.Before, f.After, found = strings.Cut(text, mark)
	if !found || strings.Contains(f.After, mark) || !f.Trim && spaced != f.Before+" "+mark+"\n"+f.After {
		return Frame{}, errors.New("the chat template does not show the user's message as it is")
	}
	const answer = "The-Answer-goes-HERE"
	whole := append(messages, hf.Message{Role: "user", Content: mark}, hf.Message{Role: "assistant", Content: answer})
	if all, err := chat.render(whole, false); err == nil {
		rest, ok := strings.CutPrefix(all, text)
		if lead, _, found := strings.Cut(rest, answer); ok && found {
			f.Answer = lead
		}
	}
	return f, nil
}
