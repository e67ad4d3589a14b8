package gsm8k

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
)

func answersOf(t testing.TB, o AnswerOptions) Answers {
	t.Helper()
	a, err := NewAnswers(o)
	expect.OK(t, err)
	return a
}

func TestZeroAnswers(t *testing.T) {
	for _, o := range []AnswerOptions{{}, {Kind: KindNumber, Extract: "auto", Template: "r1_zero"}, {Extract: "marker"}} {
		if a := answersOf(t, o); a != (Answers{}) {
			t.Errorf("%+v: %+v, want the zero value", o, a)
		}
	}
}

func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		name       string
		o          AnswerOptions
		gold       string
		completion string
		want       string // of the verdict: right, wrong or unformatted, and the answer
	}{
		{"number, boxed", AnswerOptions{Extract: "boxed"}, "72", `so \boxed{72.0}`, "right 72"},
		{"number, boxed, no box", AnswerOptions{Extract: "boxed"}, "72", "#### 72", "unformatted "},
		{"number, last number", AnswerOptions{Extract: "last_number"}, "9500", `It is $9{,}500 then.`, "right 9500"},
		{"number, last line", AnswerOptions{Extract: "last_line"}, "7", "5\n 7 \n\n", "right 7"},
		{"number, whole", AnswerOptions{Extract: "whole"}, "7", "5\n7", "unformatted "},
		{"number, tag", AnswerOptions{Extract: "tag"}, "7", "<answer>8</answer> no, <answer> 7 </answer>.", "right 7"},
		{"tag not closed", AnswerOptions{Extract: "tag"}, "7", "<answer>7</answer><answer>8", "unformatted "},
		{"pattern, last match", AnswerOptions{Extract: `pattern:answer is (\d+)`}, "7", "answer is 5, no, answer is 7.", "right 7"},
		{"pattern, group not there", AnswerOptions{Extract: `pattern:x|(y)`}, "7", "x", "unformatted "},
		{"text", AnswerOptions{Kind: KindText}, "yes", "Think.\n####  yes \nbye", "right yes"},
		{"text in another case", AnswerOptions{Kind: KindText}, "yes", "#### Yes", "wrong Yes"},
		{"text, case ignored", AnswerOptions{Kind: KindText, IgnoreCase: true}, "Straße Σ", "#### STRAßE ς", "right straße σ"},
		{"text, not normalized", AnswerOptions{Kind: KindText}, "\u00e9", "#### e\u0301", "wrong e\u0301"},
		{"text, blank", AnswerOptions{Kind: KindText}, "yes", "####  ", "unformatted "},
		{"text by template", AnswerOptions{Kind: KindText, Template: "r1_zero"}, "a b", "x </think> <answer>a b</answer>", "right a b"},
		{"text by template", AnswerOptions{Kind: KindText, Template: "question_only"}, "a", `\boxed{a}`, "right a"},
		{"choice", AnswerOptions{Kind: KindChoice}, "B", "#### b", "right B"},
		{"choice in parentheses", AnswerOptions{Kind: KindChoice}, "B", "#### (B)", "right B"},
		{"choice with a stop", AnswerOptions{Kind: KindChoice}, "B", "#### B.", "right B"},
		{"choice boxed", AnswerOptions{Kind: KindChoice}, "B", `#### \boxed{\text{B}}`, "right B"},
		{"choice in bold", AnswerOptions{Kind: KindChoice, Extract: "last_line"}, "B", "It is\n**B**", "right B"},
		{"choice, another", AnswerOptions{Kind: KindChoice}, "B", "#### C)", "wrong C"},
		{"choice, two", AnswerOptions{Kind: KindChoice}, "B", "#### (B) or (C)", "unformatted "},
		{"choice, half a parenthesis", AnswerOptions{Kind: KindChoice}, "B", "#### (B", "unformatted "},
		{"math", AnswerOptions{Kind: KindMath}, `\frac12`, "#### 0.5", "right 0.5"},
		{"math boxed", AnswerOptions{Kind: KindMath, Extract: "boxed"}, "x+1", `so \boxed{1+x}`, "right 1+x"},
		{"math, box in the line", AnswerOptions{Kind: KindMath}, "3", `#### \boxed{ 3 }`, "right 3"},
		{"math, box not closed", AnswerOptions{Kind: KindMath}, "3", `#### \boxed{3`, "unformatted "},
		{"countdown", AnswerOptions{Kind: KindCountdown}, "98 from 44 19 35", "#### 44 + 19+35", "right 98"},
		{"countdown, another value", AnswerOptions{Kind: KindCountdown}, "98 from 44 19 35", "#### 44+19-35", "wrong 28"},
		{"countdown, a number left", AnswerOptions{Kind: KindCountdown}, "63 from 44 19 35", "#### 44 + 19", "wrong 44+19"},
		{"countdown, an equation", AnswerOptions{Kind: KindCountdown}, "98 from 44 19 35", "#### 44+19+35=98", "unformatted "},
		{"none", AnswerOptions{Kind: KindNone}, "", " Hello. ", "wrong Hello."},
		{"none, empty", AnswerOptions{Kind: KindNone}, "", " ", "unformatted "},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := answersOf(t, c.o)
			v := a.Grade(c.completion, true, Problem{Gold: c.gold})
			got := "unformatted"
			if v.Right {
				got = "right"
			} else if v.Formatted {
				got = "wrong"
			}
			if got += " " + v.Answer; got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if cut := a.Grade(c.completion, false, Problem{Gold: c.gold}); cut != (Verdict{}) {
				t.Errorf("cut: %+v", cut)
			}
			// A right answer is right again where the extraction looks for it.
			if text := a.Write(v.Answer); v.Right && text != "" && c.o.Kind != KindCountdown && !a.Grade(text, true, Problem{Gold: c.gold}).Right {
				t.Errorf("%q is not right", text)
			}
		})
	}
}

