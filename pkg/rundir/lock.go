package rundir

import (
	"fmt"
	"strings"

	"grpo/internal/regular"
)

// LockFile is the lock in a folder that a process writes to. It contains the process id.
const LockFile = ".lock"

// LockedError reports that another process writes to the folder.
type LockedError struct {
	Dir    string
	Holder string // its process id, "" when unknown
	Hint   string // how to fix it, "" if waiting is the only way
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
