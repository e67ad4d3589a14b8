package gsm8k

import (
	"strings"
	"testing"

	"grpo/internal/expect"
)

func TestRender(t *testing.T) {
	const question = "Tom has 7 pens and gets 5 more. How many?"
	for _, c := range []struct{ name, prefix, suffix string }{
		{"plain", question, question + "\n"},
		{"question_only", question, question + "\n"},
		{"r1_zero", "Below, a User", "\nUser: " + question + "\nAssistant: <think>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := render(t, c.name, question)
			if !strings.HasPrefix(got, c.prefix) || !strings.HasSuffix(got, c.suffix) {
				t.Errorf("prompt %q, want it to begin with %q and end in %q", got, c.prefix, c.suffix)
			}
			checkVocabulary(t, got)
		})
	}
}

func TestFewShotTemplate(t *testing.T) {
	got := FewShotTemplate([]Turn{{"1+1?", "2"}, {"2+2?", "4"}}).Render("3+3?")
	const want = "Question: 1+1?\nAnswer:\n2\n\nQuestion: 2+2?\nAnswer:\n4\n\nQuestion: 3+3?\nAnswer:\n"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func render(t *testing.T, template, question string) string {
	t.Helper()
	tpl, err := LookupTemplate(template)
	expect.OK(t, err)
	return tpl.Render(question)
}

func TestR1ZeroNamesItsTags(t *testing.T) {
	got := render(t, "r1_zero", "")
	for _, tag := range []string{"<think>", "</think>", "<answer>", "</answer>"} {
		if !strings.Contains(got, tag) {
			t.Errorf("the prompt does not name %s", tag)
		}
	}
}

func TestLookupTemplateUnknown(t *testing.T) {
	_, err := LookupTemplate("r1zero")
	const want = `unknown name "r1zero" (did you mean "r1_zero"? known: plain, question_only, r1_zero)`
	expect.Error(t, err, want)
}

// inVocabulary is TinyLM's character vocabulary.
func inVocabulary(r rune) bool { return r == '\n' || 32 <= r && r <= 126 }

func checkVocabulary(t *testing.T, s string) {
	t.Helper()
	for _, r := range s {
		if !inVocabulary(r) {
			t.Errorf("%q is outside of the vocabulary in %q", r, s)
		}
	}
}
