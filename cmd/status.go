package cmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"grpo/internal/textutil"
	"grpo/pkg/report"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
	"grpo/pkg/sweep/launch"
	"grpo/pkg/sweepdir"
)

// statusOptions are the inputs of `grpo status`.
type statusOptions struct {
	dir   string
	html  string
	every time.Duration
	json  bool
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
node. It changes nothing in the folder; call it at any time.

With --html it writes the same as a page, with the validation reward so far, and writes
it again every few seconds until no run is in progress. The page loads itself again in
the browser, which needs no server; the last one does not.`,
		Example: `  grpo status results/sweep-1a2b3c4d
  grpo status results/sweep-1a2b3c4d --html status.html
  grpo status results/train-1a2b3c4d --json`,
		Annotations: saves, // the last page
		Args:        takes("the folder of a run, a sweep or a study", 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.dir = args[0]
			switch {
			case o.every < time.Second:
				return usagef(cmd, "--every %s: at least 1s", o.every)
			case o.html == "" && cmd.Flags().Changed("every"):
				return usagef(cmd, "--every is how often a page is written: give --html FILE too")
			}
			return run(cmd, s, o, runStatus)
		},
	}
	c.Flags().StringVar(&o.html, "html", "", "write a page to this `file`, again and again until no run is in progress")
	c.Flags().DurationVar(&o.every, "every", 5*time.Second, "`time` between two pages")
	addJSON(c, &o.json)
	return c
}

func runStatus(ctx context.Context, s *State, o *statusOptions) error {
	st, err := launch.ReadStatus(ctx, o.dir, s.Now())
	if err != nil {
		return missingInput(err)
	}
	if o.html != "" {
		if st, err = followPage(ctx, s, o, st); err != nil {
			return err
		}
	}
	return orStopped(ctx, nil, func() error {
		st.Advise(s.available())
		if o.json {
			return printJSON(s.Out, st)
		}
		return writeStatus(s.Out, st)
	})
}

// writeStatus prints the table and the lines below it.
func writeStatus(out io.Writer, st *sweep.Status) error {
	table := statusTable(st)
	if _, err := io.WriteString(out, table.String()+"\n"); err != nil { // its cells are printable
		return err
	}
	_, err := textutil.Fprintf(out, "%s\n", statusSummary(st))
	for _, line := range statusNotes(st) {
		textutil.Fprintf(out, "%s\n", line)
	}
	return err
}

// statusTable has a row for each run.
func statusTable(st *sweep.Status) report.Table {
	t := report.Table{Label: "Runs"}
	column := func(head string) { t.Columns = append(t.Columns, report.Column{Head: head, Text: true}) }
	has := func(f func(sweep.RunStatus) bool) bool { return slices.ContainsFunc(st.Runs, f) }
	isAway := func(r sweep.RunStatus) bool {
		return r.State == rundir.StateRunning && (r.Elsewhere || r.Job != "")
	}
	left := !st.Submitted && has(func(r sweep.RunStatus) bool { return r.Left > 0 })
	where := st.Submitted || has(isAway)
	for _, c := range []struct {
		head string
		show bool
	}{
		{"part", st.Kind == "study"}, {"run", true}, {"state", true}, {"step", true}, {"time left", left},
		{"validation", true}, {"last update", true}, {"attempts", true},
		{"job in Slurm", st.Submitted}, {"running on", where && !st.Submitted},
	} {
		if c.show {
			column(c.head)
		}
	}
	for _, r := range st.Runs {
		var row report.Row
		add := func(show bool, text string, bad bool) {
			if show {
				row.Cells = append(row.Cells, report.Cell{Text: textutil.Printable(text, 0), Bad: bad})
			}
		}
		reward, age, tries, rest := "", "never", "", ""
		if r.Reward != nil {
			reward = fmt.Sprintf("%.3f", *r.Reward)
		}
		if r.Age >= 0 {
			age = shortTime(r.Age) + " ago"
		}
		if r.Attempts > 0 {
			tries = fmt.Sprint(r.Attempts)
		}
		if r.Left > 0 {
			rest = "about " + shortTime(r.Left)
		}
		bad := slices.Contains([]string{rundir.StateFailed, rundir.StateDiverged, sweepdir.Dead}, r.State)
		add(st.Kind == "study", r.Part, false)
		add(true, statusName(r), false)
		add(true, r.State, bad)
		add(true, fmt.Sprintf("%d/%d", r.Step, r.Steps), false)
		add(left, rest, false)
		add(true, reward, false)
		add(true, age, false)
		add(true, tries, false)
		add(where, cmp.Or(jobText(r), runningOn(r)), false)
		t.Rows = append(t.Rows, row)
	}
	return t
}

// statusName is the run in words, or its folder.
func statusName(r sweep.RunStatus) string {
	if r.Name == "" {
		return r.Dir
	}
	return fmt.Sprintf("%s, seed %d", r.Name, r.Seed)
}

// statusNotes are the errors of runs, and how to continue.
func statusNotes(st *sweep.Status) []string {
	var out []string
	if st.SlurmError != "" {
		out = append(out, fmt.Sprintf("without Slurm's answer (%s): the files of the runs alone", st.SlurmError))
	}
	for _, r := range st.Runs {
		if r.Error != "" {
			out = append(out, statusName(r)+": "+r.Error)
		}
	}
	if st.Advice != "" {
		out = append(out, st.Advice)
	}
	if st.Continue != "" {
		out = append(out, "to continue: "+st.Continue)
	}
	if st.OneRun != "" {
		out = append(out, "or one run at a time: "+st.OneRun)
	}
	return out
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
