package cmd

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"
)

// State is everything of the process that a command touches. Tests bring their
// own.
//
// Manners of the terminal: standard output carries results, and nothing else,
// so that it can be piped; standard error carries progress and logs. Where
// standard error is no terminal, or NO_COLOR is set, nothing is redrawn and
// nothing is coloured: a line now and then says how far the work is. An error
// is one line with the program's name, no capital at the start and no full stop
// at the end; it says what was tried, on what, why it failed and how to fix it.
type State struct {
	Args []string
	Env  []string
	In   io.Reader
	Out  io.Writer
	Err  io.Writer
	// Redraw says that standard error is a terminal that a bar may redraw.
	Redraw bool
	Now    func() time.Time
	Host   func() (string, error)
	// Memory is what runs may take of the system's, in bytes; nil or 0 = unknown.
	Memory func() int64
	// RunF gets the options of a command in place of the function that runs it.
	RunF func(options any) error
	// LimitHeap sets the garbage collector's soft limit; nil = leave it alone.
	LimitHeap func(bytes int64)
}

func processState() *State {
	return &State{
		Args: os.Args, Env: os.Environ(), In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Redraw: term.IsTerminal(int(os.Stderr.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
		Now:    time.Now, Host: os.Hostname,
		Memory: systemMemory, LimitHeap: limitHeap,
	}
}

// Main runs the process and returns its exit code.
func Main() int {
	ctx, stop := interruptible(context.Background())
	defer stop()
	return Run(ctx, processState())
}

// oneRequest is how long after the first signal others are part of the same
// request to stop. Programs such as timeout(1) signal the process and then its
// group; a closing terminal signals the process and its shell does too.
const oneRequest = 500 * time.Millisecond

// interruptible ends the context at the first SIGINT, SIGTERM or SIGHUP, so that
// a run can finish its step and save. Once oneRequest has passed the signals have
// their default effect again: a second one ends the process at once. Under
// nohup(1), which ignores SIGHUP, it stays ignored.
func interruptible(parent context.Context) (context.Context, func()) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(parent, signals...)
	ended := make(chan struct{})
	go func() {
		<-ctx.Done()
		select {
		case <-ended: // not a signal: the first timer of a process needs a free file descriptor
		default:
			time.Sleep(oneRequest)
			stop()
		}
	}()
	return ctx, func() {
		close(ended)
		stop()
	}
}
