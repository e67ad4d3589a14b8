package sweep

import (
	"context"
	"fmt"
	"time"

	"grpo/internal/textutil"
	"grpo/pkg/sweepdir"
	"grpo/pkg/train"
)

// phase of a run of a sweep. The state of a run is always read from its folder: result.json means
// finished, status.json has the last checkpoint and the reason of a failure, a claim means that a
// process is running it. So a command may be killed at any time, and another may run the same sweep.
//
//	waiting -> running -> finished            result.json exists
//	              |-> waiting                 the process died: again from the checkpoint
//	              |-> failed                  it reported an error, or died too often
//	              |-> stopped                 interrupted
//	waiting -> elsewhere -> finished/waiting  another grpo has the run's folder
type phase int

const (
	waiting phase = iota
	running
	elsewhere
	finished
	failed
	stopped
	queued  // on a cluster, which trains it
	paused  // at a rung of halving, until all runs have reached it
	halved  // its arm was stopped
	planned // until a look is taken
)

// job is a run of the sweep as this process sees it.
type job struct {
	entry sweepdir.Entry
	path  string
	phase phase

	process  Process
	watch    *watch    // while running or elsewhere
	free     time.Time // when the process of another machine was seen to have ended
	logFrom  int64     // offset of the process's part of the log
	attempts int       // processes started
	killed   error     // why this program killed the process

	deaths    int // in a row, without a new checkpoint
	saved     int // step of the last checkpoint known
	notBefore time.Time
	failure   error
}

// scan is what the folder of a frozen sweep shows about its runs. [Run] and [Wait] go on from it.
type scan struct {
	opts     Options
	dir      string
	manifest sweepdir.Manifest
	jobs     []*job
}

// newScan finds the finished runs, and reports at once those that can't be trained.
func newScan(sw *sweepdir.Sweep, opts Options) *scan {
	s := &scan{opts: opts, dir: sw.Dir, manifest: sw.Manifest}
	for _, state := range sw.Runs {
		j := &job{entry: state.Entry, path: state.Path(s.dir)}
		s.jobs = append(s.jobs, j)
		err := state.CheckFolder(s.dir) // of a link not even the log is read
		if err == nil && state.Finished() {
			err = sameRewards(state) // in a sweep, all runs are trained on the same rewards
		}
		switch {
		case err != nil:
			s.giveUp(j, state, err)
		case state.Finished():
			s.finish(Found, j, state)
		case state.State == sweepdir.Dead:
			s.note("%s: %s", s.name(j), state.Error)
		case state.State == sweepdir.Stopped:
			j.phase = halved
			s.emit(Event{Kind: Found, State: state}, j)
		case state.State == sweepdir.Planned:
			j.phase = planned
		}
	}
	return s
}

// sameRewards returns an error if a finished run was trained with other contents of a script of its
// reward functions.
func sameRewards(s sweepdir.RunState) error {
	if s.Run.Meta == nil || len(s.Run.Meta.RewardFiles) == 0 {
		return nil
	}
	c, err := frozen(s.Entry)
	if err != nil {
		return err
	}
	return train.SameRewards(c, s.Run.Meta)
}

// Scan is what is left to do in the folder of a sweep.
type Scan struct {
	Waiting          []sweepdir.Entry // neither finished nor queued; a process may be training them
	Finished, Failed int              // runs with a result, and runs that can't be trained
}

// Scan freezes the sweep in its folder, or finds it there, copies finished runs of other folders as
// [Run] does, and returns what is missing. It starts nothing. A run that can't be trained is a note.
//
// Errors: see [Prepare].
func (p *Located) Scan(ctx context.Context, opts Options) (*Scan, error) {
	if err := p.Prepare(opts.Observer.Note); err != nil {
		return nil, err
	}
	sw, err := sweepdir.Open(p.Dir)
	if err != nil {
		return nil, err
	}
	opts.Siblings = p.Siblings
	s := newScan(sw, opts)
	s.leaveQueued(ctx)
	s.reuseRuns()
	for _, j := range s.in(failed) {
		s.note("%s can't be trained: %v", s.name(j), j.failure)
	}
	return &Scan{s.entries(waiting), len(s.in(finished)), len(s.in(failed))}, nil
}

