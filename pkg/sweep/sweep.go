// Package sweep runs arms x seeds: it resolves every configuration first,
// freezes them into a manifest, and trains each run in its own process.
package sweep

import (
	"runtime"
	"time"

	"grpo/pkg/sweepdir"
)

// Plan is a sweep that is ready to be run: everything resolved, nothing
// written.
type Plan struct {
	Manifest sweepdir.Manifest
	// Request is the content of sweep.yaml: `grpo ablate` of that file repeats
	// the sweep.
	Request []byte
}

// EventKind says what happened to a run.
type EventKind int

// Kinds of events.
const (
	Found     EventKind = iota // it was finished already
	Started                    // its process began; Attempt counts from 1
	Progress                   // there are new steps, evaluations or a new status
	Ended                      // it has its result: done or diverged
	Died                       // its process ended without a result; it is tried again or given up
	GaveUp                     // no attempt is left
	Hung                       // no heartbeat for too long
	Stopped                    // interrupted with a checkpoint
	Elsewhere                  // another grpo process is running it
)

// Event is reported to the observer of [Run], one at a time.
type Event struct {
	Kind    EventKind
	Entry   sweepdir.Entry
	State   sweepdir.RunState // as read from the folder
	Attempt int
	Err     error  // of Died, GaveUp and Hung
	LogTail string // with Err: the last lines of the run's log
	LogPath string
}

// Observer receives the events of a sweep, on one goroutine.
type Observer interface {
	Event(Event)
	// Note is a line for the user.
	Note(string)
}

type noObserver struct{}

func (noObserver) Event(Event) {}
func (noObserver) Note(string) {}

// Options say how a sweep is run. Observer may be nil.
type Options struct {
	// Jobs is the number of parallel runs; 0 = one per core, which is also the
	// maximum.
	Jobs     int
	FailFast bool // stop all at the first run that is given up
	// StudySweeps are folders of other sweeps of the same study. A run that one of
	// them has finished with the same configuration (by its hash) is copied
	// instead of trained.
	StudySweeps []string
	// Siblings are sweeps outside the study (see [Siblings]): their runs are
	// verified before they are copied.
	Siblings []string
	// Version of the program; siblings' runs of another version are not copied.
	Version string
	// Memory is what all runs together may take, in bytes; 0 = unknown.
	Memory   int64
	Launcher Launcher
	Observer Observer
	Now      func() time.Time

	// The rest is for tests; 0 = the default.
	Cores     int           // GOMAXPROCS
	HangAfter time.Duration // 5 minutes without a heartbeat, and at least 20 steps' time
	Poll      time.Duration // half a second between two reads of the folders
	Pause     time.Duration // a second before a run that died is tried again
}

func (o Options) withDefaults() Options {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.HangAfter, 5*time.Minute)
	def(&o.Poll, 500*time.Millisecond)
	def(&o.Pause, time.Second)
	if o.Cores <= 0 {
		o.Cores = runtime.GOMAXPROCS(0)
	}
	if o.Observer == nil {
		o.Observer = noObserver{}
	}
	return o
}

// Slots is the number of parallel runs, when jobs are asked for (0 = one per
// core).
func Slots(jobs, cores, runs int) int {
	if jobs <= 0 || jobs > cores {
		jobs = cores
	}
	return max(1, min(jobs, runs))
}
