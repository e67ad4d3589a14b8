package train

import (
	"fmt"
	"math"
	"os"
	"time"

	"grpo/internal/regular"
	"grpo/internal/textutil"
	"grpo/pkg/rundir"
)

// teeLog appends a run's events to run.log and passes them on. The log has times and is for people:
// no code reads it, and a write error does not stop the run.
type teeLog struct {
	next Observer
	file *os.File
	now  func() time.Time
}

// openTee opens the log for appending.
func openTee(path string, next Observer, now func() time.Time) (*teeLog, error) {
	f, err := regular.Create(path)
	if err != nil {
		return nil, fmt.Errorf("open the run's log: %w", err)
	}
	return &teeLog{next, f, now}, nil
}

func (l *teeLog) write(format string, args ...any) {
	textutil.Fprintf(l.file, l.now().UTC().Format(time.RFC3339)+" "+format+"\n", args...)
}

func (l *teeLog) Begin(resumedAt, steps int) {
	if resumedAt > 0 {
		l.write("continuing after step %d of %d", resumedAt, steps)
	} else {
		l.write("starting, %d steps", steps)
	}
	l.next.Begin(resumedAt, steps)
}

func (l *teeLog) Step(m rundir.Metrics) {
	what := fmt.Sprintf("train reward %.4f", m.Reward.Mean)
	if math.IsNaN(m.Reward.Mean) {
		what = "no completion has a reward"
	}
	if p := m.Preference; p != nil {
		what = fmt.Sprintf("%g pairs, %.3f of them ranked right, margin %.4g", p["pairs"], p["rewards/accuracies"], p["rewards/margins"])
	}
	entropy := fmt.Sprintf("%.4g", m.Entropy)
	if math.IsNaN(m.Entropy) {
		entropy = "n/a"
	}
	l.write("step %d: %s, loss %.6g, gradient norm %.4g, entropy %s, length %.1f",
		m.Step, what, m.Loss, m.GradNorm, entropy, m.Length)
	l.next.Step(m)
}

func (l *teeLog) Eval(e rundir.Eval) {
	l.write("step %d: %s: sampled %d of %d right", e.Step, e.Split, e.Sampled.CorrectNum, e.Sampled.N)
	if e.Greedy != nil {
		l.write("step %d: %s: greedy %d of %d right", e.Step, e.Split, e.Greedy.CorrectNum, e.Greedy.N)
	}
	l.next.Eval(e)
}

func (l *teeLog) Note(text string) {
	l.write("%s", text)
	l.next.Note(text)
}

func (l *teeLog) Close() error { return l.file.Close() }

// stopwatch adds up elapsed time. It ignores backward jumps of the clock, so recorded times are
// never negative.
type stopwatch struct {
	now         func() time.Time
	start, last time.Time
	sum         float64
}

func newStopwatch(now func() time.Time) *stopwatch {
	start := now()
	return &stopwatch{now: now, start: start, last: start}
}

// seconds returns the time since the stopwatch was made.
func (w *stopwatch) seconds() float64 {
	w.lap()
	return w.sum
}

// lap returns the time since the last call of lap or seconds.
func (w *stopwatch) lap() float64 {
	before := w.last
	w.last = w.now()
	s := max(0, w.last.Sub(before).Seconds())
	w.sum += s
	return s
}
