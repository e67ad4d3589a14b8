//go:build unix

package cmd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
)

// An interrupted evaluation prints the counts that it has.
func TestInterruptedEvalPrintsItsCounts(t *testing.T) {
	long(t)
	var lines strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&lines, `{"question": "%d pens?", "answer": "#### %d"}`+"\n", i, i)
	}
	problems := filepath.Join(t.TempDir(), "problems.jsonl")
	expect.OK(t, os.WriteFile(problems, []byte(lines.String()), 0o644))
	for delay := 500 * time.Millisecond; delay < time.Minute; delay *= 2 {
		c := grpo(t, strings.Fields("eval --json --quiet --sets validation --set prompt_template=chat --set data.source=gsm8k "+
			"--set eval.max_tokens=100 --set val_file="+problems+" --model "+decodertest.Folder(t))...)
		expect.OK(t, c.Start())
		time.Sleep(delay)
		c.Process.Signal(os.Interrupt)
		got := exitOf(t, c)
		out, stderr := c.Stdout.(*bytes.Buffer).String(), c.Stderr.(*bytes.Buffer).String()
		if got == -1 || out == "" && got == exitInterrupted {
			continue // it had not begun
		}
		if got != exitInterrupted || !strings.Contains(out, `"partial": true`) || !strings.Contains(out, "of 20000 problems of val") ||
			!strings.HasSuffix(stderr, "grpo: interrupted\n") {
			t.Errorf("after %v: exit code %d, want %d: %s%s", delay, got, exitInterrupted, out, stderr)
		}
		return
	}
	t.Error("it never began")
}
