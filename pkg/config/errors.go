package config

import (
	"errors"
	"fmt"
	"strings"
)

// ErrConfig is wrapped by every error about a configuration that its author can
// mend: a missing file, a broken line, an unknown key, a value out of range. A
// command maps it to exit code 2.
var ErrConfig = errors.New("invalid configuration")

// Error lists everything that is wrong with a configuration, so that it can be
// mended in one go. It wraps [ErrConfig] and, where a file could not be read,
// the reason.
type Error struct {
	// Doing says what was tried, e.g. "load config".
	Doing string
	// Problems, in the order of the sources, one sentence each.
	Problems []string
	// Cause is the error of the file system, if that is what failed.
	Cause error
}

func (e *Error) Error() string {
	if len(e.Problems) == 1 {
		return e.Doing + ": " + e.Problems[0]
	}
	return fmt.Sprintf("%s: %d problems:\n  %s", e.Doing, len(e.Problems), strings.Join(e.Problems, "\n  "))
}

// Unwrap makes errors.Is(err, ErrConfig) hold.
func (e *Error) Unwrap() []error {
	if e.Cause != nil {
		return []error{ErrConfig, e.Cause}
	}
	return []error{ErrConfig}
}