func TestBadAnswers(t *testing.T) {
	for _, c := range []struct {
		o    AnswerOptions
		want string
	}{
		{AnswerOptions{Kind: "texts"}, `did you mean "text"?`},
		{AnswerOptions{Extract: "box"}, `did you mean "boxed"?`},
		{AnswerOptions{Extract: "pattern:("}, "not an RE2 pattern"},
		{AnswerOptions{Extract: "pattern:(a)(b)"}, "has 2 groups, want one"},
		{AnswerOptions{Kind: KindText, Extract: "last_number"}, "is for numbers"},
	} {
		expect.Error(t, expect.Err(NewAnswers(c.o)), c.want)
	}
}

func TestSame(t *testing.T) {
	math, text := answersOf(t, AnswerOptions{Kind: KindMath}), answersOf(t, AnswerOptions{Kind: KindText})
	if !math.Same("0.5", `\frac{1}{2}`) || text.Same("0.5", ".5") || !text.Same("a", "a") {
		t.Error("answers of mathematics are the same by value, and texts by spelling")
	}
}

func TestRecords(t *testing.T) {
	const q = `"question":"Which?",`
	for _, c := range []struct {
		name   string
		o      AnswerOptions
		fields Fields
		in     string
		want   string // question|worked answer|gold, or the error
	}{
		{"text", AnswerOptions{Kind: KindText}, Fields{}, `{` + q + `"answer":" yes "}`, "Which?|#### yes|yes"},
		{"true", AnswerOptions{Kind: KindText}, Fields{}, `{` + q + `"answer":true}`, "Which?|#### true|true"},
		{"a number as text", AnswerOptions{Kind: KindText}, Fields{}, `{` + q + `"answer":1.50}`, "Which?|#### 1.50|1.50"},
		{"worked text", AnswerOptions{Kind: KindText}, Fields{}, `{` + q + `"answer":"So\n#### no"}`, "Which?|So\n#### no|no"},
		{"nested", AnswerOptions{Kind: KindText}, Fields{Question: "q.text", Answer: "a.b.c", Solution: "a.why"}, `{"q":{"text":"Q"},"a":{"b":{"c":"x"},"why":"since"}}`, "Q|since\n#### x|x"},
		{"a name with a point", AnswerOptions{}, Fields{Answer: "a.b"}, `{` + q + `"a.b":5}`, "Which?|#### 5|5"},
		{"text of two lines", AnswerOptions{Kind: KindText}, Fields{}, `{` + q + `"answer":"a\nb"}`, `line 1: the answer "a\nb" of "answer" can't be given where reward.extract (marker) looks for it`},
		{"text of two lines, whole", AnswerOptions{Kind: KindText, Extract: "whole"}, Fields{}, `{` + q + `"answer":"a\nb"}`, "Which?|a\nb|a\nb"},
		{"empty", AnswerOptions{Kind: KindText}, Fields{}, `{` + q + `"answer":" "}`, `line 1: "answer" is empty`},
		{"a list", AnswerOptions{Kind: KindText}, Fields{}, `{` + q + `"answer":["a"]}`, `line 1: "answer" is an array, want a string, a number or a boolean`},
		{"missing", AnswerOptions{Kind: KindText}, Fields{}, `{` + q + `"reply":"a"}`, `line 1: no "answer": its fields are "question", "reply"`},
		{"nested, missing", AnswerOptions{Kind: KindText}, Fields{Answer: "a.b"}, `{` + q + `"a":{"c":1}}`, `line 1: no "a.b": its fields are "a", "question"`},
		{"number with a solution", AnswerOptions{}, Fields{Solution: "work"}, `{` + q + `"answer":"1,200","work":"600*2=1200"}`, "Which?|600*2=1200\n#### 1200|1200"},
		{"number with a solution of another one", AnswerOptions{}, Fields{Solution: "work"}, `{` + q + `"answer":72,"work":"So 70.\n#### 70"}`, "Which?|So 70.\n#### 72|72"},
		{"number, boxed", AnswerOptions{Extract: "boxed"}, Fields{}, `{` + q + `"answer":"1+1\n#### 2"}`, "Which?|1+1\n\\boxed{2}|2"},
		{"text for a number", AnswerOptions{}, Fields{}, `{` + q + `"answer":"yes"}`, "which is not a plain number either; texts, choices, mathematics and Countdown need data.answer (or --answer of grpo data stats)"},
		{"math", AnswerOptions{Kind: KindMath, Extract: "boxed"}, Fields{Question: "problem", Answer: "solution"}, `{"problem":"P","solution":"So \\boxed{x+1}."}`, `P|So \boxed{x+1}.|x+1`},
		{"math, not closed", AnswerOptions{Kind: KindMath}, Fields{}, `{` + q + `"answer":"\\boxed{1"}`, `line 1: "answer" is "\\boxed{1", want a mathematical expression`},
		{"pattern", AnswerOptions{Kind: KindText, Extract: "pattern:is (.*)"}, Fields{}, `{` + q + `"answer":"x"}`, "Which?||x"},
		{"tag", AnswerOptions{Kind: KindText, Template: "r1_zero"}, Fields{}, `{` + q + `"answer":"x"}`, "Which?|</think> <answer>x</answer>|x"},
		{"letter", AnswerOptions{Kind: KindChoice}, Fields{}, `{` + q + `"answer":"(c)"}`, "Which?|#### C|C"},
		{"worked letter", AnswerOptions{Kind: KindChoice}, Fields{}, `{` + q + `"answer":"So\n#### (b)"}`, "Which?|So\n#### (b)|B"},
		{"worked text of a choice", AnswerOptions{Kind: KindChoice}, Fields{}, `{"question":"A) x B) y?","answer":"So\n#### y","choices":["x","y"]}`, "A) x B) y?|So\n#### B|B"},
		{"worked choice in a box", AnswerOptions{Kind: KindChoice, Extract: "boxed"}, Fields{}, `{` + q + `"answer":"So\n#### B"}`, "Which?|So\n\\boxed{B}|B"},
		{"index", AnswerOptions{Kind: KindChoice}, Fields{}, `{` + q + `"answer":1,"choices":["x","y"]}`, "Which?\nA. x\nB. y|#### B|B"},
		{"text of a choice", AnswerOptions{Kind: KindChoice}, Fields{}, `{"question":"x or y?","answer":"y","choices":["x","y"]}`, "x or y?\nA. x\nB. y|#### B|B"},
		{"labels", AnswerOptions{Kind: KindChoice}, Fields{Answer: "answerKey"}, `{"question":"(A) u, (B) v?","answerKey":"1","choices":{"text":["u","v"],"label":["1","2"]}}`, "(A) u, (B) v?|#### A|A"},
		{"texts with their letters", AnswerOptions{Kind: KindChoice}, Fields{}, `{"question":"A)2 B)3","answer":"B","choices":["A)2","B)3"]}`, "A)2 B)3|#### B|B"},
		{"texts that begin like a letter", AnswerOptions{Kind: KindChoice}, Fields{}, `{"question":"The U.S. or the U.K.?","answer":0,"choices":["U.S.","U.K."]}`, "The U.S. or the U.K.?\nA. U.S.\nB. U.K.|#### A|A"},
		{"label as a number", AnswerOptions{Kind: KindChoice}, Fields{}, `{"question":"A. u B. v?","answer":2,"choices":{"text":["u","v"],"label":[1,2]}}`, "A. u B. v?|#### B|B"},
		{"index as text", AnswerOptions{Kind: KindChoice}, Fields{}, `{` + q + `"answer":"1"}`, `line 1: "answer" is "1", want the letter of one of 26 choices, its number from 0 on`},
		{"beyond the choices", AnswerOptions{Kind: KindChoice}, Fields{}, `{` + q + `"answer":"C","choices":["x","y"]}`, `"answer" is "C", want the letter of one of 2 choices`},
		{"letter and text", AnswerOptions{Kind: KindChoice}, Fields{}, `{` + q + `"answer":"A","choices":["B","A"]}`, `"answer" is "A", the letter of one choice and the text of another`},
		{"no text in choices", AnswerOptions{Kind: KindChoice}, Fields{}, `{` + q + `"answer":"A","choices":["B",null]}`, `"choices" has an element that is no text`},
		{"choices in a string", AnswerOptions{Kind: KindChoice}, Fields{}, `{` + q + `"answer":"A","choices":"[\"x\",\"y\"]"}`, `"choices" has a string, want a list of texts, or an object with the lists "text" and "label"`},
		{"choices by letter", AnswerOptions{Kind: KindChoice}, Fields{}, `{` + q + `"answer":"A","choices":{"A":"x","B":"y"}}`, `"choices" has an object, want a list of texts, or an object with the lists`},
		{"countdown", AnswerOptions{Kind: KindCountdown}, Fields{}, `{"nums":[44,19,35],"target":98}`, "Using the numbers 44, 19 and 35, write an expression that equals 98. Use + - * / and parentheses, and each number exactly once.||98 from 44 19 35"},
		{"countdown with an answer", AnswerOptions{Kind: KindCountdown}, Fields{}, `{"question":"Q","numbers":"[2, 3]","target":"6","answer":"2*3"}`, "Q|#### 2*3|6 from 2 3"},
		{"countdown, some", AnswerOptions{Kind: KindCountdown}, Fields{}, `{"question":"Q","numbers":[2,3,4],"target":6,"use_all":false,"answer":"So\n#### 2*3"}`, "Q|So\n#### 2*3|6 from some of 2 3 4"},
		{"countdown, wrong answer", AnswerOptions{Kind: KindCountdown}, Fields{}, `{"question":"Q","numbers":[2,3],"target":6,"answer":"2+3"}`, `"answer" is "2+3", want an expression for 6 from 2 3`},
		{"countdown without numbers", AnswerOptions{Kind: KindCountdown}, Fields{}, `{"question":"Q","target":6}`, `no "numbers" or "nums"`},
		{"countdown without a target", AnswerOptions{Kind: KindCountdown}, Fields{}, `{"question":"Q","nums":[1]}`, `no "target": its fields are "nums", "question"`},
		{"countdown, no whole number", AnswerOptions{Kind: KindCountdown}, Fields{}, `{"question":"Q","nums":[1,2.5],"target":6}`, `element 2 of "nums" is 2.5, want a whole number`},
		{"none", AnswerOptions{Kind: KindNone}, Fields{}, `{"question":"Write."}`, "Write.||"},
		{"none with a reference", AnswerOptions{Kind: KindNone}, Fields{}, `{"question":"Write.","answer":"Hello."}`, "Write.|Hello.|Hello."},
	} {
		t.Run(c.name, func(t *testing.T) {
			opt := ReadOptions{Fields: c.fields, Answers: answersOf(t, c.o)}
			problems, _, err := ReadJSONL(strings.NewReader(c.in), "x.jsonl", opt)
			if err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %s", err, c.want)
				}
				return
			}
			p := problems[0]
			if got := p.Question + "|" + p.Answer + "|" + p.Gold; got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			// Rewards get the fields that the answer is made from.
			if strings.Contains(c.in, `"nums"`) && !strings.Contains(p.Fields, `"nums"`) {
				t.Errorf("the other fields are %s", p.Fields)
			}
		})
	}
}

