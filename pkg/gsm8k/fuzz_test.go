package gsm8k

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"grpo/internal/expect"
	"grpo/internal/untrusted"
)

func FuzzParseFinalAnswer(f *testing.F) {
	for _, s := range []string{"7+5=<<7+5=12>>12\n#### 12", "#### 1,234.", "#### -$7.50", "#### 12 or 13", "##### 1", "####", "#### \xff", "#### .5.", "#### 12\n####"} {
		f.Add(s, "12")
	}
	f.Fuzz(func(t *testing.T, completion, gold string) {
		value, ok := ParseFinalAnswer(completion)
		if !ok && value != "" {
			t.Fatalf("value %q without an answer", value)
		}
		if ok {
			if strings.Trim(value, "-.0123456789") != "" {
				t.Fatalf("value %q of %q is not a plain decimal", value, completion)
			}
			if again, ok := ParseFinalAnswer("#### " + value); !ok || again != value {
				t.Fatalf("value %q reads back as %q", value, again)
			}
		}
		v := (Answers{}).Grade(completion, true, Problem{Gold: gold})
		if v.Formatted != ok || v.Right && !SameNumber(value, gold) || v.Right && !v.Formatted {
			t.Fatalf("verdict %+v of %q with gold %q", v, completion, gold)
		}
		if (Answers{}).Grade(completion, false, Problem{Gold: gold}) != (Verdict{}) {
			t.Fatal("a completion without an end is formatted")
		}
	})
}

func FuzzSameNumber(f *testing.F) {
	for _, p := range [][2]string{{"72.0", "72"}, {"1,234", "1234"}, {"-0", "0"}, {"1e999999999", "1"}, {"$5.", "+5"}, {"", ""}, {".5", "00.50"}} {
		f.Add(p[0], p[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if SameNumber(a, b) != SameNumber(b, a) {
			t.Fatalf("SameNumber(%q, %q) is not symmetric", a, b)
		}
		if SameNumber(a, b) && (!SameNumber(a, a) || !SameNumber(b, b)) {
			t.Fatalf("%q and %q are equal, but not to themselves", a, b)
		}
		if n, ok := normaliseNumber(a); ok {
			c := canonicalNumber(n)
			if !SameNumber(a, c) || canonicalNumber(c) != c {
				t.Fatalf("%q has the canonical form %q, which is not its equal", a, c)
			}
		}
	})
}

func FuzzReadJSONL(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte("\xef\xbb\xbf" + good + "\r\n{}\n" + good))
	f.Add([]byte(`{"question":"<<","answer":"<<1=1>>#### -1,000. "}`))
	f.Add([]byte("[]\nnull\n{\"question\":1}"))
	f.Add([]byte("{\"question\":\"\\u001b[31m\",\"answer\":\"#### \x1b[31m\"}\n{\"answer\":\"x\\n#### 1e400\",\"question\":\"q\"}"))
	f.Add([]byte(`{"question":"q","answer":"#### 1","id":"../../etc/passwd"}`))
	f.Add([]byte(strings.Repeat(`{"question":`, 50) + strings.Repeat("[", 50) + "\r\r\n\u2028"))
	f.Fuzz(func(t *testing.T, data []byte) {
		untrusted.Reader.Check(t, len(data), func() { checkReader(t, data, false) })
	})
}

