package cmd

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/rundir"
	"grpo/pkg/supervised"
)

// beating is a progress whose clock a test moves.
type beating struct {
	*progress
	out   bytes.Buffer
	clock time.Time
	beat  func()
}

func newBeating(redraw, quiet bool) *beating {
	b := &beating{clock: time.Unix(1e9, 0)}
	b.progress = newProgress(&State{Err: &b.out, Redraw: redraw, Now: func() time.Time { return b.clock },
		Every: func(_ time.Duration, f func()) func() { b.beat = f; return func() { b.beat = nil } }}, quiet)
	return b
}

// pass lets seconds pass, one at a time.
func (b *beating) pass(seconds int) {
	for range seconds {
		b.clock = b.clock.Add(time.Second)
		if b.beat != nil {
			b.beat()
		}
	}
}

func (b *beating) lines() []string {
	return strings.Split(strings.TrimSuffix(b.out.String(), "\n"), "\n")
}

func (b *beating) check(t *testing.T, want ...string) {
	t.Helper()
	if got := b.lines(); !slices.Equal(got, want) {
		t.Errorf("it printed\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A run that goes on after a signal says what it is waiting for.
func TestStopping(t *testing.T) {
	for _, tt := range []struct {
		name    string
		cancels bool
		lasts   time.Duration // after that
		want    string
	}{
		{"a long step", true, time.Minute, "ends after step 3\n"},
		{"a short one", true, time.Second / 2, ""},
		{"no signal", false, time.Minute, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBeating(false, false)
			ctx, cancel := context.WithCancel(t.Context())
			done := b.stopping(ctx, "ends after step %d", 3)
			if tt.cancels {
				cancel()
			}
			time.Sleep(tt.lasts)
			done()
			cancel()
			time.Sleep(time.Minute)
			if got := b.out.String(); got != tt.want {
				t.Errorf("%s: it printed %q, want %q", tt.name, got, tt.want)
			}
		})
	}
}

// What does not move for ten minutes says nothing more: a sweep takes lines for a sign of life.
func TestStuckActivity(t *testing.T) {
	b := newBeating(false, false)
	progress := model.Progress(b.Doing)
	progress.Do("sampling")
	b.pass(3600)
	if n := len(b.lines()); n != 60 {
		t.Errorf("%d lines in an hour", n)
	}
	progress.Do("sampling")
	b.pass(10)
	if n := len(b.lines()); n != 61 {
		t.Errorf("%d lines after it moved", n)
	}
}

// What takes 10 seconds says so, then every 10 seconds, and nothing else does.
func TestActivityLines(t *testing.T) {
	b := newBeating(false, false)
	progress := model.Progress(b.Doing)
	progress.Do("opening model x")
	b.pass(9)
	progress.Do("preparing")
	b.pass(15)
	watch := progress.Watch("sampling", 4, 100, nil)
	b.pass(10)
	_ = watch(4, 0, 0)
	b.pass(10)
	_ = watch(96, 1, 60)
	b.pass(9)
	progress.Count("update", "micro-batch", 3, 8)
	b.pass(8)
	b.done()
	b.pass(60)
	b.check(t,
		"preparing, 1s so far",
		"preparing, 11s so far",
		"sampling, 0 of 4 completions, 6s so far",
		"sampling, 0 of 4 completions, 1 tokens/s, 9m54s left",
		"sampling, 1 of 4 completions, 6 tokens/s, 24s left",
		"update, 3 of 8 micro-batches, 12s left")
}

// Completions that were there before say nothing about the time that the others take.
func TestActivityThatContinues(t *testing.T) {
	b := newBeating(false, false)
	watch := model.Progress(b.Doing).Watch("evaluating val", 4, 100, nil)
	_ = watch(0, 2, 200)
	b.pass(10)
	_ = watch(100, 1, 0)
	b.pass(10)
	b.check(t,
		"evaluating val, 2 of 4 completions, 10s so far",
		"evaluating val, 3 of 4 completions, 10 tokens/s, 10s left")
}

// A run of short steps has the lines of its evaluations alone, one of long steps a line for each step.
func TestActivityOfRun(t *testing.T) {
	step := func(b *beating, n, seconds int) {
		for i := range 4 {
			model.Progress(b.Doing).Count("update", "micro-batch", i, 4)
			b.pass(seconds / 4)
		}
		m := rundir.Metrics{Step: n}
		m.Reward.Mean = 0.5
		b.Step(m)
	}
	short := newBeating(false, false)
	short.Begin(0, 4)
	short.Eval(rundir.Eval{Step: 0})
	for i := range 4 {
		step(short, i+1, 0)
		short.pass(2)
	}
	short.Eval(rundir.Eval{Step: 4})
	if n := len(short.lines()); n != 2 {
		t.Errorf("a run of short steps printed %d lines: %q", n, short.lines())
	}

	many := newBeating(false, false)
	many.Begin(0, 40)
	many.Eval(rundir.Eval{Step: 0})
	for i := range 12 {
		step(many, i+1, 0)
		many.pass(1)
	}
	if got := many.lines()[1:]; !slices.Equal(got, []string{"step 10/40  train reward 0.500  26s left"}) {
		t.Errorf("a run of many steps printed %q", got)
	}

	long := newBeating(false, false)
	long.Begin(0, 2)
	model.Progress(long.Doing).Do("evaluating val")
	long.pass(10)
	long.Eval(rundir.Eval{Step: 0})
	step(long, 1, 12)
	step(long, 2, 24)
	model.Progress(long.Doing).Do("evaluating test")
	long.pass(10)
	got := slices.DeleteFunc(long.lines(), func(l string) bool { return strings.Contains(l, "validation") })
	if want := []string{
		"evaluating val, 10s so far",
		"step 1/2: update, 3 of 4 micro-batches, 3s left",
		"step 1/2  train reward 0.500  22s left",
		"step 2/2: update, 1 of 4 micro-batches, 30s left",
		"step 2/2: update, 3 of 4 micro-batches, 7s left",
		"step 2/2  train reward 0.500",
		"evaluating test, 10s so far",
	}; !slices.Equal(got, want) {
		t.Errorf("a run of long steps printed\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	evaluated := newBeating(false, false) // the first evaluation takes as long as a hundred steps, and is made once more
	c := config.Default()
	c.Train.NGRPOSteps, c.Eval.EveryNSteps, c.Data.TestSize, c.Data.UnseenSize = 3, 3, 0, 0
	evaluated.config = &c
	evaluated.Begin(0, 3)
	evaluated.pass(2000)
	evaluated.Eval(rundir.Eval{Step: 0})
	evaluated.pass(20)
	m := rundir.Metrics{Step: 1, Time: rundir.Timing{RolloutS: 20, ElapsedS: 2020}}
	evaluated.Step(m)
	if got := evaluated.lines(); !strings.HasSuffix(got[len(got)-1], "  34m0s left") { // 2 * 20 + 2000 s
		t.Errorf("it printed %q", got)
	}

	stages := newBeating(false, false)
	for _, stage := range []string{"a", "b"} {
		for n := 1; n <= 2; n++ {
			stages.SFTStep(supervised.SFTStep{Stage: stage, Step: n}, 2)
			stages.clock = stages.clock.Add(20 * time.Second)
		}
	}
	stages.check(t, "step 2/2  a loss 0.0000", "step 2/2  b loss 0.0000")
}

// On a terminal the activity is drawn over the last one, also beside the bar of a run. Quiet, nothing is printed.
func TestActivityBar(t *testing.T) {
	b := newBeating(true, false)
	b.Doing(model.Activity{What: "opening model x"})
	b.pass(3)
	b.Doing(model.Activity{What: "sampling", Unit: "completion", Of: 4, Done: 1, Tokens: 30, Part: 0.5})
	b.pass(3)
	b.done()
	out := b.out.String()
	for _, want := range []string{"opening model x, 3s so far", "[#####...............] sampling 1/4, 10 tokens/s, 3s left"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %q", want, out)
		}
	}
	if !strings.HasSuffix(out, "\x1b[1A\r\x1b[J") {
		t.Errorf("a line is left: %q", out)
	}

	r := newBeating(true, false)
	r.headline("run folder x")
	if r.out.Len() > 0 {
		t.Errorf("before the run begins it printed %q", r.out.String())
	}
	r.Begin(0, 8)
	r.Eval(rundir.Eval{Step: 0})
	r.Doing(model.Activity{What: "evaluating unseen", Unit: "completion", Of: 128, Done: 33, Tokens: 900, Part: 0.25})
	r.pass(3)
	r.Doing(model.Activity{What: "update", Unit: "micro-batch", Of: 4, Done: 3})
	r.pass(3)
	r.clock = r.clock.Add(time.Second)
	r.Step(rundir.Metrics{Step: 1})
	r.done()
	for _, want := range []string{"run folder x\n", "] 0/8  evaluating unseen 33/128, 300 tokens/s, 9s left", "update 3/4", "] 1/8  train reward 0.000"} {
		if !strings.Contains(r.out.String(), want) {
			t.Errorf("no %q in %q", want, r.out.String())
		}
	}

	q := newBeating(true, true)
	q.Doing(model.Activity{What: "opening model x"})
	q.pass(30)
	if q.out.Len() > 0 {
		t.Errorf("quiet, it printed %q", q.out.String())
	}
}
