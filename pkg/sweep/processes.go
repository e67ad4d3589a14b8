package sweep

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"grpo/internal/process"
	"grpo/internal/regular"
	"grpo/internal/textutil"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// Launcher starts the processes of runs. They must do what [Task] does, on any
// machine.
type Launcher interface {
	// Start starts run e of the sweep in dir with this many threads. The output of
	// the process goes to [sweepdir.TaskLog] in the run's folder.
	Start(dir string, e sweepdir.Entry, threads int) (Process, error)
}

// Process is a run's process.
type Process interface {
	// ID is the process id, as in the run's status.json.
	ID() int
	// Wait returns when the process has ended. It is called once.
	Wait() Exit
	// Interrupt asks the process to save and to end; it does not wait.
	Interrupt() error
	// Kill ends the process at once.
	Kill() error
}

// Exit is how a process ended.
type Exit struct {
	Code   int    // -1 where a signal ended it
	Signal string // "killed", "terminated"; empty without a signal
	Err    error  // why the end is unknown
}

// String describes the exit.
func (x Exit) String() string {
	switch {
	case x.Err != nil:
		return fmt.Sprintf("how it ended is unknown: %v", x.Err)
	case x.Signal == "killed":
		return "it was killed, probably by the kernel for lack of memory (signal: killed)"
	case x.Signal != "":
		return fmt.Sprintf("a signal ended it: %s", x.Signal)
	case x.Code == 0:
		return "it ended with exit code 0, but without a result"
	case x.Code == ExitInterrupted || x.Code == ExitNothingSaved:
		return "it was interrupted, but not by this command"
	}
	return fmt.Sprintf("exit code %d", x.Code)
}

// Exit codes of a task.
const (
	exitFailed       = 1
	ExitUsage        = 2 // also a configuration that can't be used
	ExitInterrupted  = 75
	ExitNothingSaved = 130
)

// Local starts runs as child processes on this machine.
//
// A child's standard input is the supervision pipe, to which nothing is written.
// When it closes, the child saves and stops: this process closes it to interrupt
// the child, and the system closes it when this process ends, so that a killed
// launcher leaves no children. A child has a process group of its own: Ctrl-C on the
// terminal reaches the launcher alone.
type Local struct {
	// Path is the program, called as `Name task --sweep DIR --index N --threads T
	// --supervised`.
	Path, Name string
	// Env is the environment; the child's GOMAXPROCS is set to its threads.
	Env []string
	Now func() time.Time
}

// Start implements [Launcher].
func (l Local) Start(dir string, e sweepdir.Entry, threads int) (Process, error) {
	fail := func(err error) (Process, error) { return nil, fmt.Errorf("start run %d: %w", e.Index, err) }
	path := e.Path(dir)
	if err := e.CheckFolder(dir); err != nil {
		return fail(err)
	}
	if err := rundir.Allow(path, rundir.KindRun, nil); err != nil {
		return fail(err)
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fail(err)
	}
	log, err := regular.Create(taskLog(path))
	if err != nil {
		return fail(err)
	}
	defer log.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return fail(err)
	}
	defer read.Close()
	args := []string{l.Name, "task", "--sweep", dir, "--index", strconv.Itoa(e.Index),
		"--threads", strconv.Itoa(threads), "--supervised"}
	isProcs := func(kv string) bool { return strings.HasPrefix(kv, "GOMAXPROCS=") }
	env := slices.DeleteFunc(slices.Clone(l.Env), isProcs)
	c := &exec.Cmd{
		Path: l.Path, Args: args, Env: append(env, "GOMAXPROCS="+strconv.Itoa(threads)),
		Stdin: read, Stdout: log, Stderr: log, SysProcAttr: process.OwnGroup(),
	}
	fmt.Fprintf(log, "%s %s\n", l.Now().UTC().Format(time.RFC3339), textutil.CommandLine(args))
	if err := c.Start(); err != nil {
		write.Close()
		textutil.Fprintf(log, "%v\n", err)
		return fail(err)
	}
	return &localProcess{c, write}, nil
}

type localProcess struct {
	cmd         *exec.Cmd
	supervision *os.File
}

func (p *localProcess) ID() int { return p.cmd.Process.Pid }

func (p *localProcess) Wait() Exit {
	err := p.cmd.Wait()
	p.supervision.Close() // closed already after an interruption
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return Exit{Code: -1, Err: err}
	}
	return Exit{Code: p.cmd.ProcessState.ExitCode(), Signal: signalOf(p.cmd.ProcessState)}
}

func (p *localProcess) Interrupt() error {
	if err := p.supervision.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

func (p *localProcess) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
