package gsm8k

import (
	"fmt"
	"strings"
)

// Template turns a question into the text that the policy continues:
// Prefix + question + Suffix.
type Template struct {
	Name   string
	Prefix string
	Suffix string
}

// Render returns the prompt for a question.
func (t Template) Render(question string) string { return t.Prefix + question + t.Suffix }

// Opening returns the tag at the end of the prompt that opens the completion:
// "<think>" for r1_zero, "" for the others. It belongs to the prompt, as in the
// assignment: completions do not hold it, are not scored for it, and graders that
// ask for it ([ThinkFormat]) get it from here.
func (t Template) Opening() string {
	if strings.HasSuffix(t.Suffix, thinkOpen) {
		return thinkOpen
	}
	return ""
}

// The wording of r1_zero is ours; the tags and the shape (a preamble, then
// "User: ... Assistant: <think>", so that the policy starts inside its
// reasoning) are those of the assignment and of DeepSeek-R1-Zero.
var templates = []Template{
	{Name: "plain", Suffix: "\n"},
	// question_only gives the question and no instruction. Its text is that of
	// plain; it has a name of its own because the assignment has one for it.
	{Name: "question_only", Suffix: "\n"},
	{
		Name: "r1_zero",
		Prefix: "Below, a User puts a question to an Assistant. The Assistant works the problem out step by step " +
			"before it replies. It writes its reasoning between <think> and </think>, and after that its final " +
			"answer between <answer> and </answer>, in this form: " +
			"<think> the reasoning </think> <answer> the final answer </answer>\nUser: ",
		Suffix: "\nAssistant: <think>",
	},
}

// Templates lists the names of the prompt templates.
func Templates() []string {
	names := make([]string, len(templates))
	for i, t := range templates {
		names[i] = t.Name
	}
	return names
}

// LookupTemplate returns the template of a name. The error lists the known
// names and points at a near one.
func LookupTemplate(name string) (Template, error) {
	for _, t := range templates {
		if t.Name == name {
			return t, nil
		}
	}
	return Template{}, fmt.Errorf("look up prompt template: %w", unknownName(name, Templates()))
}

// Render returns the prompt for a question under the named template.
func Render(template, question string) (string, error) {
	t, err := LookupTemplate(template)
	if err != nil {
		return "", err
	}
	return t.Render(question), nil
}