// TestAnswersInAnotherPlace: the answer is there in place of the line "#### N", with any mode of annotations, and for a
// Countdown's solution and SVAMP's equation too.
func TestAnswersInAnotherPlace(t *testing.T) {
	const gsm = `{"question":"Q","answer":"So 1+1=<<1+1=2>>2.\n#### 2"}`
	const countdown = `{"question":"Q","nums":[2,3],"target":6,"answer":"So\n#### 2*3"}`
	for _, c := range []struct {
		o    AnswerOptions
		mode AnnotationMode
		in   string
		want string
	}{
		{AnswerOptions{Extract: "boxed"}, KeepAnnotations, gsm, "So 1+1=<<1+1=2>>2.\n\\boxed{2}"},
		{AnswerOptions{Extract: "boxed"}, StripAnnotations, gsm, "So 1+1=2.\n\\boxed{2}"},
		{AnswerOptions{Extract: "boxed"}, EquationAnnotations, gsm, "1+1=2\n\\boxed{2}"},
		{AnswerOptions{Extract: "boxed"}, EquationAnnotations, `{"question":"Q","answer":"So 2.\n#### 2"}`, "\\boxed{2}"},
		{AnswerOptions{Extract: "tag"}, EquationAnnotations, gsm, "1+1=2\n<answer>2</answer>"},
		{AnswerOptions{Kind: KindCountdown, Extract: "tag"}, KeepAnnotations, countdown, "So\n<answer>2*3</answer>"},
		{AnswerOptions{Kind: KindCountdown}, KeepAnnotations, countdown, "So\n#### 2*3"},
		{AnswerOptions{Extract: "boxed"}, StripAnnotations, "[" + svampOne + "]", "76-25=51\n\\boxed{51}"},
		{AnswerOptions{Extract: "boxed"}, KeepAnnotations, `[{"Body":"b","Question":"q","Answer":5}]`, "\\boxed{5}"},
		{AnswerOptions{Extract: "whole"}, KeepAnnotations, "[" + svampOne + "]", "51"},
		{AnswerOptions{Kind: KindText, Extract: "tag"}, KeepAnnotations, "[" + svampOne + "]", "76-25=<<76-25=51>>51\n<answer>51</answer>"},
		{AnswerOptions{Kind: KindNone}, KeepAnnotations, "[" + svampOne + "]", "76-25=<<76-25=51>>51\n#### 51"},
	} {
		opt := ReadOptions{Answers: answersOf(t, c.o), Annotations: c.mode}
		problems, _, err := ReadFile(named(t, "x.json", []byte(c.in)), opt)
		expect.OK(t, err)
		if got := problems[0].Answer; got != c.want {
			t.Errorf("%+v, %s: %s gives %q, want %q", c.o, c.mode, c.in, got, c.want)
		}
	}
}

