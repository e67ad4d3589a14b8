//go:build unix

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"grpo/pkg/rundir"
	"grpo/pkg/train"
)

// tooMany bounds the commands that one run may take.
const tooMany = 500

// killTraining kills runs until there were enough kills. Each run is given the
// same command again and again, killed at a random moment each time, until it
// ends before its moment comes; then it is compared. Every other kill waits,
// from its moment on, for a file that is being written: such moments are what
// atomic files are for, and too short to be met often by chance.
func killTraining(l *lab) (report, error) {
	kills, runs, torn, drawn := 0, 0, 0, 0
	for kills < l.options.kills {
		dir := l.dir()
		for n := 1; ; n++ {
			if n > tooMany {
				return report{}, fmt.Errorf("%s: no end after %d commands", dir, n)
			}
			p := l.train(dir)
			var o outcome
			var err error
			if kills < l.options.kills {
				s := timedSignal{after: l.moment(), signal: syscall.SIGKILL}
				if kills%2 == 1 {
					s.until = func() bool { return beingWritten(dir) }
				}
				o, err = p.signalled(s)
			} else {
				o, err = p.wait()
			}
			if err != nil {
				return report{}, err
			}
			if o.code == 0 {
				break
			}
			if o.signal != syscall.SIGKILL {
				return report{}, fmt.Errorf("%s: command %d: %s", dir, n, o)
			}
			kills++
			left, err := leftovers(dir)
			if err != nil {
				return report{}, err
			}
			if left {
				torn++
			}
		}
		runs++
		if err := l.same(dir); err != nil {
			return report{}, fmt.Errorf("after %d kills: %w", kills, err)
		}
		n, err := hidden(dir)
		if err != nil {
			return report{}, err
		}
		drawn += n
	}
	return report{tries: kills, text: fmt.Sprintf("%d kills over %d runs, %d of them in the middle of writing a file: all %d runs equal; %s", kills, runs, torn, runs, leftDrawing(drawn))}, nil
}

// leftDrawing words a count of [hidden].
func leftDrawing(n int) string {
	return fmt.Sprintf("%d half-drawn figures or tables left, hidden", n)
}

// beingWritten says whether there is a temporary file in the folder of a run.
func beingWritten(dir string) bool {
	for _, sub := range []string{"", rundir.CheckpointDir} {
		found, err := filepath.Glob(filepath.Join(dir, sub, ".*-tmp"))
		if err == nil && len(found) > 0 {
			return true
		}
	}
	return false
}

// repeatUntilDone sends signals to a run, again and again until it ends by
// itself, with a check of each end before that.
func (l *lab) repeatUntilDone(dir string, signals func() []timedSignal, check func(string, outcome) error) (int, error) {
	for n := 1; n <= tooMany; n++ {
		o, err := l.train(dir).signalled(signals()...)
		if err != nil {
			return n, err
		}
		if err := check(dir, o); err != nil {
			return n, fmt.Errorf("%s: command %d: %w", dir, n, err)
		}
		if o.code == 0 {
			return n - 1, l.same(dir)
		}
	}
	return tooMany, fmt.Errorf("%s: no end after %d commands", dir, tooMany)
}

func terminate(l *lab) (report, error) {
	return interrupt(l, func() []timedSignal { return []timedSignal{{after: l.moment(), signal: syscall.SIGTERM}} })
}

// terminateTwice sends what timeout(1) and a closing terminal send: two signals
// that are one request to stop.
func terminateTwice(l *lab) (report, error) {
	return interrupt(l, func() []timedSignal {
		return []timedSignal{{after: l.moment(), signal: syscall.SIGTERM},
			{after: time.Duration(l.rng.Int64N(int64(20 * time.Millisecond))), signal: syscall.SIGINT}}
	})
}

// interrupt sends signals to runs, each of which must save.
func interrupt(l *lab, signals func() []timedSignal) (report, error) {
	total, runs := 0, l.tries(20)
	for range runs {
		n, err := l.repeatUntilDone(l.dir(), signals, func(dir string, o outcome) error {
			_, err := os.Lstat(filepath.Join(dir, rundir.LockFile))
			if o.code == 0 || o.signal != 0 && errors.Is(err, fs.ErrNotExist) {
				return nil // done, or so early that the program did not listen yet
			}
			return clear(o, []int{75, 130}, train.ErrInterrupted.Error())
		})
		if err != nil {
			return report{}, err
		}
		total += n
	}
	return report{tries: total, text: fmt.Sprintf("%d interruptions over %d runs: all %d runs equal", total, runs, runs)}, nil
}

func stopAndGo(l *lab) (report, error) {
	n := l.tries(10)
	for range n {
		dir := l.dir()
		o, err := l.train(dir).signalled(timedSignal{after: l.moment(), signal: syscall.SIGSTOP}, timedSignal{after: time.Second, signal: syscall.SIGCONT})
		if err != nil {
			return report{}, err
		}
		if o.code != 0 {
			return report{}, fmt.Errorf("%s: %s", dir, o)
		}
		if err := l.same(dir); err != nil {
			return report{}, err
		}
	}
	return report{tries: n, text: fmt.Sprintf("%d runs stopped for 1 s: all equal", n)}, nil
}
