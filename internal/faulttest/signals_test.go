//go:build unix

package faulttest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"grpo/pkg/rundir"
)

// tooMany bounds the commands for one run.
const tooMany = 500

// untilDone repeats a command until its exit code is 0. once runs it and checks how it ended.
func untilDone(dir string, once func() (outcome, error)) (commands int, err error) {
	for n := 1; n <= tooMany; n++ {
		o, err := once()
		if err != nil {
			return n, fmt.Errorf("%s: command %d: %w", dir, n, err)
		}
		if o.code == 0 {
			return n, nil
		}
	}
	return tooMany, fmt.Errorf("%s: no end after %d commands", dir, tooMany)
}

// killTraining kills each run at random moments until it finishes before the next kill. Every other
// kill also waits for a temporary file to appear: writes are too short to be hit often by chance.
func killTraining(l *lab) (string, error) {
	kills, runs, writing, drawn := 0, 0, 0, 0
	for ; kills < l.kills; runs++ {
		dir := l.dir()
		_, err := untilDone(dir, func() (outcome, error) {
			if kills >= l.kills {
				return l.train(dir).succeed()
			}
			s := timedSignal{after: l.moment(), signal: syscall.SIGKILL}
			if kills%2 == 1 {
				s.until = func() bool { return beingWritten(dir) }
			}
			o, err := l.train(dir).signalled(s)
			if err != nil || o.code == 0 {
				return o, err
			}
			if o.signal != syscall.SIGKILL {
				return o, errors.New(o.String())
			}
			kills++
			left, err := leftovers(dir)
			if left {
				writing++
			}
			return o, err
		})
		n, cerr := countHidden(dir)
		if err := errors.Join(err, cerr); err != nil {
			return "", err
		}
		drawn += n
		if err := l.same(dir); err != nil {
			return "", fmt.Errorf("after %d kills: %w", kills, err)
		}
	}
	return fmt.Sprintf("%d kills over %d runs, %d of them while a file was being written: all %d runs equal; %s",
		kills, runs, writing, runs, leftDrawing(drawn)), nil
}

// leftDrawing describes a count of [countHidden].
func leftDrawing(n int) string { return fmt.Sprintf("%d partial figures or tables left, hidden", n) }

// beingWritten reports whether there is a temporary file in the folder of a run.
func beingWritten(dir string) bool {
	for _, sub := range []string{"", rundir.CheckpointDir} {
		found, err := filepath.Glob(filepath.Join(dir, sub, ".*-tmp"))
		if err == nil && len(found) > 0 {
			return true
		}
	}
	return false
}

func terminate(l *lab) (string, error) {
	return interrupt(l, func() []timedSignal { return []timedSignal{{after: l.moment(), signal: syscall.SIGTERM}} })
}

// terminateTwice sends what timeout(1) and a closing terminal send: two signals for one request to
// stop.
func terminateTwice(l *lab) (string, error) {
	return interrupt(l, func() []timedSignal {
		return []timedSignal{{after: l.moment(), signal: syscall.SIGTERM},
			{after: time.Duration(l.rng.Int64N(int64(20 * time.Millisecond))), signal: syscall.SIGINT}}
	})
}

// starting is the time in which a process may not have its signal handler yet.
const starting = 100 * time.Millisecond

// interrupt sends signals to runs, each of which must save.
func interrupt(l *lab, signals func() []timedSignal) (string, error) {
	total, runs := 0, l.tries(20)
	for range runs {
		dir := l.dir()
		n, err := untilDone(dir, func() (outcome, error) {
			sent := signals()
			o, err := l.train(dir).signalled(sent...)
			if err != nil || o.code == 0 {
				return o, err
			}
			_, err = os.Lstat(filepath.Join(dir, rundir.ClaimsDir))
			if o.signal != 0 && (sent[0].after < starting || errors.Is(err, fs.ErrNotExist)) {
				return o, nil // too early: no signal handler yet
			}
			return o, clear(o, []int{75, 130}, rundir.ErrInterrupted.Error())
		})
		if err == nil {
			err = l.same(dir)
		}
		if err != nil {
			return "", err
		}
		total += n - 1
	}
	return fmt.Sprintf("%d interruptions over %d runs: all %d runs equal", total, runs, runs), nil
}

func stopAndGo(l *lab) (string, error) {
	n := l.tries(10)
	for range n {
		dir := l.dir()
		o, err := l.train(dir).signalled(timedSignal{after: l.moment(), signal: syscall.SIGSTOP},
			timedSignal{after: time.Second, signal: syscall.SIGCONT})
		if err == nil && o.code != 0 {
			err = fmt.Errorf("%s: %s", dir, o)
		}
		if err == nil {
			err = l.same(dir)
		}
		if err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d runs stopped for 1 s: all equal", n), nil
}
