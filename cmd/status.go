package cmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"grpo/internal/textutil"
	"grpo/pkg/plots"
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
	has := func(f func(sweep.RunStatus) bool) bool { return slices.ContainsFunc(st.Runs, f) }
	isAway := func(r sweep.RunStatus) bool {
		return r.State == rundir.StateRunning && (r.Elsewhere || r.Job != "")
	}
	hasLeft := has(func(r sweep.RunStatus) bool { return r.Left > 0 })
	where := func(r sweep.RunStatus) string { return cmp.Or(jobText(r), runningOn(r)) }
	textIf := func(ok bool, text string) string {
		if ok {
			return text
		}
		return ""
	}
	columns := []struct {
		head string
		show bool
		text func(sweep.RunStatus) string
	}{
		{"part", st.Kind == "study", func(r sweep.RunStatus) string { return r.Part }},
		{"run", true, statusName},
		{"state", true, func(r sweep.RunStatus) string { return r.State }},
		{"step", true, func(r sweep.RunStatus) string { return fmt.Sprintf("%d/%d", r.Step, r.Steps) }},
		{"time left", !st.Submitted && hasLeft, func(r sweep.RunStatus) string {
			return textIf(r.Left > 0, "about "+shortTime(r.Left))
		}},
		{"validation", true, func(r sweep.RunStatus) string {
			if r.Reward == nil {
				return ""
			}
			return fmt.Sprintf("%.3f", *r.Reward)
		}},
		{"last update", true, func(r sweep.RunStatus) string {
			return cmp.Or(textIf(r.Age >= 0, shortTime(r.Age)+" ago"), "never")
		}},
		{"attempts", true, func(r sweep.RunStatus) string { return textIf(r.Attempts > 0, fmt.Sprint(r.Attempts)) }},
		{"job in Slurm", st.Submitted, where},
		{"running on", !st.Submitted && has(isAway), where},
	}
	t := report.Table{Label: "Runs", Rows: make([]report.Row, len(st.Runs))}
	for _, c := range columns {
		if !c.show {
			continue
		}
		t.Columns = append(t.Columns, report.Column{Head: c.head, Text: true})
		for i, r := range st.Runs {
			bad := c.head == "state" &&
				slices.Contains([]string{rundir.StateFailed, rundir.StateDiverged, sweepdir.Dead}, r.State)
			t.Rows[i].Cells = append(t.Rows[i].Cells, report.Cell{Text: textutil.Printable(c.text(r), 0), Bad: bad})
		}
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
		sweepdir.Dead, sweepdir.Missing, sweepdir.Planned, sweepdir.Stopped,
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

// followPage writes the page of a status, and writes it again until no run is in progress or ctx
// ends. It returns the last status.
func followPage(ctx context.Context, s *State, o *statusOptions, st *sweep.Status) (*sweep.Status, error) {
	if err := report.CheckStatusFile(o.html); err != nil {
		return nil, err
	}
	if st.InProgress() {
		textutil.Fprintf(s.Err, "%s is written every %s until no run is in progress (Ctrl-C stops this, not the runs)\n",
			filepath.ToSlash(o.html), shortTime(o.every.Seconds()))
	}
	tick := time.NewTicker(o.every)
	defer tick.Stop()
	var curves curvesSoFar
	for {
		page := report.StatusPage{
			Title: statusTitle(st), Lead: statusSummary(st), Written: s.Now(),
			Runs: statusTable(st), Notes: statusNotes(st),
		}
		curves.add(&page, o.dir, s.Now, st.InProgress())
		if st.InProgress() {
			if page.Every = o.every; ctx.Err() != nil {
				page.Every, page.Stopped = 0, true
			}
		}
		if err := page.Write(o.html); err != nil {
			return nil, err
		}
		if page.Every == 0 {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			continue // the last page
		}
		var err error
		if st, err = launch.ReadStatus(ctx, o.dir, s.Now()); err != nil && ctx.Err() == nil {
			return nil, err
		}
	}
	wrote(s, o.html)
	if ctx.Err() != nil {
		return nil, errStopped
	}
	return st, nil
}

// statusTitle names the folder too: two sweeps over a key have the same name.
func statusTitle(st *sweep.Status) string {
	dir := filepath.ToSlash(filepath.Clean(st.Dir))
	if st.Name == "" || st.Name == filepath.Base(st.Dir) {
		return "Status of " + dir
	}
	return fmt.Sprintf("Status of %s (%s)", st.Name, dir)
}

// curvesSoFar are the figures of the last page. Drawing reads all logs, which may take seconds, and
// the runs need the processor.
type curvesSoFar struct {
	drawn []plots.Drawing
	err   error
	next  time.Time // when they are drawn again
}

// add puts the figures on a page. Of runs in progress they are drawn at most a twentieth of the time.
func (c *curvesSoFar) add(p *report.StatusPage, dir string, now func() time.Time, inProgress bool) {
	if start := now(); !inProgress || !start.Before(c.next) {
		c.drawn, c.err = report.Curves(dir)
		end := now()
		c.next = end.Add(19 * end.Sub(start))
	}
	if p.Curves = c.drawn; c.err != nil {
		p.Notes = append(p.Notes, fmt.Sprintf("no figure: %v", c.err))
	}
}

// cancelOptions are the inputs of `grpo cancel`.
type cancelOptions struct {
	dir  string
	json bool
}

func newCancel(s *State) *cobra.Command {
	o := &cancelOptions{}
	c := &cobra.Command{
		Use:   "cancel DIR",
		Short: "Cancel the jobs of a sweep or a study in Slurm",
		Long: `Cancel cancels the jobs of a sweep or a study that are still in Slurm's queue,
waiting or running, and the job that reports. Running runs save first, if Slurm
gives them the time. Finished runs stay, and the sweep's own command submits the
others again.`,
		Example: `  grpo cancel results/sweep-1a2b3c4d`,
		Args:    takes("the folder of a sweep or a study", 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.dir = args[0]
			return run(cmd, s, o, runCancel)
		},
	}
	addJSON(c, &o.json)
	return c
}

// cancelOutput is what --json prints.
type cancelOutput struct {
	Dir       string   `json:"dir"`
	Cancelled []string `json:"cancelled"`
}

func runCancel(ctx context.Context, s *State, o *cancelOptions) error {
	ids, submitted, err := launch.Cancel(ctx, o.dir)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(s.Out, cancelOutput{o.dir, append([]string{}, ids...)})
	}
	switch {
	case submitted == 0:
		_, err = textutil.Fprintf(s.Out, "no job was submitted for %s\n", o.dir)
	case len(ids) == 0:
		_, err = textutil.Fprintf(s.Out, "no job of %s is in the queue any more\n", o.dir)
	default:
		_, err = textutil.Fprintf(s.Out, "cancelled %s: %s\n", textutil.Count(len(ids), "job"), strings.Join(ids, ", "))
	}
	return err
}
