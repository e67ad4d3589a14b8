// Package sweep runs arms x seeds: it resolves every configuration first,
// freezes them into a manifest, and trains each run in its own process.
package sweep

import (
	"cmp"
	"context"
	"runtime"
	"time"

	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/sweepdir"
)

// Plan is a sweep with everything resolved and nothing written.
type Plan struct {
	Manifest sweepdir.Manifest
	Request  []byte // content of sweep.yaml, with which `grpo ablate` repeats the sweep
	Launcher config.Launcher
	Reuse    []string // folders of sweeps and runs that the user names: finished runs are copied from them
	Notes    []string // of the plan itself: what arms do not have of the base, and how they are evaluated alike
}

// EventKind is what happened to a run.
type EventKind int

// Kinds of events.
const (
	Found     EventKind = iota // it was already finished, or --halving had stopped its arm
	Started                    // its process started; Attempt counts from 1
	Progress                   // new steps, evaluations or a new status
	Ended                      // it has its result: done or diverged
	Died                       // its process ended without a result; the run is tried again or given up
	GaveUp                     // no attempt is left
	Hung                       // no heartbeat for too long
	Stopped                    // interrupted with a checkpoint
	Paused                     // it waits at a rung of --halving for the other runs
	Elsewhere                  // another grpo process is running it
	Queued                     // its job waits in the cluster's queue again
)

// Event is reported to the observer of [Run], one at a time.
type Event struct {
	Kind    EventKind
	Entry   sweepdir.Entry
	State   sweepdir.RunState // as read from the folder
	From    int               // of Started: the step of the checkpoint that the run continues from
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

// Options say how a sweep is run.
type Options struct {
	// Jobs is the number of parallel runs; 0 = one per core, which is also the
	// maximum.
	Jobs     int
	FailFast bool // stop all at the first run that is given up
	// Finished runs with the same configuration (by its hash) are copied from
	// StudySweeps, other sweeps of the same study, and, after verification, from
	// Siblings (see [Siblings]).
	StudySweeps, Siblings []string
	Version, Revision     string           // of the program; siblings' runs of another are not copied
	Memory                int64            // for all runs together, in bytes; 0 = unknown
	Disk                  budget.DiskCheck // of all runs together; nil = no check
	Launcher              Launcher
	Observer              Observer
	Now                   func() time.Time
	// Queued returns the runs in a folder that are queued or running on a cluster, by their index;
	// nil = there are none.
	Queued func(ctx context.Context, dir string) (map[int]bool, error)

	// The rest is for tests; 0 = the default.
	Cores     int           // GOMAXPROCS
	HangAfter time.Duration // 5 minutes without a heartbeat, and at least 20 steps' time
	Poll      time.Duration // half a second between two reads of the folders
	Pause     time.Duration // a second before a run that died is tried again
}

func (o Options) withDefaults() Options {
	o.Cores = cmp.Or(o.Cores, runtime.GOMAXPROCS(0))
	o.HangAfter = cmp.Or(o.HangAfter, 5*time.Minute)
	o.Poll = cmp.Or(o.Poll, 500*time.Millisecond)
	o.Pause = cmp.Or(o.Pause, time.Second)
	return o
}

// threads is the number of threads of each run, of this many in parallel.
func (o Options) threads(runs int) int { return max(1, o.Cores/max(1, runs)) }

// Slots is the number of parallel runs if jobs are requested (0 = one per core).
func Slots(jobs, cores, runs int) int {
	if jobs <= 0 || jobs > cores {
		jobs = cores
	}
	return max(1, min(jobs, runs))
}
