package gsm8k

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"grpo/internal/expect"
	"grpo/internal/jsonl"
)

const good = `{"question": "How many?", "answer": "6+6=<<6+6=12>>12\n#### 12"}` + "\n"

func TestReadJSONL(t *testing.T) {
	for _, c := range []struct {
		name, in string
		question string
		gold     string
		line     int
	}{
		{"plain", good, "How many?", "12", 1},
		{"no final line end", strings.TrimSpace(good), "How many?", "12", 1},
		{"carriage return", strings.ReplaceAll(good, "\n", "\r\n"), "How many?", "12", 1},
		{"byte order mark", "\xef\xbb\xbf" + good, "How many?", "12", 1},
		{"blank lines count as lines", "\n  \n" + good, "How many?", "12", 3},
		{"raw U+2028 in a string", `{"question":"How` + "\u2028" + `many?","answer":"#### 12"}`, "How\u2028many?", "12", 1},
		{"foreign keys", `{"id":[5],"type":[1],"level":"x","question":"q","answer":"#### 1"}`, "q", "1", 1},
		{"blank after the answer", `{"question":"q","answer":"#### 1 \n \n"}`, "q", "1", 1},
		{"longer than a buffer", `{"question":"` + strings.Repeat("q", 1<<20) + `","answer":"#### 1"}`, strings.Repeat("q", 1<<20), "1", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			ps, rep, err := ReadJSONL(strings.NewReader(c.in), "dir/x.jsonl", ReadOptions{})
			expect.OK(t, err)
			if rep != (ReadReport{Lines: 1, Problems: 1}) || len(ps) != 1 {
				t.Fatalf("report %+v, %d problems", rep, len(ps))
			}
			if p := ps[0]; p.Question != c.question || p.Gold != c.gold || p.Line != c.line {
				t.Errorf("line %d, gold %q, question %.40q", p.Line, p.Gold, p.Question)
			}
			if want := "x-0000" + string(rune('0'+c.line)); ps[0].ID != want {
				t.Errorf("ID %q, want %q", ps[0].ID, want)
			}
		})
	}
}

// An ID may be a number, and a type that is no text is a field of the user's own.
func TestOwnUseOfKeys(t *testing.T) {
	const in = `{"id":5,"type":3,"fact":["x"],"question":"q","answer":1}`
	ps, _, err := ReadJSONL(strings.NewReader(in), "x.jsonl", ReadOptions{})
	expect.OK(t, err)
	if p := ps[0]; p.ID != "5" || p.Type != "" || p.Fact != "" || p.Fields != `{"fact":["x"],"type":3}` {
		t.Errorf("%+v", p)
	}
}

// badLines are shared by the strict and the skipping reader.
var badLines = []struct{ name, line, reason string }{
	{"broken JSON", `{"question": "q", "answer": "#### 1"`, "broken JSON: unexpected end"},
	{"null", `null`, "null, want an object"},
	{"no question", `{"answer": "#### 1"}`, `no "question"`},
	{"wrong case", `{"Question": "q", "answer": "#### 1"}`, `no "question"`},
	{"question of another type", `{"question": 5, "answer": "#### 1"}`, `"question" is a number, want a string`},
	{"a key twice", `{"question": "a", "answer": "#### 1", "question": "b"}`, `the key "question" appears twice`},
	{"other fields", `{"target": "1", "input": "a"}`, `no "question", "answer": its fields are "input", "target"; a problem in GSM8K's form has "question", "answer"`},
	{"null question", `{"question": null, "answer": "#### 1"}`, `"question" is null, want a string`},
	{"empty question", `{"question": " ", "answer": "#### 1"}`, `"question" is empty`},
	{"no answer", `{"question": "q"}`, `no "answer"`},
	{"answer of another type", `{"question": "q", "answer": ["#### 1"]}`, `"answer" is an array, want a string`},
	{"no marker", `{"question": "q", "answer": "12 pens"}`, `no "#### N" in "answer"`},
	{"no number", `{"question": "q", "answer": "#### twelve"}`, `"twelve" after "####" in "answer" is not a number`},
	{"text after", `{"question": "q", "answer": "#### 1\nbye"}`, `text after the line "#### N" in "answer"`},
	{"not UTF-8", "{\"question\": \"\xff\", \"answer\": \"#### 1\"}", "not valid UTF-8"},
	{"too long", strings.Repeat("x", jsonl.MaxLine+1), "longer than 16 MiB"},
}

