package cmd

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
	"grpo/pkg/sweep/launch"
	"grpo/pkg/train"
)

// taskOptions are the inputs of `grpo task`.
type taskOptions struct {
	sweep      string
	prepared   string
	runs       string
	index      int
	threads    int
	supervised bool
}

// newTask is the command that trains one run of a sweep. "grpo sweep" starts it as its child
// processes, jobs of Slurm and Kubernetes start it on their nodes, and users do on other schedulers.
func newTask(s *State) *cobra.Command {
	o := &taskOptions{}
	c := &cobra.Command{
		Use:   "task",
		Short: "Train one run of a prepared sweep, for schedulers without a --launcher",
		Long: `Task trains or continues one run of a prepared sweep. "grpo sweep" starts it for
every run, and so do the jobs of --launcher slurm and kubernetes. Call it yourself
where another scheduler starts the jobs (PBS, LSF, HTCondor, GNU parallel):

  1. "grpo sweep ... --out DIR --prepare" writes the list of runs and starts none.
  2. Each job runs "grpo task --sweep DIR --index N", N from 0. The jobs need the
     folder, but not one another, and run in any order.
  3. "grpo status DIR" shows the progress, "grpo report DIR" combines the results.

The exit code is 0 if the run is done, now or before; 1 if it failed; 2 if its
configuration can't be used; 75 if it was interrupted and saved: the same command
continues it.`,
		Example: `  grpo sweep lr --values 1e-3,3e-3 --seeds 2 -c smoke --out array --prepare
  grpo task --sweep array --index 0                  the first of 4 runs
  seq 0 3 | xargs -P 2 -I N grpo task --sweep array --index N --threads 1
  grpo report array`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.sweep == "" || o.index < 0 {
				return usagef(cmd, "task needs --sweep DIR and --index N, the run's place in the manifest from 0")
			}
			return run(cmd, s, o, runTask)
		},
		Annotations: saves,
	}
	c.Flags().StringVar(&o.sweep, "sweep", "", "`folder` of the sweep")
	c.Flags().StringVar(&o.prepared, "prepared", "",
		"`folder` of a Kubernetes ConfigMap with the frozen sweep, which is written to --sweep if that is new")
	c.Flags().IntVar(&o.index, "index", -1, "index of the run in the manifest, or in --runs, from 0")
	c.Flags().StringVar(&o.runs, "runs", "", "`list` of runs in the manifest, e.g. 0,3,5-9; --index counts in it")
	addThreads(c.Flags(), &o.threads, "; does not affect the results")
	c.Flags().BoolVar(&o.supervised, "supervised", false, "save and stop when standard input ends")
	return c
}

// observed is the observer of a task. Test scripts wrap it in one that stops the run
// at a step, so that they interrupt it at the same step on every machine.
var observed = func(_ context.Context, o train.Observer) train.Observer { return o }

func runTask(ctx context.Context, s *State, o *taskOptions) error {
	if o.supervised {
		var stop func()
		ctx, stop = untilEnd(ctx, s.In)
		defer stop()
	}
	p := newProgress(s, false)
	defer p.done()
	host, _ := s.Host() // for messages
	res, err := launch.Task(ctx, launch.TaskOptions{
		TaskOptions: sweep.TaskOptions{
			Threads: o.threads, Now: s.Now, Observer: observed(ctx, p), Meta: build(s), Memory: s.checkMemory, Disk: s.checkDisk,
			Progress: p.Doing, Wait: !o.supervised,
		},
		Dir: o.sweep, Index: o.index, Runs: o.runs, Prepared: o.prepared, Env: s.Env, Host: host,
	})
	if err != nil {
		return err
	}
	text := res.Status
	if res.Status == rundir.StateDiverged && res.DivergedAt != nil {
		text = fmt.Sprintf("%s at step %d: %s", text, *res.DivergedAt, res.DivergedReason)
	}
	p.line("%s", text)
	return nil
}

// untilEnd ends the context when r ends: when the launcher at the other end closes
// it, or is killed.
func untilEnd(parent context.Context, r io.Reader) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	go func() {
		_, _ = io.Copy(io.Discard, r) // an error is an end too
		cancel()
	}()
	return ctx, cancel
}
