// Package untrusted checks the guarantees of every reader of untrusted input: it ends soon, it
// allocates in proportion to the input, and its errors are safe to print in a terminal. Fuzz
// targets use it. It is for tests only.
package untrusted

import (
	"cmp"
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
	// Base and PerByte bound the total bytes allocated: Base + PerByte * input.
	Base, PerByte uint64
	// Time bounds the wall clock. It detects endless loops, and is long enough for
	// a busy machine.
	Time time.Duration
}

// Reader is the limit for readers of files: 8 MiB and 1 KiB for each byte, 20 seconds. It detects
// allocations whose size comes from a number in the file.
var Reader = Limit{Base: 8 << 20, PerByte: 1 << 10, Time: 20 * time.Second}

// Check runs f on an input of n bytes and fails the test if it allocates more than
// l. If it takes more time, the process panics while f still runs: an endless loop
// never returns, and Go's fuzzer keeps an input that kills the process.
//
// Memory is measured for the whole process, so tests with Check must not run in
// parallel, and a result above the limit is measured again, because the fuzzer
// itself may have allocated. So f may run twice.
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

// watch counts tenths of the time, not the time itself, so that a suspended machine
// is not late.
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

// late reports that an input takes too long; a test replaces it.
var late = func(text string) { panic(text) }

// allocated is the number of bytes that the process has allocated. Unlike
// runtime.ReadMemStats it does not stop the world, which takes longer than most
// inputs; it lags by the processors' caches, far less than Base.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// Bounds of an error: fifty problems and a headline, each a few lines of a
// terminal.
const (
	maxLines = 64
	maxLine  = 1500 // bytes
)

// CheckError fails the test if a terminal can't show an error ([CheckText]) or if it
// is very long.
func CheckError(t testing.TB, err error) {
	t.Helper()
	text := err.Error()
	if problem := cmp.Or(unshowable(text), long(text)); problem != "" {
		t.Fatalf("the error %s: %q", problem, clip(text))
	}
}

// CheckText fails the test if text is not UTF-8 or has a control character other
// than a newline: an escape sequence in a file must not reach a terminal.
func CheckText(t testing.TB, text string) {
	t.Helper()
	if problem := unshowable(text); problem != "" {
		t.Fatalf("the text %s: %q", problem, clip(text))
	}
}

// unshowable explains why a terminal can't show a string; "" if it can.
func unshowable(text string) string {
	if !utf8.ValidString(text) {
		return "is not UTF-8"
	}
	for _, r := range text {
		if !unicode.IsPrint(r) && r != '\n' {
			return fmt.Sprintf("contains the character %U", r)
		}
	}
	return ""
}

// long explains what is too long about an error; "" if nothing is.
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
