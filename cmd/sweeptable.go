package cmd

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"grpo/internal/textutil"
	"grpo/internal/tui"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
	"grpo/pkg/sweepdir"
)

// sweepTable shows a sweep on standard error: on a terminal as a table that is
// redrawn in place (sweeptable_draw.go), otherwise as a line per event and
// occasional totals. For a study it shows the runs of one part, with the totals of
// all parts.
type sweepTable struct {
	screen *tui.Screen
	redraw bool
	now    func() time.Time

	parts   []tablePart
	part    int        // that is running
	runs    []tableRun // of all parts
	work    []float64  // of a run of each arm of all parts
	jobs    int
	started time.Time

	lastTotal time.Time
}

// tablePart is a sweep of the table: runs[from:to].
type tablePart struct {
	head     string // above its runs; empty: nothing
	from, to int
}

// tableRun is a run of the table. The clock's Seconds are set when it has ended.
type tableRun struct {
	sweep.Clock
	config   config.Config
	phase    phase
	name     string    // arm and seed
	reward   *float64  // last validation answer reward, sampled
	found    bool      // it was already finished
	copied   bool      // it will be copied from an earlier part
	started  time.Time // of its process
	lastLine time.Time // of its start, or of the last line about its progress
	reported int       // step of the evaluation reported last
}

// phase of a run as the table shows it.
type phase string

const (
	phaseWaiting  phase = "waiting"
	phaseRunning  phase = "running"
	phaseOther    phase = "elsewhere" // another grpo process is running it
	phaseStopped  phase = "stopped"   // interrupted, with a checkpoint
	phaseFailed   phase = "failed"
	phaseDone     phase = rundir.StateDone
	phaseDiverged phase = rundir.StateDiverged
)

func (p phase) ended() bool { return p == phaseDone || p == phaseDiverged || p == phaseFailed }

// Without a table, a run's progress is printed at most every progressEvery, and the
// totals every totalEvery.
const (
	progressEvery = 10 * time.Second
	totalEvery    = 30 * time.Second
)

// newSweepTable returns an observer of the sweep; with quiet it shows nothing.
func newSweepTable(s *State, quiet bool, m sweepdir.Manifest, jobs int) *sweepTable {
	t := newStudyTable(s, quiet, jobs)
	t.add(m, make([]bool, len(m.Runs)))
	return t
}

// newStudyTable returns a table without runs: see [sweepTable.add].
func newStudyTable(s *State, quiet bool, jobs int) *sweepTable {
	now := s.Now()
	t := &sweepTable{
		screen: tui.New(s.Err), redraw: s.Redraw && !quiet, now: s.Now, started: now, lastTotal: now,
		jobs: sweep.Slots(jobs, runtime.GOMAXPROCS(0), math.MaxInt),
	}
	if quiet {
		t.screen.W = io.Discard
	}
	return t
}

// add appends the runs of a sweep. Those marked as copied cost nothing.
func (t *sweepTable) add(m sweepdir.Manifest, copied []bool) {
	arms, from := len(t.work), len(t.runs)
	t.work = append(t.work, make([]float64, len(m.Arms))...)
	for i, e := range m.Runs {
		r := tableRun{phase: phaseWaiting, copied: copied[i]}
		r.name = fmt.Sprintf("%s, seed %d", textutil.Printable(m.NameOf(e.Arm), 0), e.Seed)
		r.Arm = arms + e.Arm
		r.config, t.work[r.Arm] = sweep.RunWork(e)
		r.Steps = r.config.Train.NGRPOSteps
		t.runs = append(t.runs, r)
	}
	t.parts = append(t.parts, tablePart{from: from, to: len(t.runs)})
}

// Part implements launch.Observer: it shows another part, which gets the events that follow.
func (t *sweepTable) Part(part int, head string) {
	t.part, t.parts[part].head = part, textutil.Printable(head, 0)
	if !t.redraw {
		t.line("%s", head)
	}
	t.draw(true)
}

