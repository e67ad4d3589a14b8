// Package expect has the checks of errors that tests share.
package expect

import "strings"

// TB is a *testing.T, *testing.B, *testing.F or *rapid.T.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// OK ends the test if there is an error.
func OK(t TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Error fails the test unless err is an error whose text contains each part.
func Error(t TB, err error, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("error %v, want one with %q", err, p)
		}
	}
}

// Err is the error of a call whose value is not needed.
func Err(_ any, err error) error { return err }