func TestCSVOfOtherAnswers(t *testing.T) {
	opt := ReadOptions{Answers: answersOf(t, AnswerOptions{Kind: KindCountdown})}
	problems, _, err := ReadFile(named(t, "x.csv", []byte("numbers,target,level\n2 3,6,1\n")), opt)
	expect.OK(t, err)
	if p := problems[0]; p.Gold != "6 from 2 3" || p.Fields != `{"level":"1","numbers":"2 3","target":"6"}` {
		t.Errorf("%+v", p)
	}
	opt = ReadOptions{Answers: answersOf(t, AnswerOptions{Kind: KindChoice})}
	_, _, err = ReadFile(named(t, "x.json", []byte("["+svampOne+"]")), opt)
	expect.Error(t, err, "it is in SVAMP's form, whose answers are numbers")
}

func TestMajorityOfOtherAnswers(t *testing.T) {
	ps := []Problem{{Gold: "Yes"}, {Gold: "yes"}, {Gold: "no"}, {Gold: strings.Repeat("x", 100)}}
	for _, c := range []struct {
		o     AnswerOptions
		want  string
		share float64
	}{
		{AnswerOptions{Kind: KindText}, "no", .25},
		{AnswerOptions{Kind: KindText, IgnoreCase: true}, "yes", .5},
		{AnswerOptions{Kind: KindNone}, "", 0},
		{AnswerOptions{Kind: KindCountdown}, "", 0},
	} {
		if got, share := answersOf(t, c.o).Majority(ps); got != c.want || share != c.share {
			t.Errorf("%v: %q, %v", c.o, got, share)
		}
	}
}

