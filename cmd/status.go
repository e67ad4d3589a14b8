package cmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"grpo/internal/textutil"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
	"grpo/pkg/sweep/slurm"
	"grpo/pkg/sweepdir"
)

// statusOptions are the inputs of `grpo status`.
type statusOptions struct {
	dir  string
	json bool
}

func newStatus(s *State) *cobra.Command {
	o := &statusOptions{}
	c := &cobra.Command{
		Use:   "status DIR",
		Short: "Show progress of runs",
		Long: `Status reads the folder of a run, a sweep or a study of several sweeps and shows
the state of each run: missing, running, dead (its process is gone), interrupted,
failed, done or diverged. For runs that were submitted to Slurm it also asks squeue:
they may be queued, or requeued after a preemption, a time limit or the failure of a
node. It changes nothing; call it at any time.`,
		Example: `  grpo status results/sweep-1a2b3c4d
  grpo status results/train-1a2b3c4d --json`,
		Args: takes("the folder of a run, a sweep or a study", 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.dir = args[0]
			return run(cmd, s, o, runStatus)
		},
	}
	addJSON(c, &o.json)
	return c
}

func runStatus(ctx context.Context, s *State, o *statusOptions) error {
	st, err := sweep.ReadStatus(ctx, o.dir, s.Now(), slurm.Commands)
	if err != nil {
		return missingInput(err)
	}
	if o.json {
		return printJSON(s.Out, st)
	}
	return writeStatus(s.Out, st)
}

func writeStatus(out io.Writer, st *sweep.Status) error {
	w := newTable(out)
	if st.Kind == "study" {
		textutil.Fprintf(w, "part\t")
	}
	textutil.Fprintf(w, "run\tstate\tstep\tvalidation\tlast update\tattempts")
	isAway := func(r sweep.RunStatus) bool {
		return r.State == rundir.StateRunning && (r.Elsewhere || r.Job != "")
	}
	where := st.Submitted || slices.ContainsFunc(st.Runs, isAway)
	switch {
	case st.Submitted:
		textutil.Fprintf(w, "\tjob in Slurm")
	case where:
		textutil.Fprintf(w, "\trunning on")
	}
	fmt.Fprintln(w)
	var errs []error
	for _, r := range st.Runs {
		name := r.Dir
		if r.Arm != "" {
			name = fmt.Sprintf("%s, seed %d", r.Arm, r.Seed)
		}
		reward, age, tries := "", "never", ""
		if r.Reward != nil {
			reward = fmt.Sprintf("%.3f", *r.Reward)
		}
		if r.Age >= 0 {
			age = shortTime(r.Age) + " ago"
		}
		if r.Attempts > 0 {
			tries = fmt.Sprint(r.Attempts)
		}
		if st.Kind == "study" {
			textutil.Fprintf(w, "%s\t", r.Part)
		}
		textutil.Fprintf(w, "%s\t%s\t%d/%d\t%s\t%s\t%s", name, r.State, r.Step, r.Steps, reward, age, tries)
		if where {
			textutil.Fprintf(w, "\t%s", cmp.Or(jobText(r), runningOn(r)))
		}
		fmt.Fprintln(w)
		if r.Error != "" {
			errs = append(errs, fmt.Errorf("%s: %s", name, r.Error))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := textutil.Fprintf(out, "\n%s\n", statusSummary(st))
	if st.SlurmError != "" {
		textutil.Fprintf(out, "without Slurm's answer (%s): the files of the runs alone\n", st.SlurmError)
	}
	for _, err := range errs {
		textutil.Fprintf(out, "%v\n", err)
	}
	if st.Continue != "" {
		textutil.Fprintf(out, "to continue: %s\n", st.Continue)
	}
	if st.OneRun != "" {
		textutil.Fprintf(out, "or one run at a time: %s\n", st.OneRun)
	}
	return err
}

// runningOn is the host of a running run, with its job.
func runningOn(r sweep.RunStatus) string {
	switch {
	case r.State != rundir.StateRunning:
		return ""
	case r.Job == "":
		return r.Host
	}
	return fmt.Sprintf("%s (%s)", r.Host, r.Job)
}

// jobText is what Slurm says about a run, with the time that a running run still takes.
func jobText(r sweep.RunStatus) string {
	if r.Slurm == nil {
		return ""
	}
	text := r.Slurm.Job + " " + strings.ToLower(r.Slurm.State)
	if r.Slurm.Node != "" {
		text += " on " + r.Slurm.Node
	}
	if r.Slurm.Reason != "" && r.State != rundir.StateRunning {
		text += " (" + r.Slurm.Reason + ")"
	}
	if r.Left > 0 {
		text += ", about " + shortTime(r.Left) + " left"
	}
	return text
}

// statusSummary is one sentence about the whole.
func statusSummary(st *sweep.Status) string {
	finished := st.Counts[rundir.StateDone] + st.Counts[rundir.StateDiverged]
	text := fmt.Sprintf("%d of %d runs finished", finished, len(st.Runs))
	var parts []string
	for _, state := range []string{
		rundir.StateDiverged, rundir.StateRunning, sweep.StateQueued, sweep.StateRequeued,
		rundir.StateInterrupted, rundir.StateFailed,
		sweepdir.Dead, sweepdir.Missing, sweepdir.Stopped,
	} {
		if n := st.Counts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	if len(st.Absent) > 0 {
		text += "; parts not started: " + strings.Join(st.Absent, ", ")
	}
	return text
}
