package sweep

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// The tests of this file run in a bubble of virtual time: a hang of five
// minutes costs nothing.

func fakeOptions(l *fakeLauncher, j *journal) Options {
	return Options{Launcher: l, Observer: j, Now: time.Now, Cores: 2}
}

func states(s *sweepdir.Sweep) string {
	var out []string
	for _, r := range s.Runs {
		out = append(out, r.State)
	}
	return strings.Join(out, " ")
}

func TestRunDoesWhatIsMissing(t *testing.T) {
	m := fakeManifest(2, 2)
	dir := writeSweep(t, m)
	done := m.Runs[1].Path(dir)
	expect.OK(t, os.MkdirAll(done, 0o755))
	expect.OK(t, rundir.WriteJSON(filepath.Join(done, rundir.ResultFile), rundir.Result{Status: rundir.StateDiverged}))
	synctest.Test(t, func(t *testing.T) {
		l, j := &fakeLauncher{t: t, rest: completes(3)}, &journal{}
		s, err := Run(t.Context(), dir, fakeOptions(l, j))
		expect.OK(t, err)
		if got := states(s); got != "done diverged done done" || !s.Finished() {
			t.Errorf("states %s", got)
		}
		if slices.Sort(l.starts); !slices.Equal(l.starts, []string{"0/1", "2/1", "3/1"}) || l.most != 2 {
			t.Errorf("started %v, %d at a time", l.starts, l.most)
		}
		if j.of(0) != "started, ended" || j.of(1) != "found" {
			t.Errorf("events %q and %q", j.of(0), j.of(1))
		}
		e := j.first(Progress)
		if e.State.Run == nil || e.State.Run.Status == nil || e.Attempt != 1 {
			t.Errorf("progress %+v", e)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		l, j := &fakeLauncher{t: t}, &journal{}
		if _, err := Run(t.Context(), dir, fakeOptions(l, j)); err != nil || len(l.starts) > 0 || j.count(Found) != 4 {
			t.Errorf("the same command again: error %v, started %v, found %d", err, l.starts, j.count(Found))
		}
	})
}

// Whatever is asked for, no more threads run than there are cores.
func TestRunDividesTheCores(t *testing.T) {
	tests := []struct {
		runs, cores, jobs int
		first             string // threads of the first run
		most              int
		note              bool
	}{
		{4, 2, 0, "1", 2, false},
		{4, 8, 0, "2", 4, false},
		{1, 8, 0, "8", 1, false},
		{4, 8, 2, "4", 2, false},
		{4, 8, 1, "8", 1, false},
		{4, 2, 16, "1", 2, true},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%+v", tt), func(t *testing.T) {
			dir := writeSweep(t, fakeManifest(1, tt.runs))
			synctest.Test(t, func(t *testing.T) {
				l, j := &fakeLauncher{t: t, rest: completes(1)}, &journal{}
				o := fakeOptions(l, j)
				o.Cores, o.Jobs = tt.cores, tt.jobs
				expect.OK(t, expect.Err(Run(t.Context(), dir, o)))
				if _, threads, _ := strings.Cut(l.starts[0], "/"); threads != tt.first || l.most != tt.most {
					t.Errorf("%s threads, %d at a time; want %s, %d", threads, l.most, tt.first, tt.most)
				}
				if (len(j.notes) > 0) != tt.note {
					t.Errorf("notes %q", j.notes)
				}
			})
		})
	}
}

func TestRunTriesAgain(t *testing.T) {
	tests := []struct {
		name   string
		acts   []act
		events string
		fails  string // part of the error
	}{
		{"killed once", []act{dies(2, true), completes(4)}, "started, died, started, ended", ""},
		{"killed without a checkpoint", []act{dies(2, false), dies(2, false), dies(2, false)},
			"started, died, started, died, started, died, gave up", "3 processes in a row died without a new checkpoint; the last: it was killed"},
		{"a checkpoint resets the count of deaths", []act{dies(1, false), dies(1, true), dies(1, false), dies(1, false), completes(4)},
			"started, died, started, died, started, died, started, died, gave up", "3 processes in a row"},
		{"every process saves a checkpoint", []act{dies(1, true), dies(1, true), dies(1, true), dies(1, true), dies(1, true), completes(9)},
			"started, died, started, died, started, died, started, died, started, died, started, ended", ""},
		{"another program stopped it", []act{locked(func(p *fakeProcess) Exit { p.resume(); p.steps(1, true); return p.stop() }), completes(4)},
			"started, died, started, ended", ""},
		{"it reported an error", []act{fails(1, "write x: no space left")}, "started, gave up", "a, seed 1: write x: no space left"},
		{"broken configuration", []act{fails(2, "seed: unknown")}, "started, gave up", "seed: unknown"},
		{"it could not report its error", []act{func(p *fakeProcess) Exit {
			p.print("grpo: write status.json: no space left\n")
			return Exit{Code: 1}
		}}, "started, gave up", "write status.json: no space left"},
		{"a panic is a death, not a usage error", []act{dies(1, true), panics, completes(3)}, "started, died, started, died, started, ended", ""},
		{"it ends well without a result", []act{func(*fakeProcess) Exit { return Exit{} }, completes(3)}, "started, died, started, ended", ""},
		{"its result can't be read", []act{locked(func(p *fakeProcess) Exit {
			p.check(os.WriteFile(filepath.Join(p.path, rundir.ResultFile), []byte("{"), 0o644))
			return Exit{}
		})}, "started, gave up", rundir.ResultFile},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := writeSweep(t, fakeManifest(2, 1))
			synctest.Test(t, func(t *testing.T) {
				l := &fakeLauncher{t: t, rest: completes(2), acts: map[int][]act{0: tt.acts}}
				j := &journal{}
				s, err := Run(t.Context(), dir, fakeOptions(l, j))
				if got := j.of(0); got != tt.events {
					t.Errorf("events %s\nwant   %s", got, tt.events)
				}
				if s.Runs[1].State != rundir.StateDone {
					t.Errorf("the other run is %s", s.Runs[1].State)
				}
				if tt.fails == "" {
					if err != nil || !s.Finished() {
						t.Errorf("error %v, states %s", err, states(s))
					}
					return
				}
				var failed *FailedError
				if !errors.As(err, &failed) || len(failed.Failures) != 1 || failed.Left != 0 || !strings.Contains(err.Error(), tt.fails) {
					t.Fatalf("error %v, want one with %q", err, tt.fails)
				}
				if errors.Is(err, config.ErrConfig) || errors.Is(err, rundir.ErrInterrupted) {
					t.Errorf("error %v has another exit code than 1", err)
				}
			})
		})
	}
}

