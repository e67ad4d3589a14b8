package cmd

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"grpo/internal/regular"
	"grpo/pkg/sweep"
	"grpo/pkg/sweep/slurm"
	"grpo/pkg/sweepdir"
)

// isSlurmTask says whether this process is "grpo task" in a job of Slurm, which it may
// put back into the queue. Children of a local sweep within a job are not.
func isSlurmTask(s *State) bool {
	return len(s.Args) > 1 && s.Args[1] == "task" && !slices.Contains(s.Args, "--supervised") &&
		sweep.SlurmJobOf(s.Env) != nil
}

// slurmJob returns the job of a task; nil outside of Slurm.
func slurmJob(ctx context.Context, s *State, o *taskOptions) *sweep.SlurmJob {
	job := sweep.SlurmJobOf(s.Env)
	if job == nil || o.supervised {
		return nil
	}
	if host, err := s.Host(); err == nil && job.Node == "" {
		job.Node = host
	}
	job.Exec, job.Program = slurm.Commands, programOf
	job.Signalled = func() bool {
		cause := fmt.Sprint(context.Cause(ctx)) // begins with the signal's name
		return strings.HasPrefix(cause, slurmSignal.String()) || strings.HasPrefix(cause, syscall.SIGTERM.String())
	}
	return job
}

// programOf identifies the running program.
func programOf() (sweepdir.Program, error) {
	path, err := thisProgram()
	if err != nil {
		return sweepdir.Program{}, err
	}
	sum, err := regular.SHA256(path)
	return sweepdir.Program{Version: version, SHA256: sum}, err
}

// submitOptions are those of jobs that run this program.
func (f *sweepFlags) submitOptions(s *State, note func(string)) (sweep.SubmitOptions, error) {
	fail := func(err error) (sweep.SubmitOptions, error) {
		return sweep.SubmitOptions{}, fmt.Errorf("find this program for the jobs: %w", err)
	}
	path, err := os.Executable()
	if err != nil {
		return fail(err)
	}
	if _, err := os.Stat(path); err != nil { // it was replaced while it runs
		return fail(err)
	}
	program, err := programOf()
	if err != nil {
		return fail(err)
	}
	dir, err := os.Getwd()
	if err != nil {
		return fail(err)
	}
	return sweep.SubmitOptions{
		Exec: slurm.Commands, Path: path, Program: program, Dir: dir, Note: note, Now: s.Now, Disk: s.checkDisk,
	}, nil
}
