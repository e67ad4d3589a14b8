package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
)

// ErrConfig is wrapped by every error about a configuration that its author can
// fix: a missing file, a broken line, an unknown key, a value out of range. Its
// exit code is 2.
var ErrConfig = errors.New("invalid configuration")

// Error lists all problems of a configuration. It wraps [ErrConfig] and, if a file could not be
// read, the reason.
type Error struct {
	// Doing is what was attempted, e.g. "load config".
	Doing string
	// Problems, in the order of the sources, one sentence each.
	Problems []string
	// Cause is the error of the file system, if any.
	Cause error
}

func (e *Error) Error() string {
	if len(e.Problems) == 1 {
		return e.Doing + ": " + e.Problems[0]
	}
	return fmt.Sprintf("%s: %d problems:\n  %s", e.Doing, len(e.Problems), strings.Join(e.Problems, "\n  "))
}

// Unwrap makes errors.Is(err, ErrConfig) true.
func (e *Error) Unwrap() []error {
	if e.Cause != nil {
		return []error{ErrConfig, e.Cause}
	}
	return []error{ErrConfig}
}

// Outside reports an error from a limit or a fault of the machine (open files, memory, disk), which
// no change of a configuration fixes.
func Outside(err error) bool {
	faults := []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EIO, syscall.ENOSPC}
	return slices.ContainsFunc(faults, func(e error) bool { return errors.Is(err, e) })
}

// invalid marks an error as one of the configuration and keeps its message.
type invalid struct{ error }

func (e invalid) Unwrap() []error { return []error{ErrConfig, e.error} }

// Invalid returns an error with the same message that wraps [ErrConfig], for problems that show
// only when a configuration's files are read. An error of the machine ([Outside]) is returned
// unchanged.
func Invalid(err error) error {
	if err == nil || Outside(err) {
		return err
	}
	return invalid{err}
}
