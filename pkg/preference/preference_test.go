package preference

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// show is a pair in a few words.
func show(p Pair) string {
	text := func(t Text) string {
		out := t.Plain
		for _, m := range t.Turns {
			out += fmt.Sprintf("[%s:%s]", m.Role, m.Content)
		}
		return out
	}
	out := text(p.Prompt) + "|" + text(p.Chosen) + "|" + text(p.Rejected)
	if p.Margin != nil {
		out += fmt.Sprintf("|%v", *p.Margin)
	}
	if p.ChosenTruncated || p.RejectedTruncated {
		out += fmt.Sprintf("|%v %v", p.ChosenTruncated, p.RejectedTruncated)
	}
	return out
}

const turns = `[{"role":"user","content":"q"},{"role":"assistant","content":"%s"}]`

func TestRead(t *testing.T) {
	a, b := fmt.Sprintf(turns, "a"), fmt.Sprintf(turns, "b")
	for _, c := range []struct{ name, in, want, says string }{
		{"text", `{"prompt":"q","chosen":"a","rejected":"b"}`, "q|a|b", ""},
		{"all fields", `{"id":"x","prompt":"q","chosen":"a","rejected":"b","margin":0.5,"chosen_truncated":true,"other":[1]}`, "q|a|b|0.5|true false", ""},
		{"turns", `{"prompt":[{"role":"user","content":"q"}],"chosen":[{"role":"assistant","content":"a"}],"rejected":[{"role":"assistant","content":"b"}]}`, "[user:q]|[assistant:a]|[assistant:b]", ""},
		{"conversations", `{"chosen":` + a + `,"rejected":` + b + `}`, "[user:q]|[assistant:a]|[assistant:b]", ""},
		{"conversations and a prompt of text", `{"prompt":"q","chosen":` + a + `,"rejected":` + b + `}`, "[user:q]|[assistant:a]|[assistant:b]", ""},
		{"cut differs", `{"prompt":"q","chosen":"a","rejected":"a","rejected_truncated":true}`, "q|a|a|false true", ""},
		{"null margin", `{"prompt":"q","chosen":"a","rejected":"b","margin":null}`, "q|a|b", ""},

		{"identical", `{"prompt":"q","chosen":"a","rejected":"a"}`, "", "line 1: chosen and rejected are identical"},
		{"identical conversations", `{"chosen":` + a + `,"rejected":` + a + `}`, "", "chosen and rejected are identical"},
		{"empty completion", `{"prompt":"q","chosen":"a","rejected":""}`, "", `"rejected" is empty`},
		{"empty prompt", `{"prompt":"","chosen":"a","rejected":"b"}`, "", `"prompt" is empty`},
		{"no turns", `{"prompt":[],"chosen":[{"role":"assistant","content":"a"}],"rejected":[{"role":"assistant","content":"b"}]}`, "", `"prompt" is empty: it has no turns`},
		{"missing field", `{"prompt":"q","choosen":"a","rejected":"b"}`, "", `no "chosen" (is it "choosen"? rename the field)`},
		{"another margin", `{"prompt":"q","chosen":"a","rejected":"b","margin":"big"}`, "", `"margin" is a string, want a number`},
		{"huge margin", `{"prompt":"q","chosen":"a","rejected":"b","margin":1e999}`, "", `"margin" is "1e999", which is too large`},
		{"another role", `{"chosen":[{"role":"asistant","content":"a"}],"rejected":"b"}`, "", `is "asistant" (did you mean "assistant"?)`},
		{"no content", `{"chosen":[{"role":"user"}],"rejected":"b"}`, "", `turn 1 of "chosen" needs a "role" and a "content"`},
		{"mixed", `{"prompt":"q","chosen":` + a + `,"rejected":"b"}`, "", "must both be texts or both be turns"},
		{"turns of prompt only", `{"prompt":[{"role":"user","content":"q"}],"chosen":"a","rejected":"b"}`, "", `"prompt" has turns but`},
		{"two answers", `{"prompt":[{"role":"user","content":"q"}],"chosen":` + a + `,"rejected":` + b + `}`, "", `"chosen" must be one turn of the assistant`},
		{"prompt ends with an answer", `{"prompt":` + a + `,"chosen":[{"role":"assistant","content":"a"}],"rejected":[{"role":"assistant","content":"b"}]}`, "", "ends with a turn of the assistant"},
		{"nothing in common", `{"chosen":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}],"rejected":[{"role":"user","content":"p"},{"role":"assistant","content":"a"}]}`, "", "begin with different turns"},
		{"a flag of another type", `{"prompt":"q","chosen":"a","rejected":"b","chosen_truncated":1}`, "", "is a number, want true or false"},
		{"two keys", `{"prompt":"q","chosen":"a","chosen":"c","rejected":"b"}`, "", `the key "chosen" appears twice`},
		{"not an object", `["q"]`, "", "an array, want an object"},
		{"not JSON", `{`, "", "broken JSON"},
		{"nothing", "\n\n", "", "the file has no pairs"},
		{"second line", `{"prompt":"q","chosen":"a","rejected":"b"}` + "\n\n{}", "", "line 3: no \"chosen\""},
	} {
		pairs, _, err := Read(strings.NewReader(c.in), "x.jsonl", false)
		switch {
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		case c.says == "" && (err != nil || len(pairs) != 1 || show(pairs[0]) != c.want || pairs[0].Line != 1):
			t.Errorf("%s: %+v, %v, want %s", c.name, pairs, err, c.want)
		}
	}
}

