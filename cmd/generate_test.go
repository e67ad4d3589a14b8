package cmd

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"grpo/internal/untrusted"
)

// Standard output is the text of a completion to the byte, and harmless on a terminal.
func TestGenerateWritesTheText(t *testing.T) {
	run := func(terminal bool, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		s := &State{Args: append([]string{"grpo", "generate"}, args...), Out: &out, Err: &errs, Terminal: terminal, Now: time.Now,
			Host: func() (string, error) { return "host", nil }}
		if code := Run(t.Context(), s); code != 0 {
			t.Fatalf("exit code %d: %s", code, errs.String())
		}
		return out.String()
	}
	for _, prompt := range []string{"Tom has 7 pens and gets 5 more. How many pens does Tom have?", "x"} {
		args := []string{"--prompt", prompt, "--temperature", "1.5", "--max-tokens", "200", "-n", "20"}
		var texts string
		var all []struct{ Text string }
		must(t, json.Unmarshal([]byte(run(false, append(args, "--json")...)), &all))
		for _, g := range all {
			texts += g.Text + "\n"
		}
		if got := run(false, args...); got != texts {
			t.Errorf("%q: got %q, want %q", prompt, got, texts)
		}
		untrusted.CheckText(t, run(true, args...))
	}
}
