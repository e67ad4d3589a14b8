package sweep

import (
	"fmt"

	"grpo/pkg/sweepdir"
)

// Launcher starts the processes of runs. What it starts must do what [Task]
// does, on any machine.
type Launcher interface {
	// Start begins run e of the sweep in dir with this many threads. What the
	// process prints goes to [sweepdir.TaskLog] in the run's folder.
	Start(dir string, e sweepdir.Entry, threads int) (Process, error)
}

// Process is a run's process.
type Process interface {
	// ID is the process id, as in the run's status.json.
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
	Err    error  // why the end is unknown
}

// String describes the exit.
func (x Exit) String() string {
	switch {
	case x.Err != nil:
		return fmt.Sprintf("how it ended is unknown: %v", x.Err)
	case x.Signal == "killed":
		return "it was killed, probably by the kernel for lack of memory (signal: killed)"
	case x.Signal != "":
		return fmt.Sprintf("a signal ended it: %s", x.Signal)
	case x.Code == 0:
		return "it ended with exit code 0, but without a result"
	case x.Code == exitInterrupted || x.Code == exitNothingSaved:
		return "it was interrupted, but not by this command"
	}
	return fmt.Sprintf("exit code %d", x.Code)
}

// Exit codes of a task that this package reads.
const (
	exitFailed       = 1
	exitInterrupted  = 75
	exitNothingSaved = 130
)
