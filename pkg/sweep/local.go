package sweep

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"grpo/internal/regular"
	"grpo/internal/textutil"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// Local starts runs as child processes on this machine.
//
// A child's standard input is the supervision pipe, to which nothing is written.
// Its end tells the child to save and stop: when this process closes it, and also
// when this process is gone, however it ended, because the system closes it then.
// So a killed launcher leaves no children, on any system, and no signal can reach
// a child before it can handle it.
//
// A child is in a process group of its own: Ctrl-C on the terminal reaches the
// launcher alone.
type Local struct {
	// Path is the program; it is called as `Name task --sweep DIR --index N
	// --threads T --supervised`.
	Path, Name string
	// Env is the environment; the child's GOMAXPROCS is set to its threads.
	Env []string
	Now func() time.Time
}

// Start implements [Launcher].
func (l Local) Start(dir string, e sweepdir.Entry, threads int) (Process, error) {
	fail := func(err error) (Process, error) { return nil, fmt.Errorf("start run %d: %w", e.Index, err) }
	if err := e.CheckFolder(dir); err != nil {
		return fail(err)
	}
	if err := rundir.Allow(e.Path(dir), rundir.KindRun, nil); err != nil {
		return fail(err)
	}
	if err := os.MkdirAll(e.Path(dir), 0o755); err != nil {
		return fail(err)
	}
	log, err := regular.Create(filepath.Join(e.Path(dir), sweepdir.TaskLog))
	if err != nil {
		return fail(err)
	}
	defer log.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return fail(err)
	}
	defer read.Close()
	args := []string{l.Name, "task", "--sweep", dir, "--index", strconv.Itoa(e.Index), "--threads", strconv.Itoa(threads), "--supervised"}
	c := &exec.Cmd{
		Path: l.Path, Args: args, Env: append(withoutProcs(l.Env), "GOMAXPROCS="+strconv.Itoa(threads)),
		Stdin: read, Stdout: log, Stderr: log, SysProcAttr: ownGroup(),
	}
	fmt.Fprintf(log, "%s %s\n", l.Now().UTC().Format(time.RFC3339), textutil.CommandLine(args))
	if err := c.Start(); err != nil {
		write.Close()
		textutil.Fprintf(log, "%v\n", err)
		return fail(err)
	}
	return &localProcess{c, write}, nil
}

func withoutProcs(env []string) []string {
	var out []string
	for _, kv := range env {
		if !strings.HasPrefix(kv, "GOMAXPROCS=") {
			out = append(out, kv)
		}
	}
	return out
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
