package sweep

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"grpo/internal/expect"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// fakeQueue gives these answers in turn, the last one for ever; nil is a failure. The log of each job
// is log.
type fakeQueue struct {
	answers []map[int]JobState
	now     map[int]JobState
	log     string
	submits bool // MaySubmit
}

func (q *fakeQueue) Name() string { return "Slurm" }

func (q *fakeQueue) Ask(context.Context) error {
	a := q.answers[0]
	if len(q.answers) > 1 {
		q.answers = q.answers[1:]
	}
	if a == nil {
		return errors.New("squeue: Socket timed out")
	}
	q.now = a
	return nil
}

func (q *fakeQueue) Job(index int) JobState { return q.now[index] }
func (q *fakeQueue) MaySubmit() bool        { return q.submits }

func (q *fakeQueue) Ended(index int) (text, log string) {
	if index == 0 {
		return "job 12_0 ended: bash: /no/grpo: not found", q.log
	}
	return "", ""
}

func waitFast(j *journal, q *fakeQueue) WaitOptions {
	return WaitOptions{
		Queue: q, Observer: j, Now: time.Now, Poll: 5 * time.Millisecond, Pause: 10 * time.Millisecond,
		Grace: 60 * time.Millisecond,
	}
}

// A run without a job and without a result is given up after a while, with the end of its log. A
// failure of the queue is no end.
func TestWaitGivesUpRunsWithoutJobs(t *testing.T) {
	dir, j := writeSweep(t, fakeManifest(2, 1)), &journal{}
	log := filepath.Join(dir, "12_0.log")
	expect.OK(t, os.WriteFile(log, []byte("a\nbash: /no/grpo: not found\n"), 0o666))
	both := map[int]JobState{0: {ID: "12_0", Exists: true}, 1: {ID: "12_1", Exists: true, Waits: true, Held: "held"}}
	q := &fakeQueue{answers: []map[int]JobState{nil, nil, both, nil, {}}, log: log}
	s, err := Wait(t.Context(), dir, waitFast(j, q))
	var failed *FailedError
	if s == nil || !errors.As(err, &failed) || len(failed.Failures) != 2 {
		t.Fatalf("%v, %v", s, err)
	}
	for _, want := range []string{
		"a, seed 1: job 12_0 ended: bash: /no/grpo: not found", "b, seed 1: its job left the queue without a result",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s does not have %q", err, want)
		}
	}
	for _, want := range []string{"does not answer and is asked again", "held"} {
		if !slices.ContainsFunc(j.notes, func(n string) bool { return strings.Contains(n, want) }) {
			t.Errorf("notes %q lack %q", j.notes, want)
		}
	}
	isLogged := func(e Event) bool {
		return e.Kind == GaveUp && e.Entry.Index == 0 && strings.Contains(e.LogTail, "not found")
	}
	if !slices.ContainsFunc(j.events, isLogged) {
		t.Errorf("no event has the log: %+v", j.events)
	}
}

// As long as a job of the study may submit runs, nothing is given up; and a run that is requeued
// waits again.
func TestWaitForRunsOfALaterStage(t *testing.T) {
	dir, j := writeSweep(t, fakeManifest(2, 1)), &journal{}
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	opts := waitFast(j, &fakeQueue{answers: []map[int]JobState{{}}, submits: true})
	if s, err := Wait(ctx, dir, opts); s != nil || !errors.Is(err, rundir.ErrInterrupted) {
		t.Errorf("%v, %v", s, err)
	}
	if n := j.count(GaveUp); n > 0 {
		t.Errorf("%d runs were given up", n)
	}
	runs, waits := JobState{Exists: true}, JobState{Exists: true, Waits: true}
	j = &journal{}
	opts = waitFast(j, &fakeQueue{answers: []map[int]JobState{{0: runs, 1: runs}, {0: waits, 1: runs}}})
	ctx, stop = context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	if _, err := Wait(ctx, dir, opts); !errors.Is(err, rundir.ErrInterrupted) || j.count(Started) != 2 || j.count(Queued) != 1 {
		t.Errorf("%v; %d started, %d queued", err, j.count(Started), j.count(Queued))
	}
}

// A look that no job takes is an error, and not the end of the sweep.
func TestWaitForALookWithoutJob(t *testing.T) {
	m := fakeManifest(2, 4)
	m.Looks = []sweepdir.Look{{Seeds: 2, Level: .025}, {Seeds: 4, Level: .025}}
	dir := writeSweep(t, m)
	for _, e := range m.Runs[:4] {
		expect.OK(t, os.MkdirAll(e.Path(dir), 0o755))
		expect.OK(t, rundir.WriteJSON(filepath.Join(e.Path(dir), rundir.ResultFile), rundir.Result{Status: rundir.StateDone}))
	}
	s, err := Wait(t.Context(), dir, waitFast(&journal{}, &fakeQueue{answers: []map[int]JobState{{}}}))
	if s == nil || err == nil || !strings.Contains(err.Error(), "the look at 2 seeds of "+dir+" was not taken") {
		t.Errorf("%v, %v", s, err)
	}
}