func FuzzReadSVAMP(f *testing.F) {
	f.Add([]byte("[" + svampOne + "]"))
	f.Add([]byte("[\n" + svampOne + ",{}," + svampOne + "]"))
	f.Add([]byte(`[{"Body":"b","Question":"q","Answer":-1.50,"Equation":"( ( 1.0 + 2.0 ) / 3.0 )"}]`))
	f.Add([]byte("[[[["))
	f.Add([]byte("[\n{\"Body\":\"b\",\"Question\":\"q\",\"Answer\":1e999,\"ID\":\"\\u001b\"},\n\n{\"Body\":1}]\x1b"))
	f.Add([]byte(`[{"Body":"b","Question":"q","Answer":` + strings.Repeat("9", 400) + `}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		untrusted.Reader.Check(t, len(data), func() { checkReader(t, data, true) })
	})
}

var lineOfX = regexp.MustCompile(`^read problems: x: (?:after )?line (\d+): `)

// checkRefusal checks an error of either reader: it is printable and, unless it is about
// the whole file, names a line that the file has.
func checkRefusal(t *testing.T, data []byte, err error) {
	untrusted.CheckError(t, err)
	m := lineOfX.FindStringSubmatch(err.Error())
	if m == nil {
		for _, whole := range []string{"the file has no problems", "all of its ", "not valid UTF-8", "longer than "} {
			if strings.HasPrefix(err.Error(), "read problems: x: "+whole) {
				return
			}
		}
		t.Fatalf("no line in %q", err)
	}
	if n, _ := strconv.Atoi(m[1]); n < 1 || n > 1+bytes.Count(data, []byte("\n")) {
		t.Fatalf("line %d in %q", n, err)
	}
}

// checkReader checks properties of both readers: the report adds up, every problem
// earns its own reward under every annotation mode, strict reading succeeds iff
// nothing was skipped, and what is written reads back.
func checkReader(t *testing.T, data []byte, svamp bool) {
	read := ReadJSONL
	if svamp {
		read = ReadSVAMP
	}
	ps, rep, err := read(bytes.NewReader(data), "x", ReadOptions{SkipBad: true})
	if rep.Lines != rep.Problems+rep.Skipped || rep.Skipped > 0 != (rep.FirstBad != "") {
		t.Fatalf("report %+v", rep)
	}
	_, _, strict := read(bytes.NewReader(data), "x", ReadOptions{})
	if (strict == nil) != (err == nil && rep.Skipped == 0) {
		t.Fatalf("strict: %v; skipping: %v, %+v", strict, err, rep)
	}
	if strict != nil {
		checkRefusal(t, data, strict)
	}
	if err != nil {
		checkRefusal(t, data, err)
		return
	}
	if len(ps) != rep.Problems || len(ps) == 0 {
		t.Fatalf("%d problems, report %+v", len(ps), rep)
	}
	for _, mode := range annotationModes {
		qs, _, err := read(bytes.NewReader(data), "x", ReadOptions{SkipBad: true, Annotations: mode})
		if err != nil || len(qs) != len(ps) {
			t.Fatalf("%s: %d problems, %v", mode, len(qs), err)
		}
		for _, p := range qs {
			if p.Question == "" || p.ID == "" || p.Line < 1 || !(Answers{}).Grade(p.Answer, true, p).Right {
				t.Fatalf("%s: problem %+v", mode, p)
			}
		}
	}
	var b bytes.Buffer
	expect.OK(t, WriteJSONL(&b, ps))
	again, _, err := ReadJSONL(&b, "x", ReadOptions{})
	expect.OK(t, err)
	for i := range ps {
		ps[i].Line, again[i].Line = 0, 0
	}
	if !reflect.DeepEqual(again, ps) {
		t.Fatalf("read %+v, wrote %+v", again, ps)
	}
}

// gradeLimit is the maximum cost of grading, which compares polynomials.
var gradeLimit = untrusted.Limit{Base: 512 << 20, PerByte: 64 << 10, Time: untrusted.Reader.Time}

func FuzzGradeR1Zero(f *testing.F) {
	for _, p := range [][2]string{
		{"a </think> <answer> 72 </answer>", "72"}, {`</think> <answer>\boxed{1/2}</answer>`, "0.5"}, {"</answer></think> <answer>", ""},
		{`so \boxed{\frac12}`, `\boxed{0.5}`}, {"</think> <answer><answer></answer>", "\xff"},
	} {
		f.Add(p[0], p[1])
	}
	f.Fuzz(func(t *testing.T, response, gold string) {
		gradeLimit.Check(t, len(response)+len(gold), func() { checkGraders(t, response, gold) })
	})
}

// checkGraders checks properties of the graders and of every reward function.
func checkGraders(t *testing.T, response, gold string) {
	for _, v := range []R1Verdict{GradeR1Zero(response, gold), GradeQuestionOnly(response, gold)} {
		if v != unformatted && v != formattedWrong && v != formattedRight {
			t.Fatalf("verdict %+v", v)
		}
	}
	// The tag at the end of the prompt does not affect the verdict.
	if a, b := GradeR1Zero(response, gold), GradeR1Zero(thinkOpen+response, gold); a != b {
		t.Fatalf("%+v, but %+v with the prompt's tag", a, b)
	}
	// Every reward function accepts every input.
	in := RewardInput{Completion: response, Tokens: len(response), MaxTokens: 64, Problem: Problem{Gold: gold}}
	for _, name := range Rewards() {
		fn, err := lookupReward(name)
		expect.OK(t, err)
		r := fn(in)
		if math.IsInf(r, 0) || r < -1 || r > 1 {
			t.Fatalf("%s = %v", name, r)
		}
		if again := fn(in); math.Float64bits(again) != math.Float64bits(r) {
			t.Fatalf("%s = %v, and then %v", name, r, again)
		}
	}
}

func FuzzLastNumber(f *testing.F) {
	for _, s := range []string{"12", "-$1,234.50.", "1,2,3", "..5", "1.2.3", "a-7", "\u0661", "9,999,9999", "--,-.0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		value, ok := LastNumber(s)
		if ok && !strings.ContainsFunc(s, unicode.IsNumber) || !ok && value != "" {
			t.Fatalf("LastNumber(%q) = %q, %v", s, value, ok)
		}
		if !ok {
			return
		}
		if again, ok := LastNumber("is " + value); !ok || again != value {
			t.Fatalf("%q reads back as %q", value, again)
		}
		if !SameNumber(value, value) {
			t.Fatalf("%q is not a number", value)
		}
	})
}

func FuzzThinkFormat(f *testing.F) {
	for _, s := range []string{
		"<think>a</think>b", "<think>\na\n</think>\nb", "<think></think>", "<think>a</think>b</think>c", "<think>a", "a</think>b",
		"<think>a</think><think>b</think>", "<think>a</think>b<think>", " <think>a</think>b", "</think><think>", "<THINK>a</THINK>b", "",
		"<think><think></think>", "</think>", "<think>", "<think></thin",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		parts := strings.Split(s, thinkOpen)
		want := len(parts) == 2 && parts[0] == "" && strings.Contains(parts[1], thinkClose)
		if got := ThinkFormat(s); got != want {
			t.Fatalf("ThinkFormat(%q) = %v", s, got)
		}
	})
}

func FuzzGoldAnswers(f *testing.F) {
	for _, s := range []string{`"72"`, `72`, `["a",1e9]`, `[]`, `[[`, `"\ud800"`, ` 1 `, `1 1`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		golds, err := GoldAnswers(data)
		if (err == nil) != (len(golds) > 0) {
			t.Fatalf("%q, %v", golds, err)
		}
		if err == nil && !json.Valid(data) {
			t.Fatalf("%q is not JSON, but read as %q", data, golds)
		}
	})
}
