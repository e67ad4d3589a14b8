package launch

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
	"grpo/pkg/sweep/kube"
	"grpo/pkg/sweep/slurm"
)

// TaskOptions are the options of one run of a sweep, in a job of any scheduler.
type TaskOptions struct {
	sweep.TaskOptions
	Dir      string // of the sweep
	Index    int    // of the run in the manifest, or in Runs
	Runs     string // list of runs; or empty
	Prepared string // folder of a ConfigMap with the frozen sweep; or empty
	Env      []string
	Host     string
}

// Task is [sweep.Task] with what the scheduler that started this process needs. A child of a local
// sweep (Wait = false) is no job of its own.
func Task(ctx context.Context, opts TaskOptions) (*rundir.Result, error) {
	if opts.Prepared != "" {
		if err := kube.Unpack(ctx, opts.Prepared, opts.Dir); err != nil {
			return nil, err
		}
	}
	index := opts.Index
	if opts.Runs != "" {
		var err error
		if index, err = kube.RunAt(opts.Runs, opts.Index); err != nil {
			return nil, fmt.Errorf("%w: --runs: %w", config.ErrConfig, err)
		}
	}
	job := slurm.JobOf(opts.Env)
	if job == nil || !opts.Wait {
		return sweep.Task(ctx, opts.Dir, index, opts.TaskOptions)
	}
	job.Node = cmp.Or(job.Node, opts.Host)
	job.Exec, job.Version = slurm.Commands, opts.Meta.Version
	return job.Task(ctx, opts.Dir, index, opts.TaskOptions)
}

// TaskSignals returns the signals by which a scheduler, in whose job this environment is, asks a task
// to save, besides those that end any program; nil outside of a job.
func TaskSignals(env []string) []os.Signal {
	if slurm.JobOf(env) == nil {
		return nil
	}
	return []os.Signal{slurm.Signal}
}
