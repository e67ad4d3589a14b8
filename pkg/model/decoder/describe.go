package decoder

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

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
	compiled   func() (*Chat, error)
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
	for _, name := range []string{"", "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
		"special_tokens_map.json", "chat_template.jinja"} {
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
	d := &Description{Size: Size{Config: *c.Config}, Tokenizer: NewTokenizer(c), chat: c.ChatTemplate, begin: c.Begin,
		end: c.End}
	d.compiled = sync.OnceValues(d.compile)
	if answer := c.Special.Answer; d.end == "" && answer != nil {
		d.end = answer.Text
	}
	if begin := c.Special.Begin; d.begin == "" && len(begin) > 0 {
		d.begin = begin[0].Text
	}
	described.Store(key, d)
	return d, nil
}
