package sweep

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"grpo/pkg/rundir"
)

func TestRunStopsAfterEarlyDeaths(t *testing.T) {
	slowly := func(p *fakeProcess) Exit { time.Sleep(90 * time.Second); return panics(p) }
	tests := []struct {
		name  string
		acts  map[int][]act
		runs  int
		stops bool
	}{
		{"three runs panic at once", map[int][]act{0: {panics}, 1: {panics}, 2: {panics}}, 8, true},
		{"no process can be started", map[int][]act{0: {nil}, 1: {nil}, 2: {nil}}, 8, true},
		{"one run panics three times", map[int][]act{0: {panics}}, 1, true},
		{"two deaths, then it goes", map[int][]act{0: {panics, panics, completes(2)}}, 8, false},
		{"deaths after the first minute", map[int][]act{0: {slowly}, 1: {slowly}, 2: {slowly}}, 8, false},
		{"deaths after the first step", map[int][]act{0: {dies(1, false)}, 1: {dies(1, false)}, 2: {dies(1, false)}}, 8, false},
		{"failures with a reason are no deaths", map[int][]act{0: {fails(2, "x")}, 1: {fails(1, "x")}, 2: {fails(1, "x")}}, 8, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := writeSweep(t, fakeManifest(tt.runs, 1))
			synctest.Test(t, func(t *testing.T) {
				l := &fakeLauncher{t: t, rest: completes(3), acts: tt.acts}
				s, err := Run(t.Context(), dir, fakeOptions(l, &journal{}))
				var early *EarlyDeathsError
				if got := errors.As(err, &early); got != tt.stops {
					t.Fatalf("error %v", err)
				}
				if tt.stops && (strings.Contains(states(s), rundir.StateDone) || early.Reason == nil || early.Log == "" || early.Run == "") {
					t.Errorf("states %s, error %+v", states(s), early)
				}
				if !tt.stops && !strings.HasSuffix(states(s), "done done done done done") {
					t.Errorf("states %s", states(s))
				}
			})
		})
	}
}

func TestRunHang(t *testing.T) {
	tests := []struct {
		name  string
		first act
		set   func(*Options)
		kills bool
	}{
		{"silence", hangs(2), func(*Options) {}, true},
		{"silence before the first word", func(p *fakeProcess) Exit { <-p.killed; return p.stop() }, func(*Options) {}, true},
		{"slow, but alive", func(p *fakeProcess) Exit {
			for range 4 {
				time.Sleep(4 * time.Minute)
				p.print("still here\n")
			}
			return completes(2)(p)
		}, func(*Options) {}, false},
		{"steps of a minute", locked(func(p *fakeProcess) Exit {
			p.resume()
			for p.step < 3 {
				time.Sleep(10 * time.Second)
				p.step++
				p.append(rundir.Metrics{Step: p.step, Rewards: map[string]rundir.Stat{}, Time: rundir.Timing{UpdateS: 60}})
				p.status(rundir.StateRunning, "")
			}
			time.Sleep(15 * time.Minute) // less than 20 steps
			p.check(rundir.WriteJSON(filepath.Join(p.path, rundir.ResultFile), rundir.Result{Status: rundir.StateDone}))
			return Exit{}
		}), func(*Options) {}, false},
		{"shorter HangAfter", hangs(1), func(o *Options) { o.HangAfter = 25 * time.Second }, true},
		{"a machine that slept", completes(4), func(o *Options) {
			start := time.Now()
			o.Now = func() time.Time { // from the second second on, it is an hour later
				now := time.Now()
				if now.Sub(start) > 1500*time.Millisecond {
					now = now.Add(time.Hour)
				}
				return now
			}
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := writeSweep(t, fakeManifest(1, 1))
			synctest.Test(t, func(t *testing.T) {
				l := &fakeLauncher{t: t, acts: map[int][]act{0: {tt.first, completes(4)}}}
				j := &journal{}
				o := fakeOptions(l, j)
				tt.set(&o)
				start := time.Now()
				var hung time.Time
				j.on = func(e Event) {
					if e.Kind == Hung {
						hung = time.Now()
					}
				}
				s, err := Run(t.Context(), dir, o)
				if err != nil || !s.Finished() {
					t.Errorf("error %v, states %s", err, states(s))
				}
				e := j.first(Hung)
				if got := strings.Contains(j.of(0), "hung, died"); got != tt.kills || j.count(Hung) > 0 != tt.kills {
					t.Errorf("events %s", j.of(0))
				}
				if tt.kills && (!strings.Contains(e.Err.Error(), "no sign of life") || hung.Sub(start) > 6*time.Minute) {
					t.Errorf("after %s: %v", hung.Sub(start), e.Err)
				}
			})
		})
	}
}

func TestRunInterrupted(t *testing.T) {
	dir := writeSweep(t, fakeManifest(2, 2))
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l, j := &fakeLauncher{t: t, rest: completes(20), acts: map[int][]act{0: {completes(2)}}}, &journal{}
		j.on = func(e Event) {
			if e.Kind == Ended {
				time.AfterFunc(5*time.Second, cancel)
			}
		}
		s, err := Run(ctx, dir, fakeOptions(l, j))
		if !errors.Is(err, rundir.ErrInterrupted) || errors.Is(err, rundir.ErrNothingSaved) || err.Error() != "interrupted: 1 of 4 runs done; the same command continues" {
			t.Errorf("error %v", err)
		}
		if got := states(s); got != "done interrupted interrupted missing" || j.count(Stopped) != 2 {
			t.Errorf("states %s, %d stopped", got, j.count(Stopped))
		}
		if l.alive != 0 {
			t.Errorf("%d processes are left", l.alive)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		l := &fakeLauncher{t: t, rest: completes(20)}
		if _, err := Run(ctx, dir, fakeOptions(l, &journal{})); !errors.Is(err, rundir.ErrInterrupted) || len(l.starts) > 0 {
			t.Errorf("interrupted before it started: error %v, started %v", err, l.starts)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLauncher{t: t, rest: completes(20)}
		s, err := Run(t.Context(), dir, fakeOptions(l, &journal{}))
		if err != nil || !s.Finished() || len(l.starts) != 3 {
			t.Errorf("the same command: error %v, states %s, started %v", err, states(s), l.starts)
		}
	})
}
