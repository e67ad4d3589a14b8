package gsm8k

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/jsonl"
)

// named writes a file of this name and returns its path.
func named(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	expect.OK(t, os.WriteFile(path, data, 0o644))
	return path
}

// show is a problem as a line.
func show(problems []Problem) string {
	var out []string
	for _, p := range problems {
		out = append(out, fmt.Sprintf("%d %s %s|%s|%s", p.Line, p.ID, p.Question, p.Answer, p.Gold))
	}
	return strings.Join(out, "; ")
}

func TestFields(t *testing.T) {
	mapped := Fields{Question: "input", Answer: "target"}
	for _, c := range []struct {
		name, file, in string
		fields         Fields
		want           string
	}{
		{"JSONL", "x.jsonl", `{"input":"q","target":"1+1=<<1+1=2>>2\n#### 2","question":5}`, mapped, "1 x-00001 q|1+1=<<1+1=2>>2\n#### 2|2"},
		{"a number", "x.jsonl", `{"question":"q","answer":72.0}`, Fields{}, "1 x-00001 q|#### 72|72"},
		{"a large number", "x.jsonl", `{"question":"q","answer":123456789012345678901}`, Fields{}, "1 x-00001 q|#### 123456789012345678901|123456789012345678901"},
		{"the text of a number", "x.jsonl", `{"question":"q","answer":" $1,234. "}`, Fields{}, "1 x-00001 q|#### 1234|1234"},
		{"one name", "x.jsonl", `{"question":"q","target":3}`, Fields{Answer: "target"}, "1 x-00001 q|#### 3|3"},
		{"an array", "x.json", "[{\"question\":\"q\",\"answer\":1},\n{\"id\":\"own\",\"question\":\"r\",\"answer\":\"#### 2\"}]", Fields{}, "1 x-00001 q|#### 1|1; 2 own r|#### 2|2"},
		{"a mapped array", "x.json", `[{"input":"q","target":1,"Body":"b"}]`, mapped, "1 x-00001 q|#### 1|1"},
		{"an array of both forms", "x.json", "[" + svampOne + `,{"question":"q","answer":1}]`, Fields{}, ""},
		{"CSV", "x.csv", "input,target,id\nq,1,a\n\"r, \"\"s\"\"\nt\",\"#### 2\",b\n", mapped, "2 a q|#### 1|1; 3 b r, \"s\"\nt|#### 2|2"},
		{"CSV with a mark and CRLF", "x.CSV", "\xef\xbb\xbfquestion,answer\r\nq,1\r\n\r\nr,2\r\n", Fields{}, "2 x-00002 q|#### 1|1; 4 x-00004 r|#### 2|2"},
	} {
		problems, report, err := ReadFile(named(t, c.file, []byte(c.in)), ReadOptions{Fields: c.fields})
		if got := show(problems); err != nil || c.want != "" && got != c.want || report.Problems != len(problems) {
			t.Errorf("%s: %s, %v, want %s", c.name, got, err, c.want)
		}
	}
}

