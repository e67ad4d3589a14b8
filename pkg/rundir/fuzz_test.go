package rundir

import (
	"bytes"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"grpo/internal/expect"
	"grpo/internal/untrusted"
)

// oddLines are lines that often break readers.
var oddLines = []string{
	"\n\n", "null\n", "{\"step\":1}\n{\"st", "{}\n", "[]\n", "{\"step\":1.5}\n", "{\"step\":1}\r\n", "\xff\n", "{\"\x1b[31m\":1}\n", "{\"\\u001b[31m\":1}\n",
	"{\"step\":1,\"step\":2}\n", "{\"STEP\":1}\n", "{\"step\":1e400}\n", "{\"step\":" + strings.Repeat("9", 3000) + "}\n", strings.Repeat("[", 11000) + "\n",
	"{\"split\":\"\xff\"}\n", "{\"" + strings.Repeat("\x9e", 3000), "{\"" + strings.Repeat("k", 3000) + "\":1}\n", "{\"split\":\"\\ud800\"}\n", "{\"split\":" + strings.Repeat("\"", 2000) + "\n", "\u2028\n",
}

var lineOfFuzz = regexp.MustCompile(`^read fuzz: line (\d+)`)

// checkLines checks the properties of a reader of lines: it returns lines, or a printable error
// that names a line; a partial line loses only that line; and lines that were read can be written
// and read again.
func checkLines[T any](t *testing.T, data []byte, compare func(a, b []T) error) {
	t.Helper()
	untrusted.Reader.Check(t, len(data), func() {
		lines, err := decodeLines[T]("fuzz", data)
		if err != nil {
			untrusted.CheckError(t, err)
			m := lineOfFuzz.FindStringSubmatch(err.Error())
			if m == nil {
				t.Fatalf("no line in %q", err)
			}
			if n, _ := strconv.Atoi(m[1]); n < 1 || n > 1+bytes.Count(data, []byte("\n")) {
				t.Fatalf("line %d in %q", n, err)
			}
		}
		whole := data[:bytes.LastIndexByte(data, '\n')+1]
		switch {
		case err != nil:
			if lines != nil {
				t.Fatalf("%d lines with the error %v", len(lines), err)
			}
			return
		case len(lines) != bytes.Count(data, []byte("\n")):
			t.Fatalf("%d lines of %d", len(lines), bytes.Count(data, []byte("\n")))
		case !utf8.Valid(whole):
			t.Fatal("bytes that are not UTF-8 were read as something else")
		}
		var again []byte
		for _, l := range lines {
			line, err := Marshal(l)
			expect.OK(t, err)
			again = append(append(again, line...), '\n')
		}
		back, err := decodeLines[T]("fuzz", again)
		expect.OK(t, err)
		expect.OK(t, compare(lines, back))
	})
}

func seedLines(f *testing.F, own ...string) {
	for _, s := range append(own, oddLines...) {
		f.Add([]byte(s))
	}
}

func FuzzMetrics(f *testing.F) {
	seedLines(f, `{"step":1,"loss":null,"rewards":{"answer":{"mean":0,"std":null}}}`+"\n",
		`{"step":1,"updates":1,"loss":-1e-9,"clip_fraction":null,"ratio_mean":1,"reward":{"mean":0.5,"std":0.1},"time":{"rollout_s":1}}`+"\n",
		`{"rewards":{"\u001b":{"mean":"x"}}}`+"\n", `{"rewards":null}`+"\n")
	f.Fuzz(func(t *testing.T, data []byte) { checkLines(t, data, CompareMetrics) })
}

func FuzzEvals(f *testing.F) {
	seedLines(f, `{"step":0,"split":"val","sampled":{"n":2,"correct_num":1,"error_num":1,"completion_length_right":3},"greedy":null,"majority_answer":"1"}`+"\n",
		`{"step":1,"split":"val","greedy":{"n":0}}`+"\n")
	f.Fuzz(func(t *testing.T, data []byte) { checkLines(t, data, CompareEvals) })
}

