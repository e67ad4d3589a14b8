package explain

import (
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/gsm8k"
)

// The steps end with the first that fails, and the verdict is that of training.
func TestAnswer(t *testing.T) {
	number := gsm8k.AnswerOptions{}
	for _, c := range []struct {
		o    AnswerOptions
		want string // the steps, with the text of the last
	}{
		{AnswerOptions{number, "#### 12.0", "12", false}, "ended extracted normalized gold compared: 12, right"},
		{AnswerOptions{number, "#### 12.0", "12", true}, "ended: #### 12.0, unformatted"},
		{AnswerOptions{number, "12", "12", false}, "ended extracted: , unformatted"},
		{AnswerOptions{number, "#### twelve", "12", false}, "ended extracted normalized: , unformatted"},
		{AnswerOptions{gsm8k.AnswerOptions{Kind: gsm8k.KindText}, "#### No", "no", false}, "ended extracted normalized gold compared: No, wrong"},
		{AnswerOptions{gsm8k.AnswerOptions{Kind: gsm8k.KindNone}, "Hello", "", false}, "ended extracted normalized: Hello, wrong"},
		{AnswerOptions{gsm8k.AnswerOptions{Kind: gsm8k.KindCountdown}, "#### 1+2", "3 from 1 2", false}, "ended extracted normalized gold compared: 3, right"},
	} {
		r, err := Answer(c.o)
		expect.OK(t, err)
		var names []string
		for i, s := range r.Steps {
			names = append(names, s.Step)
			if last := i == len(r.Steps)-1; !last && !s.OK {
				t.Errorf("%+v: a step follows %s", c.o, s.Step)
			}
		}
		verdict := "unformatted"
		if r.Right {
			verdict = "right"
		} else if r.Formatted {
			verdict = "wrong"
		}
		if got := strings.Join(names, " ") + ": " + r.Steps[len(r.Steps)-1].Text + ", " + verdict; got != c.want {
			t.Errorf("%+v: %s, want %s", c.o, got, c.want)
		}
	}
	for _, o := range []AnswerOptions{{number, "1", "one", false}, {gsm8k.AnswerOptions{Kind: "x"}, "1", "1", false}, {gsm8k.AnswerOptions{Kind: gsm8k.KindCountdown}, "1", "1", false}} {
		expect.Error(t, expect.Err(Answer(o)), "explain reward: ")
	}
}