// Each error is one line that names the file and the line, and, for missing fields, those found and
// expected.
func TestFieldErrors(t *testing.T) {
	mapped := Fields{Question: "input", Answer: "target"}
	for _, c := range []struct{ name, file, in, want string }{
		{"JSONL", "x.jsonl", `{"question":"q","answer":1}`, `line 1: no "input", "target": its fields are "answer", "question"; a problem in the configured form has "input", "target" (rename the fields, or name them with data.fields; "grpo data stats" has --fields)`},
		{"an array", "x.json", "[\n{\"question\":\"q\"}]", `line 2: no "input", "target": its fields are "question"; `},
		{"CSV", "x.csv", "question,answer\nq,1\n", `line 1: no "input", "target": its fields are "question", "answer"; `},
		{"a nested question", "x.jsonl", `{"input":{"text":"q"},"target":1}`, `line 1: "input" is an object, want a string`},
		{"a nested answer", "x.jsonl", `{"input":"q","target":[1]}`, `line 1: "target" is an array, want a string or a number`},
		{"a truth value", "x.jsonl", `{"input":"q","target":true}`, `line 1: "target" is a boolean, want a string or a number`},
		{"an exponent", "x.jsonl", `{"input":"q","target":1e400}`, `line 1: "target" 1e400 is not a plain decimal number`},
		{"text", "x.csv", "input,target\nq,many\n", `line 2: no "#### N" in "target", which is not a plain number either`},
		{"an empty question", "x.csv", "input,target\n ,1\n", `line 2: "input" is empty`},
		{"a field too many", "x.csv", "input,target\nq,1,2\n", `line 2: 3 fields, want 2 as in line 1`},
		{"a quote", "x.csv", "input,target\nq\"q,1\n", `line 2: bare " in non-quoted-field`},
		{"an open quote", "x.csv", "input,target\n\"q,1\n", `line 2: extraneous or missing " in quoted-field`},
		{"a field twice", "x.csv", "input,target,input\n", `line 1: the field "input" appears twice`},
		{"bad UTF-8", "x.csv", "input,target\nq\xff,1\n", `line 2: not valid UTF-8`},
		{"a bad header", "x.csv", "input\xff,target\n", `line 1: not valid UTF-8`},
		{"nothing", "x.csv", "", `the file has no problems`},
		{"only a header", "x.csv", "input,target\n", `the file has no problems`},
		{"a huge row", "x.csv", "input,target\n\"" + strings.Repeat("x", jsonl.MaxLine+1<<16), `a row is longer than 16 MiB (is a quote not closed?)`},
		{"control characters", "x.csv", "\x1b[31m,\"a\nb\"\n", `line 1: no "input", "target": its fields are "\x1b[31m", "a\nb"; `},
	} {
		path := named(t, c.file, []byte(c.in))
		_, _, err := ReadFile(path, ReadOptions{Fields: mapped})
		if err == nil || !strings.Contains(err.Error(), path+": "+c.want) || strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

// A bad row is skipped like a bad line.
func TestSkipBadRows(t *testing.T) {
	in := "question,answer\nq,1\nq,1,2\nq\"q,1\n,1\nq,x\nr,2\n"
	problems, report, err := ReadFile(named(t, "x.csv", []byte(in)), ReadOptions{SkipBad: true})
	if err != nil || show(problems) != "2 x-00002 q|#### 1|1; 7 x-00007 r|#### 2|2" || report.Skipped != 4 || report.Lines != 6 {
		t.Errorf("%s, %+v, %v", show(problems), report, err)
	}
}

// An open quote takes the lines that follow: they are counted and named.
func TestSkipAnOpenQuote(t *testing.T) {
	_, report, err := ReadFile(named(t, "x.csv", []byte("question,answer\nq,1\n\"r,2\ns,3\nt,4\n")), ReadOptions{SkipBad: true})
	want := ReadReport{Lines: 4, Problems: 1, Skipped: 3, FirstBad: `line 3: extraneous or missing " in quoted-field (lines 3 to 5 are lost: is a quote not closed?)`}
	if err != nil || report != want {
		t.Errorf("%+v, %v, want %+v", report, err, want)
	}
}

// The other fields of a row are those of a JSON record, and a file has a bound of columns.
func TestCSVColumns(t *testing.T) {
	csv := named(t, "x.csv", []byte("b,question,answer,a,\"é\"\n\"<1>\",q,2,\"x \"\"y\"\"\",ü\n"))
	line := named(t, "x.jsonl", []byte(`{"b":"<1>","question":"q","answer":"2","a":"x \"y\"","é":"ü"}`))
	got, _, err := ReadFile(csv, ReadOptions{})
	want, _, _ := ReadFile(line, ReadOptions{})
	if err != nil || len(want) != 1 || got[0].Fields != want[0].Fields {
		t.Errorf("fields %s and %s, %v", got[0].Fields, want[0].Fields, err)
	}
	wide := "question,answer" + strings.Repeat(",", maxColumns) + "\n"
	if _, _, err := ReadFile(named(t, "y.csv", []byte(wide)), ReadOptions{}); err == nil || !strings.Contains(err.Error(), "line 1: 1002 fields; at most 1000") {
		t.Errorf("error %v", err)
	}
}

func TestReadTurns(t *testing.T) {
	tests := []struct {
		name, text, says string
		want             []Turn
	}{
		{"two", "{\"question\":\"a\",\"answer\":\"any form\",\"more\":1}\n\n{\"question\":\"b\",\"answer\":\"<think>x\"}", "",
			[]Turn{{"a", "any form"}, {"b", "<think>x"}}},
		{"empty", "\n \n", "no examples", nil},
		{"no answer", "{\"question\":\"a\",\"answer\":\"b\"}\n{\"question\":\"a\"}", `turns.jsonl: line 2: no "answer"`, nil},
		{"a number", `{"question":"a","answer":7}`, `line 1: "answer" is a number`, nil},
		{"blank", `{"question":" ","answer":"7"}`, `line 1: "question" is empty`, nil},
		{"not JSON", "Q: a\n", "line 1: broken JSON", nil},
		{"too many", strings.Repeat("{\"question\":\"a\",\"answer\":\"b\"}\n", maxTurns+1), "line 1001: more than 1000", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "turns.jsonl")
			expect.OK(t, os.WriteFile(path, []byte(tt.text), 0o644))
			got, err := ReadTurns(path, 0)
			if !reflect.DeepEqual(got, tt.want) || (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, %v; want %v, %q", got, err, tt.want, tt.says)
			}
			if first, err := ReadTurns(path, 1); tt.want != nil && (err != nil || !reflect.DeepEqual(first, tt.want[:1])) {
				t.Errorf("the first: %v, %v", first, err)
			}
		})
	}
	// A file of many problems may show its first as examples.
	path := filepath.Join(t.TempDir(), "turns.jsonl")
	expect.OK(t, os.WriteFile(path, []byte(strings.Repeat(`{"question":"a","answer":"b"}`+"\n", maxTurns+1)+"broken"), 0o644))
	if first, err := ReadTurns(path, 2); err != nil || len(first) != 2 {
		t.Errorf("the first two of many: %v, %v", first, err)
	}
}
