package sweep

import (
	"runtime"
	"time"
)

// Options say how a sweep is run. Observer may be nil.
type Options struct {
	// Jobs is the number of runs at a time; 0 = as many as there are cores,
	// which is also the most.
	Jobs int
	// Threads of each run; 0 = the cores divided by the running runs.
	Threads  int
	FailFast bool // stop all at the first run that is given up
	// StudySweeps are folders of other sweeps of the same study. A run that one of
	// them has finished with the same configuration (by its hash) is copied, not
	// made again.
	StudySweeps []string
	// Siblings are sweeps outside the study (see [Siblings]): their runs are
	// verified before they are copied.
	Siblings []string
	// Version is that of the program; siblings' runs of another are not copied.
	Version string
	// Memory is what all runs together may take, in bytes; 0 = unknown.
	Memory   int64
	Launcher Launcher
	Observer Observer
	Now      func() time.Time

	// The rest is for tests and unusual machines; 0 = the default.
	Cores     int           // GOMAXPROCS
	HangAfter time.Duration // 5 minutes without a sign of life, and at least 20 steps' time; below 0 = never
	Poll      time.Duration // half a second between two reads of the folders
	Pause     time.Duration // a second before a run that died is tried again
}

// When a run is given up.
const (
	// maxDeaths is how often in a row a run's process may die without a new
	// checkpoint.
	maxDeaths = 3
	// maxEarlyDeaths processes that died before their first step, within
	// earlyTime of the sweep's start, stop it: something is wrong with all.
	maxEarlyDeaths = 3
	earlyTime      = time.Minute
	// hangSteps is the least silence, in mean step times, that counts as a hang.
	hangSteps = 20
)

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

type noObserver struct{}

func (noObserver) Event(Event) {}
func (noObserver) Note(string) {}
