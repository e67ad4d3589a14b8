package sweep

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"grpo/internal/expect"
	"grpo/pkg/rundir"
)

// A run at which another grpo is belongs to that one; its result is taken, or
// the run itself when the other does not finish it.
func TestRunElsewhere(t *testing.T) {
	tests := []struct {
		name   string
		other  act
		events string
		starts int
	}{
		{"it finishes", completes(30), "elsewhere, ended", 1},
		{"it dies", dies(10, true), "elsewhere, started, ended", 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := fakeManifest(1, 2)
			dir := writeSweep(t, m)
			synctest.Test(t, func(t *testing.T) {
				other := &fakeLauncher{t: t, rest: tt.other}
				expect.OK(t, expect.Err(other.Start(dir, m.Runs[0], 1)))
				synctest.Wait()
				l, j := &fakeLauncher{t: t, rest: completes(30)}, &journal{}
				s, err := Run(t.Context(), dir, fakeOptions(l, j))
				if err != nil || !s.Finished() {
					t.Errorf("error %v, states %s", err, states(s))
				}
				if got := j.of(0); got != tt.events || len(l.starts) != tt.starts {
					t.Errorf("events %s, started %v", got, l.starts)
				}
			})
		})
	}
	t.Run("it was slightly faster", func(t *testing.T) {
		m := fakeManifest(1, 1)
		dir := writeSweep(t, m)
		synctest.Test(t, func(t *testing.T) {
			other := &fakeLauncher{t: t, rest: completes(5)}
			// This process finds the lock taken when it gets there itself.
			loses := func(p *fakeProcess) Exit {
				if _, err := other.Start(dir, m.Runs[0], 1); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
				return Exit{Code: ExitInterrupted}
			}
			l, j := &fakeLauncher{t: t, rest: loses}, &journal{}
			s, err := Run(t.Context(), dir, fakeOptions(l, j))
			if err != nil || !s.Finished() || j.of(0) != "started, elsewhere, ended" {
				t.Errorf("error %v, events %s", err, j.of(0))
			}
		})
	})
	t.Run("interrupted while waiting for it", func(t *testing.T) {
		m := fakeManifest(1, 1)
		dir := writeSweep(t, m)
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			other := &fakeLauncher{t: t, rest: completes(30)}
			expect.OK(t, expect.Err(other.Start(dir, m.Runs[0], 1)))
			synctest.Wait()
			if _, err := Run(ctx, dir, fakeOptions(&fakeLauncher{t: t}, &journal{})); !errors.Is(err, rundir.ErrInterrupted) {
				t.Errorf("error %v", err)
			}
			time.Sleep(time.Minute) // the other's fake process ends
		})
	})
}

// Two launchers at once do every run once.
func TestRunTwiceAtOnce(t *testing.T) {
	dir := writeSweep(t, fakeManifest(2, 4))
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		done := map[string]int{}
		once := locked(func(p *fakeProcess) Exit {
			if _, err := os.Stat(filepath.Join(p.path, rundir.ResultFile)); err == nil {
				return Exit{}
			}
			mu.Lock()
			done[filepath.Base(p.path)]++
			mu.Unlock()
			p.resume()
			p.steps(3, true)
			p.check(rundir.WriteJSON(filepath.Join(p.path, rundir.ResultFile), rundir.Result{Status: rundir.StateDone}))
			return Exit{}
		})
		errs := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := Run(t.Context(), dir, fakeOptions(&fakeLauncher{t: t, rest: once}, &journal{}))
				errs <- err
			}()
		}
		for range 2 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		for run, n := range done {
			if n != 1 {
				t.Errorf("run %s was done %d times", run, n)
			}
		}
		if len(done) != 8 {
			t.Errorf("done: %v", done)
		}
	})
}

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
				expect.OK(t, rundir.WriteJSON(filepath.Join(path, rundir.StatusFile), rundir.Status{State: rundir.StateRunning}))
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
