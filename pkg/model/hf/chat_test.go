package hf

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/golden"
	"grpo/pkg/model/hf/bpe"
)

// Rendered conversations equal those of transformers, byte for byte.
func TestGoldenChatTemplates(t *testing.T) {
	var g struct {
		Templates map[string]struct {
			Variables map[string]any
			Template  string
		}
		Conversations map[string]json.RawMessage
		Renders       []struct {
			Template, Conversation string
			Prompt                 bool `json:"add_generation_prompt"`
			Tools                  bool
			Kwargs                 map[string]any
			Text, Tokenizer        string
			IDs                    []int32
		}
	}
	golden.ReadJSON(t, golden.Path(t, "golden", "trl2", "chat_templates.json"), &g, "source", "tools")
	tokenizers := map[string]*bpe.Tokenizer{}
	rendered, around := 0, 0
	for _, r := range g.Renders {
		var messages []Message
		var raw []map[string]any
		expect.OK(t, json.Unmarshal(g.Conversations[r.Conversation], &raw))
		plain := !r.Tools
		for _, m := range raw {
			plain = plain && len(m) == 2 // tool calls and reasoning are not turns of ours
		}
		if !plain || json.Unmarshal(g.Conversations[r.Conversation], &messages) != nil {
			continue
		}
		rendered++
		template, err := NewChatTemplate(g.Templates[r.Template].Template)
		if err != nil {
			t.Fatalf("%s: %v", r.Template, err)
		}
		vars := map[string]any{}
		for k, v := range g.Templates[r.Template].Variables {
			vars[k] = v
		}
		for k, v := range r.Kwargs {
			vars[k] = v
		}
		got, err := template.Render(messages, r.Prompt, vars)
		if err != nil || got != r.Text {
			t.Errorf("%s, %s, %v: %v\n got %q\nwant %q", r.Template, r.Conversation, r.Kwargs, err, got, r.Text)
			continue
		}
		if r.Tokenizer == "" {
			continue
		}
		tok := tokenizers[r.Tokenizer]
		if tok == nil {
			tok, err = bpe.Parse(golden.File(t, "tokenizers", r.Tokenizer, "tokenizer.json"))
			expect.OK(t, err)
			tokenizers[r.Tokenizer] = tok
		}
		if ids := tok.Encode(got); !slices.Equal(ids, r.IDs) {
			t.Errorf("%s, %s: ids %v, want %v", r.Template, r.Conversation, ids, r.IDs)
		}
		for _, m := range messages { // as plain text, ordinary messages have the same ids
			before, after, ok := strings.Cut(got, m.Content)
			if !ok || slices.ContainsFunc(tok.Encode(m.Content), tok.Special) {
				continue
			}
			around++
			if ids := tok.EncodeAround(before, m.Content, after); !slices.Equal(ids, r.IDs) {
				t.Errorf("%s, %s: ids %v around %q, want %v", r.Template, r.Conversation, ids, m.Content, r.IDs)
			}
		}
	}
	if rendered < len(g.Renders)/2 {
		t.Errorf("only %d of %d renders were tried", rendered, len(g.Renders))
	}
	if around == 0 {
		t.Error("no message was encoded as plain text")
	}
}

// Whatever a template is, compiling and rendering it end in a text or an error.
func FuzzChatTemplate(f *testing.F) {
	for _, s := range []string{
		"{% for m in messages %}<|im_start|>{{ m['role'] + '\n' + m.content | trim }}{% endfor %}", "{{ messages[::-1] | tojson(indent=2) }}",
		"{% if not x is defined %}{% set x = none %}{% endif %}{{ 2 * messages | length }}", "{{ 'a'.replace('a', 'b') | join(', ') }}", "{{ 'x' * y }}",
		"{% macro a(b, c=1) %}{{ b }}{% endmacro %}{{ a(1, c=2) }}", "{% set ns = namespace(a=1) %}{% set ns.a = [1, {'b': 2}] %}{{ ns.a[1]['b'] }}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		template, err := NewChatTemplate(source)
		if err == nil {
			_, _ = template.Render([]Message{{"user", "Hello"}}, true, nil)
		}
	})
}
