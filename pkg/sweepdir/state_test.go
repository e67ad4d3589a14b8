package sweepdir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/rundir"
)

func put(t *testing.T, dir, name string, v any) {
	t.Helper()
	expect.OK(t, os.MkdirAll(dir, 0o755))
	path := filepath.Join(dir, name)
	if text, ok := v.(string); ok {
		expect.OK(t, os.WriteFile(path, []byte(text), 0o644))
		return
	}
	expect.OK(t, rundir.WriteJSON(path, v))
}

func status(state string) rundir.Status {
	return rundir.Status{State: state, Step: 3, Steps: 8, PID: 4711, Updated: "2026-01-02T03:04:05Z", Error: "no space left"}
}

func result(state string) rundir.Result {
	return rundir.Result{Status: state, Warnings: []string{}}
}

func TestStateOf(t *testing.T) {
	hold := func(t *testing.T, dir string) {
		unlock, err := rundir.Claim(dir, rundir.KindRun, nil)
		expect.OK(t, err)
		t.Cleanup(func() { unlock() })
	}
	tests := []struct {
		name  string
		setup func(t *testing.T, dir string)
		state string
		err   string // part of RunState.Error
		run   bool
	}{
		{"no folder", func(*testing.T, string) {}, Missing, "", false},
		{"empty folder", func(t *testing.T, dir string) { os.MkdirAll(dir, 0o755) }, Missing, "", false},
		{"the process only began to talk", func(t *testing.T, dir string) { put(t, dir, TaskLog, "grpo task\n") }, Dead, TaskLog, false},
		{"the same, and it lives", func(t *testing.T, dir string) { put(t, dir, TaskLog, "grpo task\n"); hold(t, dir) }, rundir.StateRunning, "", false},
		{"killed before the status", func(t *testing.T, dir string) { put(t, dir, rundir.ConfigFile, "seed: 1\n") }, Dead, "before it wrote a status", true},
		{"running", func(t *testing.T, dir string) {
			put(t, dir, rundir.StatusFile, status(rundir.StateRunning))
			hold(t, dir)
		}, rundir.StateRunning, "", true},
		{"killed", func(t *testing.T, dir string) {
			put(t, dir, rundir.StatusFile, status(rundir.StateRunning))
			put(t, dir, ".lock", "4711\n") // of the first release
		}, Dead, "process 4711 no longer exists (last seen 2026-01-02T03:04:05Z) and left no message", true},
		{"interrupted", func(t *testing.T, dir string) { put(t, dir, rundir.StatusFile, status(rundir.StateInterrupted)) }, rundir.StateInterrupted, "", true},
		{"interrupted, and at it again", func(t *testing.T, dir string) {
			put(t, dir, rundir.StatusFile, status(rundir.StateInterrupted))
			hold(t, dir)
		}, rundir.StateRunning, "", true},
		{"failed", func(t *testing.T, dir string) { put(t, dir, rundir.StatusFile, status(rundir.StateFailed)) }, rundir.StateFailed, "no space left", true},
		{"killed between status and result", func(t *testing.T, dir string) { put(t, dir, rundir.StatusFile, status(rundir.StateDone)) }, Dead, "no longer exists", true},
		{"done", func(t *testing.T, dir string) { put(t, dir, rundir.ResultFile, result(rundir.StateDone)) }, rundir.StateDone, "", true},
		{"diverged", func(t *testing.T, dir string) { put(t, dir, rundir.ResultFile, result(rundir.StateDiverged)) }, rundir.StateDiverged, "", true},
		{"done, whatever the status says", func(t *testing.T, dir string) {
			put(t, dir, rundir.StatusFile, status(rundir.StateRunning))
			put(t, dir, rundir.ResultFile, result(rundir.StateDone))
		}, rundir.StateDone, "", true},
		{"unreadable result", func(t *testing.T, dir string) { put(t, dir, rundir.ResultFile, "{") }, rundir.StateFailed, rundir.ResultFile, false},
		{"a file in the folder's place", func(t *testing.T, dir string) { put(t, filepath.Dir(dir), filepath.Base(dir), "x") }, rundir.StateFailed, "not a folder: it is a file", false},
	}
	for _, tt := range tests {
		dir, e := t.TempDir(), small().Runs[0]
		tt.setup(t, e.Path(dir))
		s := StateOf(dir, e)
		if s.State != tt.state || !strings.Contains(s.Error, tt.err) || (tt.err == "") != (s.Error == "") || (s.Run != nil) != tt.run {
			t.Errorf("%s: state %q, error %q, run %v; want %q, %q, %v", tt.name, s.State, s.Error, s.Run != nil, tt.state, tt.err, tt.run)
		}
		if s.Entry.Dir != e.Dir {
			t.Errorf("%s: entry %+v", tt.name, s.Entry)
		}
	}
}

func TestOpen(t *testing.T) {
	dir, m := t.TempDir(), small()
	expect.OK(t, WriteManifest(dir, m))
	put(t, m.Runs[0].Path(dir), rundir.ResultFile, result(rundir.StateDone))
	put(t, m.Runs[1].Path(dir), rundir.ResultFile, "broken")
	s, err := Open(dir)
	expect.OK(t, err)
	var states []string
	for _, r := range s.Runs {
		states = append(states, r.State)
	}
	if got := strings.Join(states, " "); got != "done failed missing missing" {
		t.Errorf("states %s", got)
	}
	if s.Finished() || len(s.OfArm(1)) != 2 || s.OfArm(1)[0].Index != 1 {
		t.Errorf("finished %v, runs of arm 1: %+v", s.Finished(), s.OfArm(1))
	}
	if _, err := Open(t.TempDir()); err == nil {
		t.Error("an empty folder was opened")
	}
}