func TestReadJSONLBadLine(t *testing.T) {
	for _, c := range badLines {
		t.Run(c.name, func(t *testing.T) {
			in := good + "\n" + c.line + "\n" + good
			_, _, err := ReadJSONL(strings.NewReader(in), "x.jsonl", ReadOptions{})
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range []string{"x.jsonl: line 3: ", c.reason, "pass --skip-bad"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not contain %q", err, want)
				}
			}

			ps, rep, err := ReadJSONL(strings.NewReader(in), "x.jsonl", ReadOptions{SkipBad: true})
			if err != nil {
				t.Fatalf("with SkipBad: %v", err)
			}
			if rep.Lines != 3 || rep.Problems != 2 || rep.Skipped != 1 || !strings.HasPrefix(rep.FirstBad, "line 3: ") || !strings.Contains(rep.FirstBad, c.reason) {
				t.Errorf("report %+v", rep)
			}
			if len(ps) != 2 || ps[1].Line != 4 {
				t.Errorf("problems %+v", ps)
			}
		})
	}
}

func TestReadJSONLNothing(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", "x.jsonl: the file has no problems"},
		{"blank", "\n \r\n", "x.jsonl: the file has no problems"},
		{"byte order mark alone", "\xef\xbb\xbf", "x.jsonl: the file has no problems"},
		{"all bad", "{}\n[]\n", `x.jsonl: all of its 2 records are invalid; the first: line 1: no "question"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := ReadJSONL(strings.NewReader(c.in), "x.jsonl", ReadOptions{SkipBad: true})
			expect.Error(t, err, c.want)
		})
	}
}

// If no line is valid, skipping does not help and the error does not suggest it.
func TestReadNoneGood(t *testing.T) {
	jsonl := `{"input": "a", "target": "1"}` + "\n"
	svamp := `[{"input": "a", "target": 1},` + "\n" + `{"input": "b", "target": 2}]`
	for _, c := range []struct {
		name string
		read func(io.Reader, string, ReadOptions) ([]Problem, ReadReport, error)
		in   string
		want []string
	}{
		{"x.jsonl", ReadJSONL, jsonl + jsonl, []string{`"input", "target"`, `"question", "answer"`}},
		{"x.json", ReadSVAMP, svamp, []string{`"input", "target"`, `"Body", "Question", "Answer"`}},
	} {
		_, _, err := c.read(strings.NewReader(c.in), c.name, ReadOptions{})
		if err == nil || strings.Contains(err.Error(), "skip-bad") {
			t.Fatalf("%s: error %v", c.name, err)
		}
		for _, want := range append(c.want, c.name+": line 1: ", "0 of 2 records") {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %q does not contain %q", c.name, err, want)
			}
		}
	}
	_, _, err := ReadSVAMP(strings.NewReader(`[{"Body":"x","Question":"q","Answer":1,`+"\n"+`"Answer":2}]`), "x.json", ReadOptions{})
	expect.Error(t, err, `x.json: line 1: the key "Answer" appears twice`)
}

func TestReadJSONLReaderFails(t *testing.T) {
	fault := errors.New("disk on fire")
	r := io.MultiReader(strings.NewReader(good), iotest.ErrReader(fault))
	_, _, err := ReadJSONL(r, "x.jsonl", ReadOptions{SkipBad: true})
	if !errors.Is(err, fault) || !strings.Contains(err.Error(), "x.jsonl: after line 1") {
		t.Errorf("error %v", err)
	}
}

func TestWriteJSONL(t *testing.T) {
	var b bytes.Buffer
	p := Problem{ID: "a", Question: "q\u2028 <x>", Answer: "<<1+1=2>>2\n#### 2", Gold: "2"}
	expect.OK(t, WriteJSONL(&b, []Problem{p}))
	const want = `{"id":"a","question":"q\u2028 <x>","answer":"<<1+1=2>>2\n#### 2"}` + "\n"
	if b.String() != want {
		t.Errorf("wrote %q, want %q", b.String(), want)
	}
	expect.Error(t, WriteJSONL(failingWriter{}, []Problem{p}), "disk full")
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWriteThenRead(t *testing.T) {
	text := rapid.StringMatching(`[ -~\x{2028}é"\\\n\t]{0,20}[a-z]`)
	rapid.Check(t, func(t *rapid.T) {
		var want []Problem
		for i := range rapid.IntRange(1, 5).Draw(t, "n") {
			gold := rapid.StringMatching(`-?[0-9]{1,5}(\.[0-9]{1,3})?`).Draw(t, "gold")
			want = append(want, Problem{
				ID: text.Draw(t, "id"), Question: text.Draw(t, "question"),
				Answer: text.Draw(t, "work") + "\n#### " + gold, Gold: gold,
				Type: text.Draw(t, "type"), Fact: text.Draw(t, "fact"), Line: i + 1,
			})
		}
		var b bytes.Buffer
		expect.OK(t, WriteJSONL(&b, want))
		got, _, err := ReadJSONL(&b, "x.jsonl", ReadOptions{})
		expect.OK(t, err)
		if !slices.Equal(got, want) {
			t.Fatalf("read %+v, wrote %+v", got, want)
		}
	})
}
