package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// markName is the environment variable by which what a program has started is found.
const markName = "_GRPO_PROGRAM"

var started atomic.Int64

// Self is the path of the running program; on Linux one that stays valid when its file is replaced,
// so that one build runs a whole sweep.
func Self() (string, error) {
	const self = "/proc/self/exe"
	if runtime.GOOS == "linux" {
		if _, err := os.Stat(self); err == nil {
			return self, nil
		}
	}
	return os.Executable()
}

// Start starts a program that ends with this process, in a group of its own. [End] ends it and what it
// has started. If this process is killed, the system kills the program (Linux), but not what that has
// started.
func Start(c *exec.Cmd) error {
	mark := fmt.Sprintf("%s=%d.%s.%d", markName, os.Getpid(), Born(os.Getpid()), started.Add(1))
	c.Env, c.SysProcAttr = append(c.Environ(), mark), ownProgram()
	done := make(chan error)
	starter() <- func() { done <- c.Start() }
	return <-done
}

// starter runs functions on one thread, which stays: the system takes the end of the thread that has
// started a program for the end of this process.
var starter = sync.OnceValue(func() chan<- func() {
	calls := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range calls {
			f()
		}
	}()
	return calls
})

// End kills a program of [Start], its group and, on Linux, whatever else has its environment: also what
// has left the group. Processes that have ended are no error.
func End(c *exec.Cmd) {
	killGroup(c)
	mark := c.Env[len(c.Env)-1]
	for range 10 { // what is killed may have started others meanwhile
		if !killMarked(mark) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

const (
	// maxOutput bounds the standard output of a program of [Output]; of its errors, maxMessage is kept.
	maxOutput  = 64 << 20
	maxMessage = 64 << 10
	// drain is the time that others may keep the output of a program open after it has ended.
	drain = 2 * time.Second
)

// Output runs a program with this standard input and returns what it prints. It is killed, with its
// group, when it takes longer than limit or prints more than 64 MiB: both are errors. What it has left
// in the background keeps running.
func Output(ctx context.Context, limit time.Duration, stdin, path string, args ...string) (
	out, message string, err error,
) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(limit, func() { cancel(fmt.Errorf("it did not end within %v and was killed", limit)) })
	defer timer.Stop()
	c := exec.CommandContext(ctx, path, args...)
	c.SysProcAttr, c.WaitDelay = OwnGroup(), drain
	c.Cancel = func() error { killGroup(c); return nil }
	c.Stdin = strings.NewReader(stdin)
	stdout := &bounded{limit: maxOutput, over: func() {
		cancel(fmt.Errorf("it printed more than %d MiB and was killed", maxOutput>>20))
	}}
	stderr := &bounded{limit: maxMessage}
	c.Stdout, c.Stderr = stdout, stderr
	err = c.Run()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	} else if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	return stdout.text.String(), stderr.text.String(), err
}

// bounded keeps the start of what is written to it, and calls over when it is more.
type bounded struct {
	text  bytes.Buffer
	limit int
	over  func() // nil = leave out the rest
}

func (b *bounded) Write(p []byte) (int, error) {
	room := b.limit - b.text.Len()
	if len(p) > room && b.over != nil {
		b.over()
	}
	b.text.Write(p[:min(len(p), room)])
	return len(p), nil
}
