package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/sweep"
)

// TestRewardExamples: the examples are valid, also by their schemas, as they are and resolved.
func TestRewardExamples(t *testing.T) {
	s, err := compile("config")
	expect.OK(t, err)
	const dir = "../examples/rewards/"
	for _, name := range []string{"brevity", "short", "steps"} {
		text, err := os.ReadFile(dir + name + ".yaml")
		expect.OK(t, err)
		r, err := config.LoadText(name, text)
		expect.OK(t, err)
		for _, text := range [][]byte{text, config.Marshal(r.Config)} {
			if err := validYAML(t, s, text); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for _, bad := range []string{"{name: a, wieght: 1}", "{expr: '1'}", "3"} {
		if validYAML(t, s, []byte("reward: {functions: ["+bad+"]}")) == nil {
			t.Errorf("%s is valid", bad)
		}
	}
	expect.OK(t, validYAML(t, s, []byte("reward: {functions: [{model: judge}]}")))
	s, err = compile("sweep")
	expect.OK(t, err)
	for _, name := range []string{"study.yaml"} {
		text, err := os.ReadFile(dir + name)
		expect.OK(t, err)
		if _, err := sweep.ParseRequest(name, text); err != nil {
			t.Error(err)
		}
		expect.OK(t, validYAML(t, s, text))
	}
}

// The exercises are valid, and the commands in their first comments are understood.
func TestExercises(t *testing.T) {
	s, err := compile("config")
	expect.OK(t, err)
	paths, err := filepath.Glob("../examples/exercises/*.yaml")
	expect.OK(t, err)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		expect.OK(t, err)
		expect.OK(t, validYAML(t, s, text))
		train := "grpo train -c examples/exercises/" + filepath.Base(path)
		if !strings.Contains(string(text), "#   "+train+"\n") {
			t.Errorf("%s has no command %s", path, train)
		}
		for line := range strings.Lines(string(text)) {
			if command, ok := strings.CutPrefix(line, "#   grpo "); ok {
				if _, err := parse(strings.Fields(command)...); err != nil {
					t.Errorf("%s: %s: %v", path, command, err)
				}
			}
		}
	}
	if len(paths) < 6 {
		t.Errorf("%d exercises", len(paths))
	}
}

// docs/automation.md has the loop that a script of testdata runs.
func TestAutomationLoop(t *testing.T) {
	loop, err := os.ReadFile("../examples/automation/overnight.sh")
	expect.OK(t, err)
	page, err := os.ReadFile("../docs/automation.md")
	expect.OK(t, err)
	if !strings.Contains(string(page), "```sh\n"+string(loop)+"```\n") {
		t.Error("docs/automation.md does not have examples/automation/overnight.sh as it is")
	}
	text, err := os.ReadFile("../examples/automation/one.yaml")
	expect.OK(t, err)
	if _, err := sweep.ParseRequest("one.yaml", text); err != nil {
		t.Error(err)
	}
}

// The commands of the example for GitHub Actions are understood.
func TestWorkflow(t *testing.T) {
	text, err := os.ReadFile("../examples/github-actions/grpo.yml")
	expect.OK(t, err)
	var workflow struct {
		Jobs map[string]struct{ Steps []struct{ Run string } }
	}
	expect.OK(t, yaml.Unmarshal(text, &workflow))
	n := 0
	for _, job := range workflow.Jobs {
		for _, step := range job.Steps {
			if command, ok := strings.CutPrefix(step.Run, "./grpo "); ok {
				n++
				if _, err := parse(strings.Fields(command)...); err != nil {
					t.Errorf("%s: %v", step.Run, err)
				}
			}
		}
	}
	if n < 2 {
		t.Errorf("%d commands of grpo", n)
	}
}

// The commands of docs/cs336.md are understood.
func TestAssignmentPage(t *testing.T) {
	page, err := os.ReadFile("../docs/cs336.md")
	expect.OK(t, err)
	n := 0
	for line := range strings.Lines(string(page)) {
		spans := strings.Split(line, "`")
		if strings.HasPrefix(line, "grpo ") {
			spans = []string{"", line}
		}
		for i := 1; i < len(spans); i += 2 {
			text, _, _ := strings.Cut(spans[i], "#")
			text, _, _ = strings.Cut(text, ">")
			command, ok := strings.CutPrefix(strings.TrimSpace(text), "grpo ")
			if !ok || command == "gate" || command == "explain loss" { // names in a sentence
				continue
			}
			n++
			if _, err := parse(strings.Fields(command)...); err != nil {
				t.Errorf("grpo %s: %v", command, err)
			}
		}
	}
	if n < 40 {
		t.Errorf("%d commands", n)
	}
}
