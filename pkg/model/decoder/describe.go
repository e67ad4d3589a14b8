package decoder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"grpo/pkg/model/hf"
)

// IsCheckpoint reports whether path looks like a checkpoint that [Open] reads: a folder
// with config.json and tokenizer.json, or a GGUF file.
func IsCheckpoint(path string) bool {
	if strings.HasSuffix(strings.ToLower(path), ".gguf") {
		return true
	}
	for _, name := range []string{"config.json", "tokenizer.json"} {
		if info, err := os.Stat(filepath.Join(path, name)); err != nil || !info.Mode().IsRegular() {
			return false
		}
	}
	return true
}

// Description is what a checkpoint says before its weights are read.
type Description struct {
	Size      Size
	Tokenizer Tokenizer
	chat      string
}

// described holds the descriptions that were read, because a tokenizer takes a tenth of
// a second.
var described sync.Map // of string to *Description

// Describe reads all of a checkpoint but its weights.
func Describe(path string) (*Description, error) {
	if d, ok := described.Load(path); ok {
		return d.(*Description), nil
	}
	c, err := hf.Open(path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	d := &Description{Size: Size{*c.Config}, Tokenizer: NewTokenizer(c), chat: strings.Clone(c.ChatTemplate)}
	described.Store(path, d)
	return d, nil
}

// ChatFrame renders a conversation whose last message is a user's, and returns the text
// before and after it, up to where the assistant's turn begins. turns alternate between
// user and assistant.
func (d *Description) ChatFrame(system string, turns []string) (before, after string, err error) {
	if d.chat == "" {
		return "", "", errors.New("the checkpoint has no chat template")
	}
	template, err := hf.NewChatTemplate(d.chat)
	if err != nil {
		return "", "", err
	}
	var messages []hf.Message
	if system != "" {
		messages = append(messages, hf.Message{Role: "system", Content: system})
	}
	for i, text := range turns {
		messages = append(messages, hf.Message{Role: []string{"user", "assistant"}[i%2], Content: text})
	}
	const mark = "THE-QUESTION-GOES-HERE"
	messages = append(messages, hf.Message{Role: "user", Content: mark})
	end := ""
	if ids := d.Tokenizer.End(); len(ids) > 0 {
		end = d.Tokenizer.bpe.Decode(narrow(ids[:1]), false)
	}
	// The begin token is not text here: [Tokenizer.Start] has it.
	text, err := template.Render(messages, true, map[string]any{"bos_token": "", "eos_token": end})
	if err != nil {
		return "", "", err
	}
	before, after, ok := strings.Cut(text, mark)
	if !ok || strings.Contains(after, mark) {
		return "", "", fmt.Errorf("the chat template does not show the user's message as it is")
	}
	return before, after, nil
}