func TestSkip(t *testing.T) {
	in := `{"prompt":"q","chosen":"a","rejected":"a"}
{"prompt":"q","chosen":"","rejected":"a"}
{"prompt":"q","chosen":"b","rejected":"a"}
[]
`
	pairs, r, err := Read(strings.NewReader(in), "x", true)
	if err != nil || len(pairs) != 1 || pairs[0].Line != 3 || r != (Report{4, 1, 3, 1, 1, "line 1: chosen and rejected are identical"}) {
		t.Errorf("%+v, %+v, %v", pairs, r, err)
	}
	if _, _, err := Read(strings.NewReader("[]\n"), "x", true); err == nil || !strings.Contains(err.Error(), "all of its 1 lines are invalid; the first: line 1") {
		t.Errorf("error %v", err)
	}
	if _, _, err := ReadFile(filepath.Join(t.TempDir(), "none"), false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// What is written is read back, and written again with the same bytes.
func TestWriteThenRead(t *testing.T) {
	word := rapid.StringMatching(`[ -~\x{2028}é<>&"\\\n]{1,12}`)
	rapid.Check(t, func(t *rapid.T) {
		p := Pair{ID: rapid.StringMatching(`[a-z0-9]{0,4}`).Draw(t, "id"), Prompt: Text{Plain: word.Draw(t, "prompt")},
			Chosen: Text{Plain: word.Draw(t, "chosen")}, Rejected: Text{Plain: word.Draw(t, "rejected")},
			ChosenTruncated: rapid.Bool().Draw(t, "cut"), RejectedTruncated: rapid.Bool().Draw(t, "cut too")}
		if rapid.Bool().Draw(t, "chat") {
			p.Prompt.Turns, p.Prompt.Plain = []Message{{"system", p.Prompt.Plain}, {"user", "q"}}, ""
			p.Chosen.Turns, p.Chosen.Plain = []Message{{"assistant", p.Chosen.Plain}}, ""
			p.Rejected.Turns, p.Rejected.Plain = []Message{{"assistant", p.Rejected.Plain}}, ""
		}
		if rapid.Bool().Draw(t, "margin") {
			m := rapid.Float64Range(-1e300, 1e300).Draw(t, "m")
			p.Margin = &m
		}
		checkRoundTrip(t, p)
	})
}

func checkRoundTrip(t interface{ Fatalf(string, ...any) }, p Pair) {
	var first, second bytes.Buffer
	if err := Write(&first, []Pair{p}); err != nil {
		t.Fatalf("write: %v", err)
	}
	pairs, _, err := Read(bytes.NewReader(first.Bytes()), "x", false)
	if errors.Is(err, ErrIdentical) {
		return
	}
	if err != nil || show(pairs[0]) != show(p) || pairs[0].ID != p.ID {
		t.Fatalf("%s read as %+v, %v", first.String(), pairs, err)
	}
	if err := Write(&second, pairs); err != nil || second.String() != first.String() {
		t.Fatalf("%q, then %q: %v", first.String(), second.String(), err)
	}
}

// FuzzRead: any bytes are an error or pairs that survive writing.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"prompt":"q","chosen":"a","rejected":"b","margin":1e-3,"id":7}`))
	f.Add([]byte(`{"chosen":` + fmt.Sprintf(turns, "a") + `,"rejected":` + fmt.Sprintf(turns, "b") + "}\n[]\n"))
	f.Add([]byte("\xef\xbb\xbf{\"prompt\":\"\xff\"}\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		pairs, r, err := Read(bytes.NewReader(data), "x", true)
		if err == nil && (r.Lines != r.Pairs+r.Skipped || len(pairs) != r.Pairs || r.Pairs == 0) {
			t.Fatalf("%+v for %d pairs", r, len(pairs))
		}
		for _, p := range pairs {
			checkRoundTrip(t, p)
		}
		if strict, _, strictErr := Read(bytes.NewReader(data), "x", false); strictErr == nil && len(strict) != len(pairs) {
			t.Fatalf("%d pairs if strict, otherwise %d", len(strict), len(pairs))
		}
	})
}
