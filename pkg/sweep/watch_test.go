package sweep

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// A run's folder is followed through everything that its files go through.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	metrics := filepath.Join(dir, rundir.MetricsFile)
	lines := func(from, to int, elapsed float64) string {
		var b strings.Builder
		for i := from; i <= to; i++ {
			line, err := rundir.Marshal(rundir.Metrics{Step: i, Rewards: map[string]rundir.Stat{}, Time: rundir.Timing{UpdateS: 2, ElapsedS: elapsed}})
			expect.OK(t, err)
			b.Write(append(line, '\n'))
		}
		return b.String()
	}
	put := func(name, text string) {
		t.Helper()
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	status := func(step int) {
		t.Helper()
		expect.OK(t, rundir.WriteJSON(filepath.Join(dir, rundir.StatusFile), rundir.Status{State: rundir.StateRunning, Step: step}))
	}
	put(rundir.MetricsFile, lines(1, 7, 1))
	saved := func(step int) {
		putSaved(func(err error) {
			expect.OK(t, err)
		}, dir, step)
	}
	status(7) // the status follows the steps, the checkpoint does not
	saved(5)
	w := newWatch(dir)
	if len(w.metrics.lines) != 7 || w.base != 5 || w.stepped() || w.stepTime().Seconds() != 2 {
		t.Fatalf("at first: %d steps, from %d, stepped %v, %s a step", len(w.metrics.lines), w.base, w.stepped(), w.stepTime())
	}
	for _, tt := range []struct {
		name         string
		do           func()
		alive, moved bool
		steps        int
		stepped      bool
	}{
		{"nothing", func() {}, false, false, 7, false},
		{"a line in the log", func() { put(sweepdir.TaskLog, "note") }, true, false, 7, false},
		{"cut to the checkpoint", func() { put(rundir.MetricsFile, lines(1, 5, 1)) }, true, true, 5, false},
		{"half a line", func() { put(rundir.MetricsFile, lines(1, 5, 1)+lines(6, 6, 1)[:9]) }, true, false, 5, false},
		{"the rest of it", func() { put(rundir.MetricsFile, lines(1, 6, 1)) }, true, true, 6, true},
		{"cut and grown beyond between two polls", func() { put(rundir.MetricsFile, lines(1, 3, 1)+lines(4, 9, 123.25)) }, true, true, 9, true},
		{"replaced to the same length", func() { put(rundir.MetricsFile, lines(1, 3, 1)+lines(4, 9, 321.75)+lines(4, 4, 1)) }, true, true, 9, true},
		{"gone", func() { os.Remove(metrics) }, true, true, 0, false},
		{"a checkpoint", func() { status(10); saved(10) }, true, true, 0, true},
	} {
		tt.do()
		alive, moved := w.poll()
		if alive != tt.alive || moved != tt.moved || len(w.metrics.lines) != tt.steps || w.stepped() != tt.stepped {
			t.Errorf("%s: alive %v, moved %v, %d steps, stepped %v; want %+v", tt.name, alive, moved, len(w.metrics.lines), w.stepped(), tt)
		}
		for i, m := range w.metrics.lines {
			if m.Step != i+1 {
				t.Errorf("%s: line %d is of step %d", tt.name, i+1, m.Step)
			}
		}
	}
}

func TestLogTail(t *testing.T) {
	many := func(n int) (text string) {
		for i := range n {
			text += fmt.Sprintf("line %d\n", i)
		}
		return text
	}
	tests := []struct {
		name, task, run string
		from            int64
		first, last     string // lines
		file            string
		words           string
	}{
		{"an error", many(40) + "grpo: no space left\n", "", 0, "line 29", "grpo: no space left", sweepdir.TaskLog, "no space left"},
		{"of this process", "grpo: old\ngrpo: new\n", "", 10, "grpo: new", "grpo: new", sweepdir.TaskLog, "new"},
		{"a panic", "note\npanic: out of range\n" + many(40), "", 0, "panic: out of range", "line 10", sweepdir.TaskLog, "panic: out of range"},
		{"no memory", "fatal error: runtime: out of memory\n\n" + many(3), "", 0, "fatal error: runtime: out of memory", "line 2", sweepdir.TaskLog, "fatal error: runtime: out of memory"},
		{"no output", "old\n", many(20), 4, "line 8", "line 19", rundir.LogFile, ""},
		{"there is no log", "", "", 0, "", "", sweepdir.TaskLog, ""},
	}
	for _, tt := range tests {
		dir := t.TempDir()
		for name, text := range map[string]string{sweepdir.TaskLog: tt.task, rundir.LogFile: tt.run} {
			if text != "" {
				expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
			}
		}
		text, path := logTail(dir, tt.from)
		lines := strings.Split(text, "\n")
		if lines[0] != tt.first || lines[len(lines)-1] != tt.last || filepath.Base(path) != tt.file || lastMessage(text) != tt.words {
			t.Errorf("%s: tail %q of %s, last message %q", tt.name, text, path, lastMessage(text))
		}
	}
}
