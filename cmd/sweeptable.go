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
	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
	"grpo/pkg/sweepdir"
)

// sweepTable shows a sweep on standard error: on a terminal a table that is
// redrawn in place (sweeptable_draw.go), otherwise a line for each event and, now
// and then, one for the whole. Of a study it shows the runs of one part, with the
// totals of all parts.
type sweepTable struct {
	w      io.Writer
	redraw bool
	now    func() time.Time
	size   func() (width, height int)

	parts []tablePart
	part  int        // that is running
	runs  []tableRun // of all parts
	work  []float64  // of a whole run of each arm of all parts
	jobs  int
	began time.Time

	drawn             int // lines of the table on the screen
	lastDraw, lastSum time.Time
}

// tablePart is a sweep of the table: runs[from:to].
type tablePart struct {
	head     string // above its runs; empty: nothing
	from, to int
}

// tableRun is a run of the table. The clock's Seconds are set when it has ended.
type tableRun struct {
	sweep.Clock
	phase    phase
	name     string  // arm and seed
	reward   float64 // last validation answer reward, sampled
	measured bool    // there is one
	found    bool    // it was done before this sweep began
	copied   bool    // it will be copied: an earlier part makes the same run
	attempt  int
	started  time.Time // of its process
	lastLine time.Time // when a line reported its progress
	reported int       // step of the evaluation reported last
}

// phases of a run, as the table calls them.
type phase string

const (
	phaseWaiting phase = "waiting"
	phaseRunning phase = "running"
	phaseOther   phase = "elsewhere" // another grpo process is running it
	phaseStopped phase = "stopped"   // interrupted, with a checkpoint
	phaseFailed  phase = "failed"
	phaseDone    phase = rundir.StateDone
	phaseBroke   phase = rundir.StateDiverged
)

func (p phase) ended() bool { return p == phaseDone || p == phaseBroke || p == phaseFailed }

// A run's progress is reported at most every progressEvery, the whole's every
// sumEvery, where nothing can be redrawn.
const (
	progressEvery = 10 * time.Second
	sumEvery      = 30 * time.Second
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
		w: s.Err, redraw: s.Redraw && !quiet, now: s.Now, size: terminalSize(s.Err), began: now, lastSum: now,
		jobs: sweep.Slots(jobs, runtime.GOMAXPROCS(0), math.MaxInt),
	}
	if quiet {
		t.w = io.Discard
	}
	return t
}

// add appends the runs of a sweep. Those marked as copied cost nothing.
func (t *sweepTable) add(m sweepdir.Manifest, copied []bool) {
	arms, from := len(t.work), len(t.runs)
	t.work = append(t.work, make([]float64, len(m.Arms))...)
	for i, e := range m.Runs {
		r := tableRun{phase: phaseWaiting, copied: copied[i]}
		r.name = fmt.Sprintf("%s, seed %d", textutil.Printable(m.Arms[e.Arm].Name, 0), e.Seed)
		r.Arm = arms + e.Arm
		r.Steps, t.work[r.Arm] = sweep.RunWork(e)
		t.runs = append(t.runs, r)
	}
	t.parts = append(t.parts, tablePart{from: from, to: len(t.runs)})
}

// begin shows another part, whose events follow.
func (t *sweepTable) begin(part int, head string) {
	t.part, t.parts[part].head = part, textutil.Printable(head, 0)
	if !t.redraw {
		t.line("%s", head)
	}
	t.draw(true)
}

// line prints a line, above the table where there is one.
func (t *sweepTable) line(format string, args ...any) {
	t.erase()
	textutil.Fprintf(t.w, format+"\n", args...)
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
		r.found = true
	case sweep.Started:
		r.phase, r.started, r.attempt = phaseRunning, now, e.Attempt
		r.First, r.Rate = r.Step, 0
		t.event("started", r.name+r.again())
	case sweep.Progress:
		t.progress(r, now)
		return
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
		t.event(string(r.phase), fmt.Sprintf("%s: validation %.3f%s%s", r.name, r.reward, took, why))
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
	case sweep.Elsewhere:
		r.phase, r.started, r.First = phaseOther, now, r.Step
		t.event("elsewhere", r.name+": another grpo process is running it")
	}
	t.sum(now, e.Kind == sweep.Ended)
	t.draw(e.Kind != sweep.Found)
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

// event prints an event where there is no table to show it.
func (t *sweepTable) event(what, text string) {
	if !t.redraw {
		t.line("%-9s %s", what, text)
	}
}