// line prints a line, above the table where there is one.
func (t *sweepTable) line(format string, args ...any) {
	t.screen.Erase()
	textutil.Fprintf(t.screen.W, format+"\n", args...)
}

// Note implements sweep.Observer.
func (t *sweepTable) Note(text string) {
	t.line("note: %s", text)
	t.draw(true)
}

// Event implements sweep.Observer.
func (t *sweepTable) Event(e sweep.Event) {
	r := &t.runs[t.parts[t.part].from+e.Entry.Index]
	r.copied = false
	now := t.now()
	r.follow(e.State)
	switch e.Kind {
	case sweep.Found:
		r.end(e.State)
		r.found = e.State.Finished()
	case sweep.Started:
		r.Step = e.From // its last process may have come further
		r.start(phaseRunning, now)
		again := ""
		if e.Attempt > 1 {
			again = fmt.Sprintf(", attempt %d", e.Attempt)
		}
		if e.Attempt > 1 || r.First > 0 {
			again += fmt.Sprintf(", after step %d", r.First)
		}
		t.event("started", r.name+again)
	case sweep.Progress:
		if !t.redraw && r.reward != nil && r.Step > r.reported && now.Sub(r.lastLine) >= progressEvery {
			r.lastLine, r.reported = now, r.Step
			t.event("", fmt.Sprintf("%s: step %d/%d  validation %s", r.name, r.Step, r.Steps, r.rewardText()))
		}
	case sweep.Ended:
		r.end(e.State)
		took, why := "", ""
		if !r.started.IsZero() {
			r.Seconds = now.Sub(r.started).Seconds()
			took = " in " + shortTime(r.Seconds)
		}
		if run := e.State.Run; run != nil && run.Result != nil && run.Result.DivergedAt != nil {
			why = fmt.Sprintf(" (at step %d: %s)", *run.Result.DivergedAt, run.Result.DivergedReason)
		}
		t.event(string(r.phase), fmt.Sprintf("%s: validation %s%s%s", r.name, r.rewardText(), took, why))
	case sweep.Died:
		r.phase = phaseWaiting
		t.failed("died", r, e)
	case sweep.Hung:
		t.failed("hangs", r, e)
	case sweep.GaveUp:
		r.phase = phaseFailed
		t.failed(string(phaseFailed), r, e)
	case sweep.Stopped:
		r.phase = phaseStopped
		t.event("stopped", fmt.Sprintf("%s: at step %d of %d, with a checkpoint", r.name, r.Step, r.Steps))
	case sweep.Paused:
		r.phase = phaseWaiting
		t.event("waits", fmt.Sprintf("%s: at step %d of %d, for the other runs (--halving)", r.name, r.Step, r.Steps))
	case sweep.Queued:
		r.phase = phaseWaiting
		t.event("queued", fmt.Sprintf("%s: again, after step %d of %d", r.name, r.Step, r.Steps))
	case sweep.Elsewhere:
		r.start(phaseOther, now)
		t.event("elsewhere", r.name+": another grpo process is running it")
	}
	every := totalEvery
	if e.Kind == sweep.Ended {
		every /= 3
	}
	if !t.redraw && now.Sub(t.lastTotal) >= every {
		t.lastTotal = now
		t.event("total", t.total(now))
	}
	t.draw(e.Kind != sweep.Found && e.Kind != sweep.Progress)
}

// failed reports a failure with the end of the run's log, indented.
func (t *sweepTable) failed(what string, r *tableRun, e sweep.Event) {
	var log textutil.Lines
	if e.LogTail != "" {
		tail := strings.ReplaceAll(e.LogTail, "\n", "\n    ")
		log = textutil.Lines(fmt.Sprintf("\n  %s:\n    %s", textutil.Printable(e.LogPath, 0), tail))
	}
	t.line("%-9s %s: %v%s", what, r.name, e.Err, log)
}

// event prints an event if there is no table to show it.
func (t *sweepTable) event(what, text string) {
	if !t.redraw {
		t.line("%-9s %s", what, text)
	}
}

