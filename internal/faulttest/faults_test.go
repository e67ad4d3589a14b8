//go:build unix

// Package faulttest breaks runs of the real program and checks what remains.
//
//	go test ./internal/faulttest -timeout 0 -v -kills 200     the long version
//	go test ./internal/faulttest -timeout 0 -v -kills 10      the same faults, fewer tries of each
//
// It builds ./grpo, makes one small reference run, and then repeats it under faults: killed at
// random moments, on a full disk, in a folder that disappears, under resource limits, next to a
// second process, with damaged files. Each fault states the expected outcome. An interrupted run is
// continued with the same command until it ends, and the finished folder must be bit-identical to
// that of the reference run: configuration, metrics, evaluations, samples, result and weights,
// except for times.
//
// The random moments come from a stream with a printed seed. A process's state at such a moment is
// not repeatable, so a failure keeps its folder.
package faulttest

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"grpo/internal/expect"
)

// fault is one kind of fault. try returns what happened; a [skip] is the reason for
// not trying it.
type fault struct {
	name    string
	promise string // expected outcome
	try     func(l *lab) (string, error)
}

type skip string

func (s skip) Error() string { return string(s) }

// faults are all of them. Clock jumps and hanging children of a sweep need a clock of their own:
// TestClockJumps of pkg/train and the tests of pkg/sweep.
func faults() []fault {
	const (
		equal   = "bit-identical"
		refused = "an error with the file's name, "
		later   = refused + "now or when the file is read, or " + equal
		ends    = "succeeds or a clear error, exit 1; without the limit " + equal
		clear   = "a clear error, exit 1; "
	)
	return []fault{
		{"kill -9 at a random moment of a training run", "the same command finishes, " + equal, killTraining},
		{"kill -9 at a random moment of a sweep", "the same command finishes, " + equal, killSweep},
		{"SIGTERM at a random moment", "the update is finished, exit 75 (130 if nothing was saved); continues, " + equal, terminate},
		{"SIGTERM and SIGINT within 20 ms", "one interruption: the same as above", terminateTwice},
		{"SIGSTOP for a while, SIGCONT", "continues normally, " + equal, stopAndGo},
		{"disk full from the start", clear + "with room again " + equal, diskFull},
		{"disk filled while running", clear + "with room again " + equal, diskFills},
		{"no inodes left", clear + "with some again " + equal, inodesFull},
		{"read-only folder", clear + "writable again " + equal, readOnly},
		{"folder moved away while running", clear + "the moved folder continues, " + equal, folderMoved},
		{"folder removed while running", clear + "the same command starts over, " + equal, folderRemoved},
		{"file descriptor limit", ends, fewFiles},
		{"file size limit", ends, smallFiles},
		{"address space limit", "succeeds or reports that memory is exhausted; without the limit " + equal, smallMemory},
		{"GOMEMLIMIT below the memory in use", "slower, " + equal, softMemory},
		{"two processes on one folder", "one writes, the other is refused or shows the result; " + equal, twoProcesses},
		{"a byte flipped in a file of an unfinished run", later, flipUnfinished},
		{"a file of an unfinished run cut short", later, cutUnfinished},
		{"a byte flipped in a file of a finished run", refused + "or the original content is shown", flipFinished},
		{"a file of a finished run cut short", refused + "or the original content is shown", cutFinished},
		{"weights that are not finite", "the run is diverged, recorded with the step, exit 0", diverge},
	}
}

var (
	kills = flag.Int("kills", 0, "kills of training runs; the tries of the other faults scale with it; 0 tries no fault")
	seed  = flag.Uint64("seed", 1, "seed of the random moments")
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == limitedCommand {
		fmt.Fprintf(os.Stderr, "faulttest: %v\n", runLimited(os.Args[2:]))
		os.Exit(125)
	}
	os.Exit(m.Run())
}

func TestFaults(t *testing.T) {
	if *kills == 0 {
		t.Skip("without -kills")
	}
	l, err := newLab(t.Context(), *kills, *seed)
	expect.OK(t, err)
	t.Logf("%s; seed %d; the reference run takes %v; folders in %s", l.version, *seed, l.took.Round(time.Millisecond), l.work)
	t.Cleanup(func() {
		if !t.Failed() {
			_ = os.RemoveAll(l.work)
		}
	})
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			text, err := f.try(l.at(f.name))
			var why skip
			switch {
			case errors.As(err, &why):
				t.Skip(why)
			case err != nil:
				t.Errorf("want: %s\n%v", f.promise, err)
			default:
				t.Log(text)
			}
		})
	}
}