// progress prints a run's new evaluation, at most every progressEvery.
func (t *sweepTable) progress(r *tableRun, now time.Time) {
	last := r.started
	if r.lastLine.After(last) {
		last = r.lastLine
	}
	if !t.redraw && r.measured && r.Step > r.reported && now.Sub(last) >= progressEvery {
		r.lastLine, r.reported = now, r.Step
		t.line("%-9s %s: step %d/%d  validation %.3f", "", r.name, r.Step, r.Steps, r.reward)
	}
	t.sum(now, false)
	t.draw(false)
}

// sum prints the totals, at most every sumEvery; at the end of a run after a third
// of that.
func (t *sweepTable) sum(now time.Time, atEnd bool) {
	every := sumEvery
	if atEnd {
		every /= 3
	}
	if t.redraw || now.Sub(t.lastSum) < every {
		return
	}
	t.lastSum = now
	t.line("%-9s %s", "total", t.total(now))
}

// total is a line of totals: counts, elapsed and remaining time.
func (t *sweepTable) total(now time.Time) string {
	n := map[phase]int{}
	for _, r := range t.runs {
		n[r.phase]++
	}
	text := fmt.Sprintf("%d of %d runs", n[phaseDone]+n[phaseBroke], len(t.runs))
	if n[phaseBroke] > 0 {
		text += fmt.Sprintf(" (%d diverged)", n[phaseBroke])
	}
	if n[phaseFailed] > 0 {
		text += fmt.Sprintf(", %d failed", n[phaseFailed])
	}
	text += fmt.Sprintf(", %s elapsed", shortTime(now.Sub(t.began).Seconds()))
	if left, ok := t.left(now); ok && left > 0 {
		text += fmt.Sprintf(", about %s left", shortTime(left))
	}
	return text
}

// left is the number of seconds until all runs have ended.
func (t *sweepTable) left(now time.Time) (float64, bool) {
	var clocks []sweep.Clock
	for _, r := range t.runs {
		c := r.Clock
		c.Measured = r.phase == phaseDone || r.phase == phaseBroke
		c.Running = r.phase == phaseRunning || r.phase == phaseOther
		c.Ended = r.phase.ended() || r.phase == phaseStopped || r.copied
		if c.Running {
			c.Seconds = now.Sub(r.started).Seconds()
		}
		clocks = append(clocks, c)
	}
	return sweep.Remaining(clocks, t.work, t.jobs)
}

// done erases the table before results are printed, and prints the totals.
func (t *sweepTable) done() {
	t.erase()
	if !slices.ContainsFunc(t.runs, func(r tableRun) bool { return !r.found }) {
		t.line("all %d runs are already done", len(t.runs))
		return
	}
	t.line("%s", t.total(t.now()))
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
		r.Rate = pace(s.Run.Metrics, r.First)
	}
	for _, e := range s.Run.Evals {
		if e.Split == rundir.SplitVal {
			r.reward, r.measured = e.Sampled.AnswerReward, true
		}
	}
}

// pace is the seconds per step since the first step after `first`; 0 while there
// are fewer than two. The elapsed time runs on when a run is continued.
func pace(lines []rundir.Metrics, first int) float64 {
	begin := slices.IndexFunc(lines, func(m rundir.Metrics) bool { return m.Step > first })
	if begin < 0 || len(lines)-begin < 2 {
		return 0
	}
	a, b := lines[begin], lines[len(lines)-1]
	return (b.Time.ElapsedS - a.Time.ElapsedS) / float64(b.Step-a.Step)
}

// end takes the outcome from result.json.
func (r *tableRun) end(s sweepdir.RunState) {
	r.phase = phase(s.State)
	if s.Run != nil && s.Run.Result != nil {
		res := s.Run.Result
		r.Step, r.reward, r.measured, r.Seconds = res.Steps, res.Final.Sampled.AnswerReward, true, res.WallS
	}
}

func (r *tableRun) again() string {
	text := ""
	if r.attempt > 1 {
		text = fmt.Sprintf(", attempt %d", r.attempt)
	}
	if r.attempt > 1 || r.First > 0 {
		text += fmt.Sprintf(", after step %d", r.First)
	}
	return text
}

// shortTime rounds seconds to 9s, 1m20s, 2h5m, 40 days or 12 years. It takes a float
// because a time.Duration ends at 292 years, which the estimate of a long sweep
// exceeds.
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
