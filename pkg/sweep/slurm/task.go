package slurm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"grpo/internal/process"
	"grpo/internal/regular"
	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
	"grpo/pkg/sweepdir"
	"grpo/pkg/train"
)

// Job is the job of Slurm in which a task runs.
type Job struct {
	ID      string // "12", or "12_3" for a task of an array
	Node    string
	Limit   time.Time // when its time ends; zero = ask Slurm
	Restart int       // how often Slurm has started it again

	Exec    Exec
	Version string // of the running program
}

// JobOf returns the job that an environment describes; nil outside of Slurm.
func JobOf(env []string) *Job {
	get := func(name string) string { return process.Getenv(env, name) }
	j := &Job{ID: get("SLURM_JOB_ID"), Node: get("SLURMD_NODENAME")}
	if !IsID(j.ID) {
		return nil
	}
	if array, task := get("SLURM_ARRAY_JOB_ID"), get("SLURM_ARRAY_TASK_ID"); IsID(array) && IsID(task) {
		j.ID = array + "_" + task
	}
	_, j.Restart = process.Job(get)
	if s, err := strconv.ParseInt(get("SLURM_JOB_END_TIME"), 10, 64); err == nil && s > 0 {
		j.Limit = time.Unix(s, 0)
	}
	return j
}

// Task is [sweep.Task] in a job. When a signal of Slurm has ended ctx and the run is saved, the job goes
// back into the queue, unless the user cancelled it. Slurm kills what is left of it then.
//
// Preemptions may happen any number of times. A job that reached its time limit goes back only if it
// saved a new step, or completions of an evaluation: each such job then makes progress, so the run ends
// some day, whatever the number of jobs, and a limit that is too short for a single step is reported after
// the first job.
//
// Further errors: [config.ErrConfig] if the folder is not visible on the node, or if the program is
// not the one with which the runs were submitted.
func (j *Job) Task(ctx context.Context, dir string, index int, opts sweep.TaskOptions) (*rundir.Result, error) {
	if err := j.check(dir); err != nil {
		return nil, err
	}
	before := savedBy(dir, index)
	res, err := sweep.Task(ctx, dir, index, opts)
	var locked *rundir.LockedError
	if !errors.Is(err, rundir.ErrInterrupted) || errors.As(err, &locked) || !signalled(ctx) {
		return res, err
	}
	after := savedBy(dir, index)
	progress := after.step > before.step || after.evaluation > before.evaluation
	err = j.requeue(context.WithoutCancel(ctx), opts.Now(), after.step, progress)
	if errors.Is(err, errShortLimit) {
		sweep.ReportFailure(dir, index, opts.Now, err)
	}
	return nil, err
}

// signalled reports whether a signal of Slurm ended the context: before a preemption, before the time
// limit, or to cancel the job. The cause begins with the signal's name.
func signalled(ctx context.Context) bool {
	cause := fmt.Sprint(context.Cause(ctx))
	return strings.HasPrefix(cause, Signal.String()) || strings.HasPrefix(cause, syscall.SIGTERM.String())
}

// errShortLimit reports a job whose time limit ended before a step was made and saved.
var errShortLimit = errors.New("the job reached its time limit before a step was made and saved, and another one " +
	"would too: give runs more time (--time, launcher.time) and submit the sweep again")

// check refuses a folder that the node can't see, and another program than the manifest's.
func (j *Job) check(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s is not visible on node %s: the sweep's folder must be on a file system that "+
			"all nodes share (--out)", config.ErrConfig, dir, j.Node)
	}
	m, err := sweepdir.ReadManifest(dir)
	if err != nil || m.Program == nil {
		return nil // [sweep.Task] reports the error; without a program nothing was submitted
	}
	own, err := ThisProgram(j.Version)
	if err != nil {
		return fmt.Errorf("identify this program: %w", err)
	}
	if own != *m.Program {
		return fmt.Errorf("%w: the program on node %s (%s, SHA-256 %.8s) is not the one with which %s was submitted "+
			"(%s, %.8s): submit the missing runs again with the sweep's command, or restore the file",
			config.ErrConfig, j.Node, own.Version, own.SHA256, dir, m.Program.Version, m.Program.SHA256)
	}
	return nil
}

// ThisProgram identifies the running program.
func ThisProgram(version string) (sweepdir.Program, error) {
	path, err := process.Self()
	if err != nil {
		return sweepdir.Program{}, err
	}
	sum, err := regular.SHA256(path)
	return sweepdir.Program{Version: version, SHA256: sum}, err
}

// saved is how far a run is saved.
type saved struct {
	step       int   // of the last checkpoint; 0 without one
	evaluation int64 // bytes of the completions of an evaluation
}

func savedBy(dir string, index int) (out saved) {
	m, err := sweepdir.ReadManifest(dir)
	if err != nil || index < 0 || index >= len(m.Runs) || m.Runs[index].CheckFolder(dir) != nil {
		return out
	}
	path := m.Runs[index].Path(dir)
	if info, err := os.Lstat(filepath.Join(path, train.UnfinishedFile)); err == nil {
		out.evaluation = info.Size()
	}
	out.step = rundir.SavedStep(path)
	return out
}

// requeue puts the job back into the queue, and returns the error with which the task ends.
func (j *Job) requeue(ctx context.Context, now time.Time, step int, progress bool) error {
	// A signal before the time limit may come a minute earlier than asked for, which is two minutes.
	const early = 4 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	// Without an answer the job goes back: that is right in all cases but a cancelled job.
	info, _ := Show(ctx, j.Exec, j.ID, now.Location())
	limit := j.Limit
	if limit.IsZero() {
		limit = info.Limit
	}
	late := info.TimedOut() || !info.Preempted && !limit.IsZero() && !now.Add(early).Before(limit)
	again := fmt.Errorf("%w after step %d: job %s is in the queue again", rundir.ErrInterrupted, step, j.ID)
	switch {
	case info.Restarts > j.Restart: // an operator or Slurm has put it back, because its node failed
		return again
	case info.Cancelled(): // going back would undo that
		return fmt.Errorf("%w: job %s was cancelled after step %d; the sweep's command submits it again",
			rundir.ErrInterrupted, j.ID, step)
	case late && !progress:
		return errShortLimit
	}
	if err := Requeue(ctx, j.Exec, j.ID); err != nil {
		return fmt.Errorf("%w after step %d, but job %s could not go back into the queue (%s): the sweep's command "+
			"submits it again", rundir.ErrInterrupted, step, j.ID, textutil.Printable(err.Error(), 0))
	}
	return again
}
