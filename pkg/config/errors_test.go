package config

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
)

// TestInvalid: the message is unchanged, and the error wraps ErrConfig unless the machine is the
// cause.
func TestInvalid(t *testing.T) {
	missing := fmt.Errorf("read a.jsonl: %w", fs.ErrNotExist)
	if err := Invalid(missing); !errors.Is(err, ErrConfig) || !errors.Is(err, fs.ErrNotExist) || err.Error() != missing.Error() {
		t.Errorf("%v", err)
	}
	if Invalid(nil) != nil {
		t.Error("an error of nothing")
	}
	limit := fmt.Errorf("read a.jsonl: %w", &fs.PathError{Op: "open", Path: "a.jsonl", Err: syscall.EMFILE})
	if err := Invalid(limit); errors.Is(err, ErrConfig) || err != limit {
		t.Errorf("%v", err)
	}
	if !Outside(&Error{Doing: "load config", Problems: []string{"x"}, Cause: syscall.EMFILE}) || Outside(missing) {
		t.Error("what is outside")
	}
}
