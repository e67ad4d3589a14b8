//go:build unix

package faulttest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"grpo/pkg/rundir"
)

// waitFor waits until a process has written to a file, and then for a random part of the rest of
// its run.
func (l *lab) waitFor(path string) {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if info, err := os.Stat(path); err == nil && info.Size() > 0 {
			break
		}
	}
	time.Sleep(l.moment() / 2)
}

// disturb starts a run in dir, waits, calls do and checks how the run ended: normally, or stopped
// with exit code 1 and a line that contains want.
func (l *lab) disturb(dir string, wait func(), do func() error, want string) (stopped bool, err error) {
	p := l.train(dir)
	if err := p.start(); err != nil {
		return false, err
	}
	wait()
	if err := do(); err != nil {
		return false, errors.Join(err, p.cmd.Process.Kill())
	}
	o, err := p.wait()
	if err != nil || o.code == 0 {
		return false, err
	}
	return true, clear(o, []int{1}, want)
}

// whileRunning calls take to move or remove the folder of a run while it runs, and
// after to check the rest.
func (l *lab) whileRunning(n int, take, after func(dir string) error) (string, error) {
	hit := 0
	for range n {
		dir := l.dir()
		stopped, err := l.disturb(dir, func() { l.waitFor(filepath.Join(dir, rundir.MetricsFile)) },
			func() error { return take(dir) }, dir)
		if stopped {
			hit++
		}
		if err == nil {
			err = after(dir)
		}
		if err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d folders, %d runs stopped: all %d equal afterwards", n, hit, n), nil
}

func folderMoved(l *lab) (string, error) {
	return l.whileRunning(l.tries(10), func(dir string) error { return os.Rename(dir, dir+"-moved") },
		func(dir string) error { return l.finished(dir + "-moved") })
}

func folderRemoved(l *lab) (string, error) {
	return l.whileRunning(l.tries(10), func(dir string) error {
		// The run may create a file in the folder while it is being emptied.
		for n := 0; ; n++ {
			if err := os.RemoveAll(dir); err == nil || n == 1000 {
				return err
			}
		}
	}, l.finished)
}

// twoProcesses starts the same command twice at the same moment.
func twoProcesses(l *lab) (string, error) {
	refused, n := 0, l.tries(20)
	for range n {
		dir := l.dir()
		var out [2]outcome
		var errs [2]error
		var both sync.WaitGroup
		for i := range out {
			both.Go(func() { out[i], errs[i] = l.train(dir).wait() })
		}
		both.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			return "", err
		}
		done := 0
		for _, o := range out {
			if o.code == 0 {
				done++
				continue
			}
			refused++
			if err := clear(o, []int{1}, "is writing to this folder"); err != nil {
				return "", err
			}
		}
		if done == 0 {
			return "", fmt.Errorf("%s: neither succeeded: %s; %s", dir, out[0], out[1])
		}
		if err := l.same(dir); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d pairs, %d processes refused: all %d runs equal", n, refused, n), nil
}

// diverge uses a learning rate that makes the weights overflow.
func diverge(l *lab) (string, error) {
	dir := l.dir()
	if _, err := l.train(dir, "--set", "lr=1e38", "--set", "max_grad_norm=0").succeed(); err != nil {
		return "", err
	}
	r, err := rundir.Open(dir)
	if err != nil {
		return "", err
	}
	result := r.Result
	if result == nil || result.Status != rundir.StateDiverged || result.DivergedAt == nil || result.DivergedReason == "" {
		return "", fmt.Errorf("%s: the result is %+v", dir, result)
	}
	return fmt.Sprintf("diverged at step %d: %s", *result.DivergedAt, result.DivergedReason), nil
}
