// Package sweep runs arms x seeds: it resolves every configuration first,
// freezes them into a manifest, and gives each run a process of its own.
package sweep

import (
	"time"

	"grpo/pkg/sweepdir"
)

// Plan is a sweep that is ready to be run: everything resolved, nothing
// written.
type Plan struct {
	Manifest sweepdir.Manifest
	// Request is what sweep.yaml will hold: `grpo ablate` of that file repeats
	// the sweep.
	Request []byte
}

// EventKind says what happened to a run.
type EventKind int

// Kinds of events.
const (
	Found     EventKind = iota // it was finished already
	Started                    // its process began; Attempt counts from 1
	Progress                   // status.json moved on
	Ended                      // it has its result: done or diverged
	Died                       // its process ended without a result; it is tried again or given up
	GaveUp                     // no attempt is left
	Hung                       // no heartbeat for too long
	Stopped                    // interrupted with a checkpoint
	Elsewhere                  // another grpo works on it
)

// Event is reported to the observer of [Run], one at a time.
type Event struct {
	Kind    EventKind
	Entry   sweepdir.Entry
	Arm     sweepdir.Arm
	Time    time.Time
	State   sweepdir.RunState // as read from the folder
	Attempt int
	Err     error  // of Died and GaveUp
	LogTail string // of Died and GaveUp: the last lines of the run's log
	LogPath string
}

// Observer receives the events of a sweep, on one goroutine.
type Observer interface {
	Event(Event)
	// Note is a line for people.
	Note(string)
}