// total is a line of totals: counts, elapsed and remaining time.
func (t *sweepTable) total(now time.Time) string {
	text := t.counts(now)
	if left, ok := t.left(now); ok && left > 0 {
		text += fmt.Sprintf(", about %s left", shortTime(left))
	}
	return text
}

// counts is total without the remaining time.
func (t *sweepTable) counts(now time.Time) string {
	n := map[phase]int{}
	for _, r := range t.runs {
		n[r.phase]++
	}
	text := fmt.Sprintf("%d of %d runs", n[phaseDone]+n[phaseDiverged], len(t.runs))
	if n[phaseDiverged] > 0 {
		text += fmt.Sprintf(" (%d diverged)", n[phaseDiverged])
	}
	for _, p := range []phase{phaseFailed, phaseStopped} {
		if n[p] > 0 {
			text += fmt.Sprintf(", %d %s", n[p], p)
		}
	}
	return text + fmt.Sprintf(", %s elapsed", shortTime(now.Sub(t.started).Seconds()))
}

// left is the number of seconds until all runs have ended.
func (t *sweepTable) left(now time.Time) (float64, bool) {
	var clocks []sweep.Clock
	for _, r := range t.runs {
		c := r.Clock
		c.Measured = r.phase == phaseDone || r.phase == phaseDiverged
		c.Ended = r.phase.ended() || r.phase == phaseStopped || r.copied
		if c.Running = r.phase == phaseRunning || r.phase == phaseOther; c.Running {
			c.Seconds = now.Sub(r.started).Seconds()
		}
		clocks = append(clocks, c)
	}
	return sweep.Remaining(clocks, t.work, t.jobs)
}

// done erases the table before results are printed, and prints the totals.
func (t *sweepTable) done() {
	t.screen.Erase()
	if !slices.ContainsFunc(t.runs, func(r tableRun) bool { return !r.found }) {
		t.line("all %d runs are already done", len(t.runs))
		return
	}
	t.line("%s", t.counts(t.now()))
}

// start sets the clock of a run whose process starts now.
func (r *tableRun) start(p phase, now time.Time) {
	r.phase, r.started, r.lastLine, r.First, r.Left = p, now, now, r.Step, 0
}

// follow takes steps, the last evaluation and the pace from the run's folder.
func (r *tableRun) follow(s sweepdir.RunState) {
	if s.Run == nil {
		return
	}
	if st := s.Run.Status; st != nil {
		r.Step = st.Step
	}
	if n := len(s.Run.Metrics); n > 0 {
		r.Step = max(r.Step, s.Run.Metrics[n-1].Step)
		r.Left = sweep.PaceOf(s.Run.Metrics).Left(r.config)
	}
	for i, e := range s.Run.Evals {
		if e.Split == rundir.SplitVal {
			r.reward = &s.Run.Evals[i].Sampled.AnswerReward
		}
	}
}

// end takes the outcome from result.json.
func (r *tableRun) end(s sweepdir.RunState) {
	r.phase = phase(s.State)
	if s.Run != nil && s.Run.Result != nil {
		res := s.Run.Result
		r.Step, r.reward, r.Seconds = res.Steps, &res.Final.Sampled.AnswerReward, res.WallS
	}
}

func (r *tableRun) rewardText() string {
	if r.reward == nil {
		return ""
	}
	return fmt.Sprintf("%.3f", *r.reward)
}

// shortTime rounds seconds to 9s, 1m20s, 2h5m, 40 days or 12 years. The estimate of a
// long sweep can exceed a time.Duration, which ends at 292 years.
func shortTime(seconds float64) string {
	const day, year = 24 * 3600, 365.25 * 24 * 3600
	switch {
	case !(seconds <= 100*year): // infinite and NaN too
		return "more than 100 years"
	case seconds >= 3*year:
		return fmt.Sprintf("%.0f years", seconds/year)
	case seconds >= 10*day:
		return fmt.Sprintf("%.0f days", seconds/day)
	}
	d := time.Duration(seconds * float64(time.Second))
	if d < time.Hour {
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}
