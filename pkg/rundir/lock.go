package rundir

import (
	"fmt"
	"strings"

	"grpo/internal/regular"
)

// LockFile is the name of the lock in a run's folder while a process writes
// there. It holds that process's id.
const LockFile = ".lock"

// LockedError reports that another process writes to the folder.
type LockedError struct {
	Dir    string
	Holder string // its process id, "" when unknown
	Hint   string // how to fix it, "" when one can only wait
}

// Error implements error.
func (e *LockedError) Error() string {
	who := "another process"
	if e.Holder != "" {
		who = "process " + e.Holder
	}
	s := fmt.Sprintf("lock %s: %s is writing to this folder", e.Dir, who)
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// holder reads the process id in a lock file.
func holder(path string) string {
	data, _ := regular.Read(path, 32)
	return strings.TrimSpace(string(data))
}
