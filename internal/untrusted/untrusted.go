// Package hostile holds what every reader of foreign input promises, whatever
// the input: it ends soon, it allocates in proportion to what it was given, and
// when it refuses, it does so in a text that a terminal can show. The fuzz
// targets check these laws beside those of their own package. It is for tests
// only.
package untrusted

import (
	"fmt"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limit is what reading one input may cost.
type Limit struct {
	// Base and PerByte bound the bytes allocated: Base + PerByte * input. What
	// is freed again counts too, so the figures are well above what is in use at
	// any moment.
	Base, PerByte uint64
	// Time bounds the wall clock. It is meant for what would never end, and is
	// far above what any input takes, so that a busy machine does not trip it.
	Time time.Duration
}

// Reader is the limit of the readers of files: 8 MiB and 1 KiB for each byte, 20
// seconds. A thousand times the input is much for a small file; what it rules
// out is an allocation that a number in the file asked for.
var Reader = Limit{Base: 8 << 20, PerByte: 1 << 10, Time: 20 * time.Second}

// Check runs f on an input of n bytes and fails the test where it allocates more
// than l. Where it takes more time, the process panics while f is still at work:
// a loop without end would never come to a check behind it, and go's fuzzer
// keeps an input that a process died of.
//
// The figure for memory is that of the whole process, so Check is not for tests
// that run in parallel, and what seems too much is measured again: the fuzzer
// itself may have allocated meanwhile. So f must be fit to run twice.
func (l Limit) Check(t testing.TB, n int, f func()) {
	t.Helper()
	done := make(chan struct{})
	defer close(done)
	go l.watch(done, n)
	grown := growth(f)
	if most := l.Base + l.PerByte*uint64(n); grown > most && growth(f) > most {
		t.Fatalf("%d bytes of input allocated %d bytes, more than %d", n, grown, most)
	}
}

// growth is the number of bytes allocated while f runs.
func growth(f func()) uint64 {
	before := allocated()
	f()
	return allocated() - before
}

// watch counts tenths of the time, and not the time itself: a machine that was
// asleep for an hour has missed one.
func (l Limit) watch(done <-chan struct{}, n int) {
	tick := time.NewTicker(l.Time / 10)
	defer tick.Stop()
	for range 10 {
		select {
		case <-tick.C:
		case <-done:
			return
		}
	}
	late(fmt.Sprintf("%d bytes of input take more than %v", n, l.Time))
}

// late is what happens when an input takes too long; a test of this package
// replaces it.
var late = func(text string) { panic(text) }

// allocated is the number of bytes that the process has allocated so far. Unlike
// runtime.ReadMemStats it does not stop the world, which would cost more than
// most inputs do; it lags by what the processors hold back, far less than Base.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// Bounds of a refusal: a file's worst fifty problems and a headline, none of
// them longer than a few lines of a terminal.
const (
	maxLines = 64
	maxLine  = 1500 // bytes
)

// CheckError fails the test where an error's text could not be shown: see
// [CheckText]; or where it is as long as the file that it is about.
func CheckError(t testing.TB, err error) {
	t.Helper()
	text := err.Error()
	problem := unshowable(text)
	if problem == "" {
		problem = long(text)
	}
	if problem != "" {
		t.Fatalf("the error %s: %q", problem, clip(text))
	}
}

// CheckText fails the test where text is not what a terminal should be given: it
// is not UTF-8, or it holds a control character other than a line's end. An
// escape sequence out of a file would reach the user's terminal.
func CheckText(t testing.TB, text string) {
	t.Helper()
	if problem := unshowable(text); problem != "" {
		t.Fatalf("the text %s: %q", problem, clip(text))
	}
}

// unshowable says why a text is not for a terminal, or is empty.
func unshowable(text string) string {
	if !utf8.ValidString(text) {
		return "is not UTF-8"
	}
	for _, r := range text {
		if !unicode.IsPrint(r) && r != '\n' {
			return fmt.Sprintf("holds the character %U", r)
		}
	}
	return ""
}

// long says what is too long about an error, or is empty.
func long(text string) string {
	lines := strings.Split(text, "\n")
	if len(lines) > maxLines {
		return fmt.Sprintf("has %d lines", len(lines))
	}
	for i, line := range lines {
		if len(line) > maxLine {
			return fmt.Sprintf("has %d bytes in line %d", len(line), i+1)
		}
	}
	return ""
}

func clip(s string) string {
	if len(s) > maxLine {
		return s[:maxLine] + "..."
	}
	return s
}
