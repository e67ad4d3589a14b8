package sweep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"grpo/internal/process"
	"grpo/internal/regular"
	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
	"grpo/pkg/train"
)

// TaskOptions are the options of one run of a sweep.
type TaskOptions struct {
	Threads  int // 0 = one for each core
	Now      func() time.Time
	Observer train.Observer
	Meta     rundir.Meta // the caller fills in version and host
	Memory   train.MemoryCheck
	Progress model.Progress
	Disk     train.DiskCheck
	// Wait: while a process on another machine, or of an earlier start of this job, is training the
	// run, wait. Without it, that is an error, as it always is for other processes on this machine.
	Wait bool
}

// Task trains or continues run number index of the sweep in dir and returns its
// result; a finished run is not trained again. Of other runs it needs only what they
// have recorded of the files that they read, so that [Run] or the array job of a
// cluster can launch a sweep.
//
// Errors: [config.ErrConfig] for a manifest, an index or a configuration that
// can't be used; [train.ErrInterrupted] when ctx ended, and when another process
// is running the same run; otherwise those of [train.Run]. A failure is written into
// the run's status.json, so that a launcher can distinguish it from a process that
// died.
func Task(ctx context.Context, dir string, index int, opts TaskOptions) (*rundir.Result, error) {
	m, err := sweepdir.ReadManifest(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s is not the folder of a sweep (\"grpo sweep --prepare\" writes one)", config.ErrConfig, dir)
	}
	if err != nil {
		return nil, config.Invalid(rundir.Explain(err))
	}
	if index < 0 || index >= len(m.Runs) {
		return nil, fmt.Errorf("%w: %s: there is no run %d (the sweep has runs 0 to %d)",
			config.ErrConfig, dir, index, len(m.Runs)-1)
	}
	e := m.Runs[index]
	path := e.Path(dir)
	if err := e.CheckFolder(dir); err != nil {
		return nil, fmt.Errorf("run %d: %w", index, err)
	}
	if at := m.StoppedAt(e.Arm); at > 0 {
		return nil, fmt.Errorf("%w: %s, seed %d: --halving stopped this arm after step %d",
			config.ErrConfig, m.NameOf(e.Arm), e.Seed, at)
	}
	if step := m.NextRung(); step > 0 {
		until, end := context.WithCancel(ctx)
		defer end()
		ctx, opts.Observer = until, untilStep{opts.Observer, step, end}
	}
	cfg, err := frozen(e)
	if err != nil {
		report(dir, path, opts.Now, rundir.StateFailed, err.Error())
		return nil, err
	}
	var res *rundir.Result
	for {
		if opts.Wait {
			if err := waitForOthers(ctx, path, opts.Observer); err != nil {
				return nil, err
			}
		}
		res, err = train.Run(ctx, cfg, train.Options{
			Dir: path, Threads: opts.Threads, Now: opts.Now, Observer: opts.Observer,
			Meta: opts.Meta, Memory: opts.Memory, Disk: opts.Disk, Progress: opts.Progress,
			Others: others(dir, m, e),
		})
		// Another process may have been faster after the wait.
		if o, held, _ := rundir.Holder(path); !opts.Wait || !isLocked(err) || !held || !isAwaited(o) {
			break
		}
	}
	switch {
	case isLocked(err):
		return nil, fmt.Errorf("%w: %w", train.ErrInterrupted, err)
	case errors.Is(err, train.ErrNothingSaved):
		// Before training there is no status, or one of a process that was killed.
		report(dir, path, opts.Now, rundir.StateInterrupted, "")
	case err != nil && !errors.Is(err, train.ErrInterrupted):
		report(dir, path, opts.Now, rundir.StateFailed, err.Error())
	}
	return res, err
}

// isAwaited says whether a process ends without an action of the user: one on another machine, or
// one that a scheduler has told to end.
func isAwaited(o rundir.Owner) bool { return o.Elsewhere() || o.Replaced() }

// otherEvery is the time between two looks at a run that another process is training.
const otherEvery = 10 * time.Second

// waitForOthers returns when no process that is waited for is training the run in
// the folder path: it has ended, or is dead.
func waitForOthers(ctx context.Context, path string, observer train.Observer) error {
	for first := true; ; first = false {
		o, held, _ := rundir.Holder(path)
		if !held || !isAwaited(o) {
			return nil
		}
		if first {
			observer.Note(fmt.Sprintf("%s is training this run; waiting until it ends", o))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w while %s was training this run", train.ErrInterrupted, o)
		case <-time.After(otherEvery):
		}
	}
}

// isLocked says whether another process has the run's folder. [Task] then returns an
// interruption, which a launcher does not count as a failure.
func isLocked(err error) bool {
	var locked *rundir.LockedError
	return errors.As(err, &locked)
}

// report writes into a run's status how it ended, with the problem if there was
// one. If that fails (a full disk, say) the log has the process's message.
func report(dir, path string, now func() time.Time, state, problem string) {
	if _, err := os.Stat(dir); err != nil {
		return // the sweep was removed, and should not come back as a folder of failures
	}
	unlock, err := rundir.Claim(path, rundir.KindRun, nil)
	if err != nil {
		return
	}
	defer unlock()
	file := filepath.Join(path, rundir.StatusFile)
	var s rundir.Status
	if err := rundir.ReadJSON(file, &s); err != nil {
		s = rundir.Status{}
	}
	s.State, s.PID, s.Error = state, os.Getpid(), problem
	s.Updated = now().UTC().Format(time.RFC3339)
	_ = rundir.WriteJSON(file, s)
}

// frozen reads a run's configuration in the manifest. It has every key, so
// environment and flags have no effect; the hash shows that it was not changed.
func frozen(e sweepdir.Entry) (config.Config, error) {
	r, err := config.LoadText(fmt.Sprintf("%s, run %d", sweepdir.ManifestFile, e.Index), []byte(e.Config))
	if err != nil {
		return config.Config{}, fmt.Errorf("its frozen configuration can't be read: %w", err)
	}
	cfg := r.Config
	if hash := config.Hash(cfg); hash != e.Hash {
		return cfg, fmt.Errorf("%w: %s: run %d: its frozen configuration has the hash %s, not %s: "+
			"the file was edited, or is of another version of grpo (start over with --fresh)",
			config.ErrConfig, sweepdir.ManifestFile, e.Index, hash, e.Hash)
	}
	return cfg, nil
}

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
