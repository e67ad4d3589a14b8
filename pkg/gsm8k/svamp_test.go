package gsm8k

import (
	"strings"
	"testing"

	"grpo/internal/expect"
)

const svampOne = `{"ID": "chal-1", "Body": "Packs cost 76 dollars ", "Question": "How much?", "Equation": "( 76.0 - 25.0 )", "Answer": 51.0, "Type": "Subtraction"}`

func TestReadSVAMP(t *testing.T) {
	in := "\xef\xbb\xbf[\n  " + svampOne + ",\n  " + strings.ReplaceAll(svampOne, `"chal-1"`, `"chal-2"`) + "\n]\n"
	ps, rep, err := ReadSVAMP(strings.NewReader(in), "svamp.json", ReadOptions{})
	expect.OK(t, err)
	if rep != (ReadReport{Lines: 2, Problems: 2}) {
		t.Errorf("report %+v", rep)
	}
	want := Problem{
		ID: "chal-1", Question: "Packs cost 76 dollars How much?",
		Answer: "76-25=<<76-25=51>>51\n#### 51", Gold: "51", Type: "subtraction", Line: 2,
	}
	if ps[0] != want {
		t.Errorf("got %+v, want %+v", ps[0], want)
	}
	if ps[1].ID != "chal-2" || ps[1].Line != 3 {
		t.Errorf("second problem %+v", ps[1])
	}
}

func TestSVAMPAnswer(t *testing.T) {
	for _, c := range []struct {
		name, fields string
		mode         AnnotationMode
		want         string
	}{
		{"nested", `"Equation":"( ( 3.0 + 2.0 ) * 4.5 )","Answer":22.5`, "", "(3+2)*4.5=<<(3+2)*4.5=22.5>>22.5\n#### 22.5"},
		{"stripped", `"Equation":"( 3.0 + 2.0 )","Answer":5`, StripAnnotations, "3+2=5\n#### 5"},
		{"equation only", `"Equation":"( 3.0 + 2.0 )","Answer":5`, EquationAnnotations, "3+2=5\n#### 5"},
		{"no equation", `"Answer":-5.0`, "", "#### -5"},
		{"strange equation", `"Equation":"( x ^ 2 )","Answer":5`, "", "#### 5"},
		{"long number", `"Answer":123456789012345678901234567890.10`, "", "#### 123456789012345678901234567890.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := `[{"Body":"b","Question":"q",` + c.fields + `}]`
			ps, _, err := ReadSVAMP(strings.NewReader(in), "s.json", ReadOptions{Annotations: c.mode})
			expect.OK(t, err)
			if ps[0].Answer != c.want || ps[0].ID != "s-00001" {
				t.Errorf("ID %q, answer %q, want %q", ps[0].ID, ps[0].Answer, c.want)
			}
		})
	}
}

func TestReadSVAMPBadElement(t *testing.T) {
	for _, c := range []struct{ name, element, reason string }{
		{"no body", `{"Question":"q","Answer":1}`, `no "Body"`},
		{"no question", `{"Body":"b","Answer":1}`, `no "Question"`},
		{"no answer", `{"Body":"b","Question":"q"}`, `no "Answer"`},
		{"answer in words", `{"Body":"b","Question":"q","Answer":"one"}`, `"Answer" is a string, want a number`},
		{"huge exponent", `{"Body":"b","Question":"q","Answer":1e999999999}`, `"Answer" 1e999999999 is not a plain decimal number`},
		{"type of another type", `{"Body":"b","Question":"q","Answer":1,"Type":3}`, `"Type" is a number, want a string`},
		{"not an object", `7`, "a number, want an object"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := "[\n" + svampOne + ",\n\n" + c.element + "]"
			_, _, err := ReadSVAMP(strings.NewReader(in), "s.json", ReadOptions{})
			expect.Error(t, err, "s.json: line 4: "+c.reason)
			ps, rep, err := ReadSVAMP(strings.NewReader(in), "s.json", ReadOptions{SkipBad: true})
			if err != nil || len(ps) != 1 || rep.Lines != 2 || rep.Skipped != 1 || !strings.HasPrefix(rep.FirstBad, "line 4: ") {
				t.Errorf("with SkipBad: %+v, %v", rep, err)
			}
		})
	}
}

func TestReadSVAMPBroken(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", "s.json: the file has no problems"},
		{"empty array", "[]", "s.json: the file has no problems"},
		{"object", `{"a": 1}`, "line 1: want a JSON array"},
		{"not closed", "[\n" + svampOne, "line 2: broken JSON: the array is not closed"},
		{"cut inside an element", "[\n" + svampOne[:40], "line 2: broken JSON: the array is not closed"},
		{"no comma", "[\n" + svampOne + "\n" + svampOne + "]", "broken JSON"},
		{"text after", "[" + svampOne + "]\n7", "text after the array"},
		{"not UTF-8", "[\"\xff\"]", "not valid UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := ReadSVAMP(strings.NewReader(c.in), "s.json", ReadOptions{SkipBad: true})
			expect.Error(t, err, c.want)
		})
	}
}
