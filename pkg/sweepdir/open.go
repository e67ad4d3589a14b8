package sweepdir

import (
	"grpo/pkg/rundir"
)

// Missing is the state of a run that has not begun; the others are those of
// package rundir (running, done, diverged, interrupted, failed), and [Dead].
const (
	Missing = "missing"
	// Dead is a run whose status says "running" and whose process is gone.
	Dead = "dead"
)

// RunState is an entry of the manifest with what its folder holds.
type RunState struct {
	Entry
	State string      // a State of package rundir, Missing or Dead
	Run   *rundir.Run // nil while Missing, or where the folder can't be read
	// Error says why a run failed or why its folder can't be read.
	Error string
}

// Sweep is what a sweep's folder holds.
type Sweep struct {
	Dir      string
	Manifest Manifest
	Runs     []RunState // as Manifest.Runs
}

// OfArm returns the runs of an arm in the order of Manifest.Seeds.
func (s *Sweep) OfArm(arm int) []RunState {
	var out []RunState
	for _, r := range s.Runs {
		if r.Arm == arm {
			out = append(out, r)
		}
	}
	return out
}

// Finished says whether every run has its result.
func (s *Sweep) Finished() bool {
	for _, r := range s.Runs {
		if r.Run == nil || !r.Run.Finished() {
			return false
		}
	}
	return true
}