// A panic is shown by its first lines, not by the goroutines that follow.
func TestRunShowsThePanic(t *testing.T) {
	dir := writeSweep(t, fakeManifest(1, 1))
	synctest.Test(t, func(t *testing.T) {
		l, j := &fakeLauncher{t: t, acts: map[int][]act{0: {dies(1, true), panics, completes(3)}}}, &journal{}
		expect.OK(t, expect.Err(Run(t.Context(), dir, fakeOptions(l, j))))
		e := j.events[slices.IndexFunc(j.events, func(e Event) bool { return e.Kind == Died && e.Attempt == 2 })]
		if !strings.HasPrefix(e.LogTail, "panic: index out of range") || filepath.Base(e.LogPath) != sweepdir.TaskLog || !strings.Contains(e.Err.Error(), "exit code 2: panic: index") {
			t.Errorf("log %q of %s, error %v", e.LogTail, e.LogPath, e.Err)
		}
	})
}

// A failed run is all that the next call does.
func TestRunAgainAfterAFailure(t *testing.T) {
	dir := writeSweep(t, fakeManifest(2, 2))
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLauncher{t: t, rest: completes(2), acts: map[int][]act{1: {fails(1, "no such file")}}}
		_, err := Run(t.Context(), dir, fakeOptions(l, &journal{}))
		want := "1 of 4 runs failed; the same command tries only failed runs again\n  b, seed 1: no such file (log: " +
			filepath.Join(dir, "runs", "b,seed=1", sweepdir.TaskLog) + ")"
		if err == nil || err.Error() != want {
			t.Errorf("error %v\nwant  %s", err, want)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLauncher{t: t, rest: completes(2)}
		s, err := Run(t.Context(), dir, fakeOptions(l, &journal{}))
		if err != nil || !s.Finished() || !slices.Equal(l.starts, []string{"1/2"}) {
			t.Errorf("error %v, states %s, started %v", err, states(s), l.starts)
		}
	})
}

// linkedRuns is a sweep in which the folders of the first arm's runs are links, which are refused.
func linkedRuns(t *testing.T) (dir string) {
	m := fakeManifest(2, 2)
	dir = writeSweep(t, m)
	for _, i := range []int{0, 2} {
		linkRun(t, m.Runs[i].Path(dir))
	}
	return dir
}

func linkRun(t *testing.T, path string) {
	t.Helper()
	expect.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(t.TempDir(), path)))
}

func TestRunWithUnusableFolders(t *testing.T) {
	dir := linkedRuns(t)
	synctest.Test(t, func(t *testing.T) {
		l, j := &fakeLauncher{t: t, rest: completes(2)}, &journal{}
		s, err := Run(t.Context(), dir, fakeOptions(l, j))
		var failed *FailedError
		if !errors.As(err, &failed) || len(failed.Failures) != 2 || !strings.Contains(err.Error(), "symbolic link") || !strings.Contains(err.Error(), "tries only failed runs again") {
			t.Errorf("error %v", err)
		}
		if got := states(s); got != "failed done failed done" {
			t.Errorf("states %s", got)
		}
		if j.events[0].Kind != GaveUp || j.events[1].Kind != GaveUp {
			t.Error("it is not reported at once")
		}
	})
}

func TestRunFailFast(t *testing.T) {
	t.Run("a run fails", func(t *testing.T) {
		dir := writeSweep(t, fakeManifest(2, 2))
		synctest.Test(t, func(t *testing.T) {
			l := &fakeLauncher{t: t, rest: completes(30), acts: map[int][]act{0: {func(p *fakeProcess) Exit {
				time.Sleep(5 * time.Second)
				return fails(1, "no space left")(p)
			}}}}
			j := &journal{}
			o := fakeOptions(l, j)
			o.FailFast = true
			s, err := Run(t.Context(), dir, o)
			var failed *FailedError
			if !errors.As(err, &failed) || failed.Left != 3 || errors.Is(err, rundir.ErrInterrupted) {
				t.Errorf("error %v", err)
			}
			if got := states(s); got != "failed interrupted missing missing" || j.of(1) != "started, stopped" {
				t.Errorf("states %s, events %s", got, j.of(1))
			}
		})
	})
	t.Run("a run can't start", func(t *testing.T) {
		dir := linkedRuns(t)
		synctest.Test(t, func(t *testing.T) {
			l := &fakeLauncher{t: t, rest: completes(2)}
			o := fakeOptions(l, &journal{})
			o.FailFast = true
			if _, err := Run(t.Context(), dir, o); err == nil || len(l.starts) != 0 {
				t.Errorf("error %v, started %v", err, l.starts)
			}
		})
	})
}