// leaveQueued leaves runs alone that are queued or running on a cluster.
func (s *scan) leaveQueued(ctx context.Context) {
	if s.opts.Queued == nil {
		return
	}
	busy, err := s.opts.Queued(ctx, s.dir)
	if err != nil {
		s.note("runs may be queued in Slurm, which does not answer (%v); a run is never trained twice at a time", err)
		return
	}
	for _, j := range s.in(waiting) {
		if busy[j.entry.Index] {
			j.phase = queued
		}
	}
	if n := len(s.in(queued)); n > 0 {
		s.note("%s queued or running in Slurm and left alone (grpo cancel %s cancels them)",
			textutil.Count(n, "run"), textutil.CommandLine([]string{s.dir}))
	}
}

func (s *scan) note(format string, args ...any) { s.opts.Observer.Note(fmt.Sprintf(format, args...)) }

// in returns the runs in these phases, phase after phase.
func (s *scan) in(phases ...phase) (out []*job) {
	for _, p := range phases {
		for _, j := range s.jobs {
			if j.phase == p {
				out = append(out, j)
			}
		}
	}
	return out
}

// entries are the manifest's entries of the runs in these phases.
func (s *scan) entries(phases ...phase) (out []sweepdir.Entry) {
	for _, j := range s.in(phases...) {
		out = append(out, j.entry)
	}
	return out
}

func (s *scan) name(j *job) string {
	return fmt.Sprintf("%s, seed %d", s.manifest.NameOf(j.entry.Arm), j.entry.Seed)
}

// emit completes an event and reports it, with the end of the run's log if it has an error.
func (s *scan) emit(e Event, j *job) {
	e.Entry, e.Attempt = j.entry, j.attempts
	if e.Err != nil && j.attempts > 0 {
		e.LogTail, e.LogPath = logTail(j.path, j.logFrom)
	}
	s.opts.Observer.Event(e)
}

// finish reports a run that has its result.
func (s *scan) finish(kind EventKind, j *job, state sweepdir.RunState) {
	j.phase = finished
	s.emit(Event{Kind: kind, State: state}, j)
}

// giveUp leaves a run to the user's next command.
func (s *scan) giveUp(j *job, state sweepdir.RunState, why error) {
	j.phase, j.failure = failed, why
	s.emit(Event{Kind: GaveUp, State: state, Err: why}, j)
}

// failures lists the runs that were given up, given the sweep as it is now, and counts those with a
// result.
func (s *scan) failures(now *sweepdir.Sweep) (e *FailedError, done int) {
	e = &FailedError{}
	for _, state := range now.Runs {
		if state.Finished() {
			done++
		}
		if state.State != sweepdir.Stopped {
			e.Total++
		}
	}
	for _, j := range s.in(failed) {
		f := Failure{Run: s.name(j), Reason: j.failure}
		if j.attempts > 0 {
			_, f.Log = logTail(j.path, j.logFrom)
		}
		e.Failures = append(e.Failures, f)
	}
	e.Left = e.Total - done - len(e.Failures) - len(s.in(queued))
	return e, done
}

// Failure is a run that was given up.
type Failure struct {
	Run    string // arm and seed
	Reason error
	Log    string // empty if no process was started
}

// FailedError reports the runs of a sweep that failed.
type FailedError struct {
	Failures []Failure
	Total    int // runs of the sweep
	Left     int // runs that have no result because of the failures
}

// Error implements error, a line for each run.
func (e *FailedError) Error() string {
	text := fmt.Sprintf("%d of %s failed", len(e.Failures), textutil.Count(e.Total, "run"))
	again := "the same command tries only failed runs again"
	if e.Left > 0 {
		text += fmt.Sprintf(", and %d were not finished", e.Left)
		again = "the same command trains the missing runs"
	}
	text += "; " + again
	for _, f := range e.Failures {
		text += fmt.Sprintf("\n  %s: %v", f.Run, f.Reason)
		if f.Log != "" {
			text += fmt.Sprintf(" (log: %s)", f.Log)
		}
	}
	return text
}

// Notes is the observer of sweeps that are trained elsewhere: they have notes, and no events.
type Notes func(string)

// Event implements [Observer].
func (Notes) Event(Event) {}

// Note implements [Observer].
func (n Notes) Note(text string) { n(text) }