func FuzzSamples(f *testing.F) {
	seedLines(f, `{"step":1,"split":"train","prompt":"a\n","completion":"<<1+1=2>>\u2028\u001b","ended":true,"reward":null}`+"\n", `{"problem":"../../x"}`+"\n")
	f.Fuzz(func(t *testing.T, data []byte) { checkLines(t, data, CompareSamples) })
}

// FuzzFiles: a file with one value is read or refused, and reads back after writing.
func FuzzFiles(f *testing.F) {
	seedLines(f, `{"status":"done","diverged_at":null,"warnings":["a"],"seed":18446744073709551615,"final":{"sampled":{"n":1}},"wall_s":1}`,
		`{"state":"running","pid":1,"updated":"x","validation_reward":null}`, `{"argv":["grpo","\u001b"],"threads":-1}`)
	f.Fuzz(func(t *testing.T, data []byte) {
		untrusted.Reader.Check(t, len(data), func() {
			checkFile[Result](t, data)
			checkFile[Status](t, data)
			checkFile[Meta](t, data)
		})
	})
}

func checkFile[T any](t *testing.T, data []byte) {
	t.Helper()
	var v, back T
	if err := Unmarshal(data, &v); err != nil {
		untrusted.CheckError(t, err)
		return
	}
	text, err := Marshal(v)
	expect.OK(t, err)
	if err := Unmarshal(text, &back); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if err := same(v, back); err != nil {
		t.Fatalf("read back: %v", err)
	}
}

// FuzzRun: a run folder that passes the checks is in order and adds up.
func FuzzRun(f *testing.F) {
	for _, s := range [][3]string{
		{"{\"step\":1}\n{\"step\":2}\n", "{\"step\":0,\"split\":\"val\"}\n{\"step\":2,\"split\":\"val\"}\n", `{"status":"done"}`},
		{"{\"step\":2}\n", "{\"step\":1}\n{\"step\":0}\n", `{"status":"lost"}`},
		{"", `{"step":1,"sampled":{"n":-2,"correct_num":9223372036854775807,"error_num":9223372036854775807,"formatted_right":9223372036854775807,"formatted_wrong":9223372036854775807}}` + "\n", ""},
		{"", `{"step":1,"sampled":{"n":0,"formatted_right":9223372036854775807,"formatted_wrong":9223372036854775807,"unformatted":2}}` + "\n", ""},
	} {
		f.Add([]byte(s[0]), []byte(s[1]), []byte(s[2]))
	}
	f.Fuzz(func(t *testing.T, metrics, evals, result []byte) {
		r := &Run{Dir: "fuzz"}
		var err error
		if r.Metrics, err = decodeLines[Metrics]("fuzz", metrics); err != nil {
			return
		}
		if r.Evals, err = decodeLines[Eval]("fuzz", evals); err != nil {
			return
		}
		r.Result = new(Result)
		if Unmarshal(result, r.Result) != nil {
			r.Result = nil
		}
		if err := errors.Join(r.checkOrder(), r.checkCounts()); err != nil {
			untrusted.CheckError(t, err)
			return
		}
		for i, m := range r.Metrics {
			if m.Step != i+1 {
				t.Fatalf("step %d in line %d", m.Step, i+1)
			}
		}
		for i, e := range r.Evals {
			c := e.Sampled
			for _, n := range []int{c.CorrectNum, c.ErrorNum, c.FormattedRight, c.FormattedWrong, c.Unformatted} {
				if n < 0 || n > c.N {
					t.Fatalf("%d of %d in evaluation %d", n, c.N, i+1)
				}
			}
			if i > 0 && e.Step < r.Evals[i-1].Step {
				t.Fatalf("step %d after %d", e.Step, r.Evals[i-1].Step)
			}
		}
	})
}
