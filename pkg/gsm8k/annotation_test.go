package gsm8k

import (
	"strings"
	"testing"

	"grpo/internal/expect"
)

var annotationModes = []AnnotationMode{KeepAnnotations, StripAnnotations, EquationAnnotations}

func TestAnnotations(t *testing.T) {
	const natalia = "Natalia sold 48/2 = <<48/2=24>>24 clips in May.\n" +
		"Natalia sold 48+24 = <<48+24=72>>72 clips altogether.\n#### 72"
	for _, c := range []struct {
		name string
		mode AnnotationMode
		in   string
		want string
	}{
		{"keep", KeepAnnotations, natalia, natalia},
		{"zero mode keeps", "", natalia, natalia},
		{"strip", StripAnnotations, natalia, "Natalia sold 48/2 = 24 clips in May.\nNatalia sold 48+24 = 72 clips altogether.\n#### 72"},
		{"equation", EquationAnnotations, natalia, "48/2=24\n48+24=72\n#### 72"},
		{"strip without any", StripAnnotations, "12 clips\n#### 12", "12 clips\n#### 12"},
		{"equation without any", EquationAnnotations, "12 clips\n#### 1,200", "#### 1,200"},
		{"strip unclosed", StripAnnotations, "a << b\n#### 1", "a << b\n#### 1"},
		{"equation unclosed", EquationAnnotations, "<<1=1>>1 << b\n#### 1", "1=1\n#### 1"},
		{"equation empty", EquationAnnotations, "<<>>1\n#### 1", "#### 1"},
		{"strip closing alone", StripAnnotations, "a >> b <<1=1>>1\n#### 1", "a >> b 1\n#### 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.mode.Apply(c.in); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestUnknownAnnotationMode(t *testing.T) {
	opt := ReadOptions{Annotations: "stripped"}
	const line = `{"question":"q","answer":"#### 1"}`
	_, _, err := ReadJSONL(strings.NewReader(line), "x.jsonl", opt)
	expect.Error(t, err, `did you mean "strip"?`)
	if _, _, err := ReadSVAMP(strings.NewReader("[]"), "x.json", opt); err == nil || !strings.Contains(err.Error(), "annotation mode") {
		t.Errorf("ReadSVAMP: %v", err)
	}
}
