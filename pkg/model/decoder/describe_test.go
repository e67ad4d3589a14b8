package decoder

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
	"grpo/pkg/model"
	"grpo/pkg/model/hf"
)

// withTemplate is a tiny checkpoint with another chat template.
func withTemplate(t *testing.T, template string) *Description {
	t.Helper()
	dir := decodertest.Folder(t)
	data, err := json.Marshal(map[string]any{"chat_template": template, "bos_token": map[string]any{"content": "<|start|>"}, "eos_token": "<|end|>"})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), data, 0o644)
	}
	expect.OK(t, err)
	d, err := Describe(dir)
	expect.OK(t, err)
	return d
}

func TestChatFrame(t *testing.T) {
	const loop = "{% for m in messages %}"
	tests := []struct {
		name, template string
		system         string
		want           Frame
		says           string
	}{
		{name: "plain", template: "{{ bos_token }}" + loop + "[{{ m.role }}]{{ m.content }}{{ eos_token }}{% endfor %}>", system: "S",
			want: Frame{"<|start|>[system]S<|end|>[user]Q<|end|>[assistant]A<|end|>[user]", "<|end|>>", "", false}},
		{name: "trimmed", template: loop + "{{ m.content | trim }};{% endfor %}", want: Frame{"Q;A;", ";", "", true}},
		{name: "tools are none", template: loop + "{{ m.content }}{% endfor %}{% if tools is not none %}T{% endif %}", want: Frame{"QA", "", "", false}},
		{name: "the date is fixed", template: "{{ strftime_now('%d %b %Y, %%') }}" + loop + "{{ m.content }}{% endfor %}", want: Frame{"26 Jul 2024, %QA", "", "", false}},
		{name: "thoughts", template: loop + "[{{ m.role }}]{% if loop.last and m.role == 'assistant' %}<think></think>{% endif %}{{ m.content }}{% endfor %}" +
			"{% if add_generation_prompt %}[assistant]{% endif %}", want: Frame{"[user]Q[assistant]A[user]", "[assistant]", "<think></think>", false}},
		{name: "another opening", template: loop + "[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[answer]{% endif %}",
			want: Frame{"[user]Q[assistant]A[user]", "[answer]", "", false}},
		{name: "no question", template: "x", says: "does not show"},
		{name: "twice", template: loop + "{{ m.content }}{{ m.content }}{% endfor %}", says: "does not show"},
		{name: "changed", template: loop + "{{ m.content | upper }}{% endfor %}", says: "does not show"},
		{name: "refuses a role", template: "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}", system: "S", says: "no system role"},
		{name: "special token", template: loop + "{{ m.content }}{% endfor %}", system: "a<|end|>b", says: `the system message "a<|end|>b" contains <|end|>`},
		{name: "syntax", template: "{% for %}", says: "compile the chat template"},
		{name: "no template", says: "no chat template"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := withTemplate(t, tt.template).ChatFrame(tt.system, []string{"Q", "A"})
			if tt.says == "" && (err != nil || got != tt.want) || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("%+v, %v; want %+v, %q", got, err, tt.want, tt.says)
			}
		})
	}
}

// An answer of a chat ends as the template says, one of a text as the tokenizer says.
func TestChatSpecial(t *testing.T) {
	const start, end = decodertest.Vocab - 2, decodertest.Vocab - 1
	const loop = "{% for m in messages %}[{{ m.role }}]{{ m.content }}"
	for _, tt := range []struct {
		template      string
		begin, answer int
		opens         string
	}{
		{"{{ bos_token }}" + loop + "!<|start|><|end|>{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}", start, start, "[assistant]"},
		{loop + "{{ eos_token }}{% endfor %}", -1, end, ""},
		{loop + "{% endfor %}", -1, end, ""},
		{"{{ raise_exception('no') }}", -1, end, ""},
	} {
		d := withTemplate(t, tt.template)
		d.Tokenizer.special.End = append(d.Tokenizer.special.End, model.SpecialToken{ID: start})
		d.Tokenizer.end = append(d.Tokenizer.end, start)
		c, err := d.Chat()
		expect.OK(t, err)
		begin := -1
		for _, x := range c.Special().Begin {
			begin = x.ID
		}
		if a := c.Special().Answer; a == nil || a.ID != tt.answer || begin != tt.begin {
			t.Errorf("%s: begins with %d, an answer ends in %v", tt.template, begin, a)
		}
		if c.Opens("x"+tt.opens) != (tt.opens != "") || c.Opens("x") {
			t.Errorf("%s: %q does not open a turn, or everything does", tt.template, tt.opens)
		}
		if ids, err := c.Answer([]hf.Message{{Role: "user", Content: "q"}}, "a", false); err == nil && ids[len(ids)-1] != tt.answer {
			t.Errorf("%s: an answer is %v", tt.template, ids)
		}
	}
}

// What a question says can't end the user's turn.
func TestQuestionsArePlainText(t *testing.T) {
	d := withTemplate(t, "")
	end := decodertest.Vocab - 1
	ids := d.Tokenizer.EncodeAround("<|start|>", "a<|end|>", "<|end|>")
	if want := []int{end - 1, 'a', '<', '|', 'e', 'n', 'd', '|', '>', end}; !slices.Equal(ids, want) {
		t.Errorf("ids %v, want %v", ids, want)
	}
	if text, special := d.Tokenizer.Token(end); text != "<|end|>" || !special {
		t.Errorf("token %q, special %v", text, special)
	}
}

// An end token that the tokenizer does not mark as special has no text, and can't be in a message.
func TestEndTokenThatIsNotSpecial(t *testing.T) {
	dir := decodertest.Folder(t)
	path := filepath.Join(dir, "tokenizer.json")
	data, err := os.ReadFile(path)
	expect.OK(t, err)
	text := strings.ReplaceAll(strings.ReplaceAll(string(data), `"special": `, `"special":`), `"special":true`, `"special":false`)
	config := `{"chat_template":"{{ messages[0].content }}"}`
	for path, text := range map[string]string{path: text, filepath.Join(dir, "tokenizer_config.json"): config} {
		expect.OK(t, os.WriteFile(path, []byte(text), 0o644))
	}
	d, err := Describe(dir)
	expect.OK(t, err)
	end := d.Tokenizer.End()[0]
	if got := d.Tokenizer.Decode(append(d.Tokenizer.Encode("ab"), end)); got != "ab" {
		t.Errorf("decoded %q", got)
	}
	name, special := d.Tokenizer.Token(end)
	if _, err := d.ChatFrame("a"+name, nil); !special || err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("special %v, error %v", special, err)
	}
}
