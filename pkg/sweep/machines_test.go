package sweep

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"grpo/pkg/rundir"
)

// away claims a run's folder as a process on another machine does; release ends it.
func away(t *testing.T, path string) (release func()) {
	t.Helper()
	claim := filepath.Join(path, rundir.ClaimsDir, "1")
	beat := filepath.Join(claim, "heartbeat")
	check := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	check(os.MkdirAll(claim, 0o755))
	o := rundir.Owner{Attempt: 1, Host: "n2", PID: 4711, Boot: "another", Job: "slurm 7_3", Started: "2026-01-02T03:04:05Z"}
	check(rundir.WriteJSON(filepath.Join(claim, "owner.json"), o))
	check(os.WriteFile(beat, []byte("."), 0o644))
	check(os.Chtimes(beat, time.Now(), time.Now()))
	return func() { check(os.Remove(beat)) }
}

// A run on another machine is taken over when its process is dead, or has ended
// and its result does not appear.
func TestRunOnAnotherMachine(t *testing.T) {
	for _, tt := range []struct {
		name     string
		ends     bool
		result   time.Duration // after the end
		events   string
		atLeast  time.Duration
		notAfter time.Duration
	}{
		{"its result appears late", true, 40 * time.Second, "elsewhere, ended", time.Minute, 70 * time.Second},
		{"it left no result", true, 0, "elsewhere, started, ended", 80 * time.Second, 90 * time.Second},
		{"it is dead", false, 0, "elsewhere, started, ended", 6 * time.Minute, 7 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := fakeManifest(1, 1)
			dir := writeSweep(t, m)
			path := m.Runs[0].Path(dir)
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				release := away(t, path)
				if err := rundir.WriteJSON(filepath.Join(path, rundir.StatusFile), rundir.Status{State: rundir.StateRunning}); err != nil {
					t.Error(err)
				}
				go func() {
					time.Sleep(20 * time.Second)
					if tt.ends {
						release()
					}
					if tt.result > 0 {
						time.Sleep(tt.result)
						if err := rundir.WriteJSON(filepath.Join(path, rundir.ResultFile), rundir.Result{Status: rundir.StateDone}); err != nil {
							t.Error(err)
						}
					}
				}()
				j := &journal{}
				s, err := Run(t.Context(), dir, fakeOptions(&fakeLauncher{t: t, rest: completes(5)}, j))
				if err != nil || !s.Finished() || j.of(0) != tt.events {
					t.Errorf("error %v, events %s, want %s", err, j.of(0), tt.events)
				}
				if d := time.Since(start); d < tt.atLeast || d > tt.notAfter {
					t.Errorf("it took %s", d)
				}
			})
		})
	}
}

// noted keeps the notes of a task.
type noted struct {
	quiet
	notes []string
}

func (n *noted) Note(s string) { n.notes = append(n.notes, s) }

func TestTaskWaits(t *testing.T) {
	path := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		release, start, o := away(t, path), time.Now(), &noted{}
		go func() { time.Sleep(25 * time.Second); release() }()
		if err := waitForOthers(t.Context(), path, o); err != nil || time.Since(start) != 30*time.Second {
			t.Errorf("error %v after %s", err, time.Since(start))
		}
		if len(o.notes) != 1 || !strings.Contains(o.notes[0], "process 4711 on n2 (job slurm 7_3) is training this run") {
			t.Errorf("notes %q", o.notes)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		away(t, path)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := waitForOthers(ctx, path, quiet{}); !errors.Is(err, rundir.ErrInterrupted) || !strings.Contains(err.Error(), "n2") {
			t.Errorf("error %v", err)
		}
	})
}
