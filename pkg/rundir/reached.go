package rundir

import (
	"fmt"
	"path/filepath"
)

// SavedStep is the step of the newest checkpoint of the unfinished run in dir; 0 without one.
func SavedStep(dir string) int {
	var s Checksums
	if ReadJSON(filepath.Join(dir, CheckpointDir, ChecksumsFile), &s) != nil {
		return 0 // nothing can be continued
	}
	return s.Step
}

// Reached says how far an unfinished run came.
func (r *Run) Reached() string {
	step, steps := 0, ""
	if r.Status != nil {
		step, steps = r.Status.Step, fmt.Sprintf(" of %d", r.Status.Steps)
	}
	if n := len(r.Metrics); n > 0 {
		step = max(step, r.Metrics[n-1].Step)
	}
	return fmt.Sprintf("it reached step %d%s; its last checkpoint is after step %d", step, steps, SavedStep(r.Dir))
}

// Gone describes the end of a run whose process ended without a result or an error in its status.
func (r *Run) Gone() string {
	if r.Status == nil {
		return ""
	}
	how := "it was killed, or crashed"
	if r.restarted() {
		how = "its machine was started again"
	}
	return fmt.Sprintf("its process %d no longer exists (last seen %s) and left no message: %s; %s",
		r.Status.PID, r.Status.Updated, how, r.Reached())
}

// restarted reports whether the machine of the last process was started again since.
func (r *Run) restarted() bool {
	owners, _ := Owners(r.Dir)
	n := len(owners)
	return n > 0 && owners[n-1].place().Ended(self().place())
}

// MayLackMemory reports whether the end of the run's process may have been for lack of memory: nothing
// else is known to have ended it.
func (r *Run) MayLackMemory() bool {
	return r.Status != nil && r.Status.State == StateRunning && !r.restarted()
}