// Records of any form give an error or a problem, whose worked answer is right where the kind says what that is.
func TestRecordsOfAnyForm(t *testing.T) {
	text := rapid.SampledFrom([]string{"B", "(b)", "yes", " ", "####", "#### 7", "so\n#### x", `\boxed{1}`, `\boxed{`, "a\nb", "</answer>", "1+2", "3 from 1 2", "\u00e9", "12 or 13"})
	value := rapid.Custom(func(t *rapid.T) any {
		switch rapid.IntRange(0, 5).Draw(t, "type") {
		case 0:
			return rapid.SampledFrom([]any{nil, true, -1, 0, 2.5, 3, 1e300}).Draw(t, "scalar")
		case 1:
			return rapid.SliceOfN(rapid.SampledFrom([]any{1, 2, "3", "x", nil, "B"}), 0, 4).Draw(t, "list")
		case 2:
			return map[string]any{"text": []any{"x", text.Draw(t, "text")}, "label": rapid.SampledFrom([]any{nil, []any{"1", "2"}, []any{"B"}}).Draw(t, "label")}
		}
		return text.Draw(t, "string")
	})
	rapid.Check(t, func(t *rapid.T) {
		record := map[string]any{}
		for _, key := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"question", "answer", "choices", "numbers", "nums", "target", "use_all", "work"}), rapid.ID[string]).Draw(t, "keys") {
			record[key] = value.Draw(t, key)
		}
		o := AnswerOptions{Kind: Kind(rapid.SampledFrom(Kinds()).Draw(t, "kind")), IgnoreCase: rapid.Bool().Draw(t, "case"),
			Extract: rapid.SampledFrom(Extractions()).Draw(t, "extract"), Template: rapid.SampledFrom([]string{"plain", "r1_zero", "question_only"}).Draw(t, "template")}
		a, err := NewAnswers(o)
		if err != nil {
			return
		}
		line, err := json.Marshal(record)
		expect.OK(t, err)
		opt := ReadOptions{Answers: a, Annotations: rapid.SampledFrom(annotationModes).Draw(t, "annotations")}
		opt.Fields.Solution = rapid.SampledFrom([]string{"", "work", "choices.text"}).Draw(t, "solution")
		problems, _, err := ReadJSONL(strings.NewReader(string(line)), "x.jsonl", opt)
		if err != nil {
			if !strings.Contains(err.Error(), "x.jsonl: line 1: ") {
				t.Fatal(err)
			}
			return
		}
		p := problems[0]
		switch v := a.Grade(p.Answer, true, p); {
		case v.Right || o.Kind == KindNone || o.Kind == KindCountdown && p.Answer == "":
		case a.extract == fromWhole && opt.Fields.Solution != "": // the solution is no answer
		case opt.Annotations == EquationAnnotations: // it may leave out the place of the answer
		default:
			t.Fatalf("%+v: %s gives %+v: %+v", o, line, p, v)
		}
		a.ComputeStats(problems, nil)
	})
}
