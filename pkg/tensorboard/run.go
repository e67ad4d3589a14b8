package tensorboard

import (
	"time"

	"grpo/pkg/rundir"
)

// Timeline gives the events of a run their times: the start of the run plus the seconds of training,
// as if it had not been interrupted before its last start.
type Timeline struct{ start, now float64 }

// NewTimeline begins at the start in meta, which may be nil; without a readable start at 1970.
func NewTimeline(meta *rundir.Meta) *Timeline {
	t := &Timeline{}
	if meta != nil {
		if started, err := time.Parse(time.RFC3339, meta.Started); err == nil {
			t.start = float64(started.Unix()) - meta.ElapsedS
		}
	}
	t.now = t.start
	return t
}

// Step is the event of a line of metrics.
func (t *Timeline) Step(m rundir.Metrics) []byte {
	t.advance(m)
	return Scalars(t.now, m.Step, m.Scalars())
}

func (t *Timeline) advance(m rundir.Metrics) {
	if s := t.start + m.Time.ElapsedS; s > t.now { // false for NaN
		t.now = s
	}
}

// Eval is the event of an evaluation. Its time is that of the step before.
func (t *Timeline) Eval(e rundir.Eval) []byte { return Scalars(t.now, e.Step, e.Scalars()) }

// Now is the time of the last event.
func (t *Timeline) Now() float64 { return t.now }

// End is the time of the last event of a run.
func End(r *rundir.Run) float64 {
	t := NewTimeline(r.Meta)
	for _, m := range r.Metrics {
		t.advance(m)
	}
	return t.now
}

// Run returns the start of an event file with all steps and evaluations of a run, ordered by step,
// and the timeline for what follows.
func Run(r *rundir.Run) ([]byte, *Timeline) {
	t := NewTimeline(r.Meta)
	out := Header(t.start)
	evals := r.Evals
	for _, m := range r.Metrics {
		for ; len(evals) > 0 && evals[0].Step <= m.Step; evals = evals[1:] {
			out = append(out, t.Eval(evals[0])...)
		}
		out = append(out, t.Step(m)...)
	}
	for _, e := range evals {
		out = append(out, t.Eval(e)...)
	}
	return out, t
}
