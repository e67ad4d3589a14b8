package cmd

import (
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// The commands of the example for GitHub Actions are understood.
func TestWorkflow(t *testing.T) {
	text, err := os.ReadFile("../examples/github-actions/grpo.yml")
	if err != nil {
		t.Fatal(err)
	}
	var workflow struct {
		Jobs map[string]struct{ Steps []struct{ Run string } }
	}
	if err := yaml.Unmarshal(text, &workflow); err != nil {
		t.Fatal(err)
	}
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
