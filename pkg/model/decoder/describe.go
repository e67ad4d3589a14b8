package decoder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"grpo/internal/textutil"
	"grpo/pkg/model/hf"
)

// IsCheckpoint reports whether path looks like a checkpoint that [Open] reads: a GGUF
// file, or a folder with config.json or tokenizer.json, though others may be missing.
func IsCheckpoint(path string) bool {
	if strings.HasSuffix(strings.ToLower(path), ".gguf") {
		return true
	}
	return slices.ContainsFunc([]string{"config.json", "tokenizer.json"}, func(name string) bool {
		info, err := os.Stat(filepath.Join(path, name))
		return err == nil && info.Mode().IsRegular()
	})
}

// Description is what a checkpoint says before its weights are read.
type Description struct {
	Size       Size
	Tokenizer  Tokenizer
	chat       string
	begin, end string // the tokens that the chat template is given
}

// described holds the descriptions that were read, because a GGUF file's metadata take
// some time. The key is [stamp].
var described sync.Map // of string to *Description

// stamp changes if a file of a checkpoint does.
func stamp(path string) string {
	out, err := filepath.Abs(path)
	if err != nil {
		out = path
	}
	for _, name := range []string{"", "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"} {
		if info, err := os.Stat(filepath.Join(path, name)); err == nil {
			out += fmt.Sprintf("|%s %d %d", name, info.Size(), info.ModTime().UnixNano())
		}
	}
	return out
}

// Describe reads all of a checkpoint but its weights.
func Describe(path string) (*Description, error) {
	key := stamp(path)
	if d, ok := described.Load(key); ok {
		return d.(*Description), nil
	}
	c, err := hf.Open(path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	d := &Description{Size: Size{Config: *c.Config}, Tokenizer: NewTokenizer(c), chat: c.ChatTemplate, begin: c.Begin, end: c.End}
	if ids := d.Tokenizer.End(); d.end == "" && len(ids) > 0 {
		d.end, _ = d.Tokenizer.Token(ids[0])
	}
	if ids := d.Tokenizer.Start(); d.begin == "" && len(ids) > 0 {
		d.begin, _ = d.Tokenizer.Token(ids[0])
	}
	described.Store(key, d)
	return d, nil
}

// Frame is a rendered conversation without its last message.
type Frame struct {
	Before, After string // around the message, up to where the assistant's turn begins
	Trim          bool   // the template leaves out white space around messages
}

// ChatFrame renders a conversation whose last message is a user's. turns alternate
// between user and assistant. The frame includes the begin token where the template
// puts one, as in transformers: no tokens of [Tokenizer.Start] belong before it.
func (d *Description) ChatFrame(system string, turns []string) (Frame, error) {
	if d.chat == "" {
		return Frame{}, errors.New("the checkpoint has no chat template")
	}
	template, err := hf.NewChatTemplate(d.chat)
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
	for _, m := range messages {
		if token := d.Tokenizer.bpe.FirstSpecial(m.Content); token != "" {
			return Frame{}, fmt.Errorf("the %s message %q contains %s, a special token of the model (reword it)",
				m.Role, textutil.Cut(m.Content, 60), token)
		}
	}
	const mark = "The-Question-goes-HERE"
	render := func(question string) (string, error) {
		return template.Render(append(messages[:len(messages):len(messages)], hf.Message{Role: "user", Content: question}), true,
			map[string]any{"bos_token": d.begin, "eos_token": d.end})
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
	return f, nil
}
