package sweep

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
				if _, err := other.Start(dir, m.Runs[0], 1); err != nil {
					t.Fatal(err)
				}
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
			if _, err := other.Start(dir, m.Runs[0], 1); err != nil {
				t.Fatal(err)
			}
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
