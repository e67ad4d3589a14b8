package sweep

import (
	"fmt"

	"grpo/pkg/sweepdir"
)

// Launcher starts the processes of runs. What it starts must do what [Task]
// does; where and how is its own affair.
type Launcher interface {
	// Start begins run e of the sweep in dir with so many threads. What the
	// process prints goes to [sweepdir.TaskLog] in the run's folder.
	Start(dir string, e sweepdir.Entry, threads int) (Process, error)
}

// Process is a run's process.
type Process interface {
	// ID is the process id that stands in the run's status.json.
	ID() int
	// Wait returns when the process has ended. It is called once.
	Wait() Exit
	// Interrupt asks the process to save and to end; it does not wait.
	Interrupt() error
	// Kill ends the process at once.
	Kill() error
}

// Exit is how a process ended.
type Exit struct {
	Code   int    // -1 where a signal ended it
	Signal string // "killed", "terminated"; empty without a signal
	Err    error  // that could not be found out
}

// String says it in words.
func (x Exit) String() string {
	switch {
	case x.Err != nil:
		return fmt.Sprintf("its end could not be seen: %v", x.Err)
	case x.Signal == "killed":
		return "it was killed, probably by the kernel for lack of memory (signal: killed)"
	case x.Signal != "":
		return fmt.Sprintf("a signal ended it: %s", x.Signal)
	case x.Code == 0:
		return "it ended well, but left no result"
	case x.Code == exitInterrupted || x.Code == exitNothingSaved:
		return "something else than this command interrupted it"
	}
	return fmt.Sprintf("exit code %d", x.Code)
}

// Exit codes of a task that this package reads.
const (
	exitFailed       = 1
	exitInterrupted  = 75
	exitNothingSaved = 130
)
