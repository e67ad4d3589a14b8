package sweep

import (
	"strings"
	"testing"
)

// A part of a study is continued by the command of the study, whose folder is the one above, however it is written.
func TestContinueArgs(t *testing.T) {
	for _, tt := range []struct{ kind, command, dir, want string }{
		{"sweep", "grpo sweep lr", "s", "grpo sweep lr --out s"},
		{"sweep", "grpo assignment --out x", "a/lr", "grpo assignment --out a"},
		{"sweep", "grpo assignment --out x --continued", "a/lr/", "grpo assignment --out a"},
		{"sweep", "grpo assignment", ".", "grpo assignment --out .."},
		{"sweep", "grpo sweep lr", "results/sweep-1a2b3c4d", "grpo sweep lr"},
		{"sweep", "grpo sweep lr", "results/rates", "grpo sweep lr --out results/rates"},
		{"sweep", "grpo sweep lr", "results/sweep-1a2b3c4d-2", "grpo sweep lr --out results/sweep-1a2b3c4d-2"},
		{"study", "grpo assignment", "results/assignment-1a2b3c4d", "grpo assignment"},
		{"study", "grpo assignment --fresh", "results/a-2", "grpo assignment --out results/a-2"},
	} {
		if got := strings.Join(ContinueArgs(tt.kind, strings.Fields(tt.command), tt.dir), " "); got != tt.want {
			t.Errorf("%s in %s: %s, want %s", tt.command, tt.dir, got, tt.want)
		}
	}
}
