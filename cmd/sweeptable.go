package cmd

import (
	"fmt"
	"io"
	"strings"
	"time"

	"grpo/internal/textutil"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
	"grpo/pkg/sweepdir"
)

// sweepTable shows a sweep on standard error: on a terminal a table that is
// redrawn in place (sweeptable_draw.go), otherwise a line for each event and, now
// and then, one for the whole. Of a study it shows the runs of the part at work,
// and the whole is that of all parts. Its clock is passed in, so that tests can
// tell what it shows when.
type sweepTable struct {
	w      io.Writer
	redraw bool
	now    func() time.Time
	size   func() (width, height int)

	parts []tablePart
	part  int        // at work
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
	t := &sweepTable{w: s.Err, redraw: s.Redraw && !quiet, now: s.Now, size: terminalSize(s.Err), jobs: jobs}
	if quiet {
		t.w = io.Discard
	}
	t.began = t.now()
	t.lastSum = t.began
	return t
}

// add appends the runs of a sweep. Those marked as copied cost nothing.
func (t *sweepTable) add(m sweepdir.Manifest, copied []bool) {
	arms := len(t.work)
	t.work = append(t.work, make([]float64, len(m.Arms))...)
	part := tablePart{from: len(t.runs)}
	for i, e := range m.Runs {
		r := tableRun{phase: phaseWaiting, arm: arms + e.Arm, copied: copied[i], name: fmt.Sprintf("%s, seed %d", textutil.Printable(m.Arms[e.Arm].Name, 0), e.Seed)}
		r.steps, t.work[r.arm] = sweep.RunWork(e)
		t.runs = append(t.runs, r)
	}
	part.to = len(t.runs)
	t.parts = append(t.parts, part)
}

// begin turns to a part, whose events follow.
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
		r.first, r.rate = r.step, 0
		t.event("started", r.name+again(r))
	case sweep.Progress:
		t.progress(r, now)
		return
	case sweep.Ended:
		r.end(e.State)
		r.seconds = now.Sub(r.started).Seconds()
		t.event(string(r.phase), fmt.Sprintf("%s: validation %.3f%s%s", r.name, r.reward, duration(r), divergence(e.State)))
	case sweep.Died, sweep.Hung:
		verb := map[sweep.EventKind]string{sweep.Died: "died", sweep.Hung: "hangs"}[e.Kind]
		if e.Kind == sweep.Died {
			r.phase = phaseWaiting
		}
		t.line("%-9s %s: %v%s", verb, r.name, e.Err, logLines(e))
	case sweep.GaveUp:
		r.phase = phaseFailed
		t.line("%-9s %s: %v%s", phaseFailed, r.name, e.Err, logLines(e))
	case sweep.Stopped:
		r.phase = phaseStopped
		t.event("stopped", fmt.Sprintf("%s: at step %d of %d, with a checkpoint", r.name, r.step, r.steps))
	case sweep.Elsewhere:
		r.phase, r.started, r.first = phaseOther, now, r.step
		t.event("elsewhere", r.name+": another grpo process is running it")
	}
	t.sum(now, e.Kind == sweep.Ended)
	t.draw(e.Kind != sweep.Found)
}

// event tells of an event where there is no table to show it.
func (t *sweepTable) event(what, text string) {
	if !t.redraw {
		t.line("%-9s %s", what, text)
	}
}

// progress tells of a run's new evaluation, not more often than progressEvery.
func (t *sweepTable) progress(r *tableRun, now time.Time) {
	if !t.redraw && r.measured && r.step > r.reported && now.Sub(later(r.lastLine, r.started)) >= progressEvery {
		r.lastLine, r.reported = now, r.step
		t.line("%-9s %s: step %d/%d  validation %.3f", "", r.name, r.step, r.steps, r.reward)
	}
	t.sum(now, false)
	t.draw(false)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// sum tells how far the whole is, not more often than sumEvery; at the end of a
// run a third of that is enough.
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

// total is the whole in a line: counts, time gone and time left.
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

// left is the number of seconds until the whole has ended.
func (t *sweepTable) left(now time.Time) (float64, bool) {
	var clocks []sweep.Clock
	for _, r := range t.runs {
		c := sweep.Clock{Arm: r.arm, Steps: r.steps, Step: r.step, First: r.first, Seconds: r.seconds, Rate: r.rate, Ended: r.phase.ended()}
		c.Measured = c.Ended && r.phase != phaseFailed
		if r.phase == phaseRunning || r.phase == phaseOther {
			c.Running, c.Seconds = true, now.Sub(r.started).Seconds()
		}
		if r.phase == phaseStopped || r.copied { // not of this command
			c.Ended = true
		}
		clocks = append(clocks, c)
	}
	return sweep.Remaining(clocks, t.work, t.jobs)
}

// done takes the table away before results are printed, and says what came of
// the whole.
func (t *sweepTable) done() {
	t.erase()
	found := 0
	for _, r := range t.runs {
		if r.found {
			found++
		}
	}
	if found == len(t.runs) {
		t.line("all %d runs are already done", found)
		return
	}
	t.line("%s", t.total(t.now()))
}

// shortTime shows seconds as people say them: 9s, 1m20s, 2h5m, 40 days, 12 years.
// It takes a float because a time.Duration ends at 292 years, which the estimate of
// a long sweep exceeds.
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
