package cmd

import (
	"context"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"grpo/internal/textutil"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
	"grpo/pkg/sweepdir"
)

// dryRow is a run as --dry-run shows it.
type dryRow struct {
	Index int                 `json:"index"`
	Arm   string              `json:"arm"`
	Seed  uint64              `json:"seed"`
	State string              `json:"state"`
	Dir   string              `json:"dir"`
	Hash  string              `json:"hash"`
	Set   []sweepdir.Override `json:"set"`
	About float64             `json:"estimated_s"`
	// From is the folder of the sweep from which the run is copied.
	From string `json:"from,omitempty"`
}

// dryRun is what --dry-run --json prints.
type dryRun struct {
	Dir     string   `json:"dir"`
	Command string   `json:"command"`
	Name    string   `json:"name"`
	Hash    string   `json:"hash"`
	Runs    []dryRow `json:"runs"`
	Missing int      `json:"missing"` // copies apart
	Copies  int      `json:"copies"`  // finished runs of other folders
	// Added are the seeds that the sweep in the folder does not have yet.
	Added    []uint64        `json:"added_seeds,omitempty"`
	Estimate *sweep.Estimate `json:"estimate"` // null where nothing is missing
	// MissingS is the time for the runs that are not done.
	MissingS float64 `json:"missing_s"`
}

// runDry says what a sweep would do and how long it would take; it writes
// nothing but to a temporary folder, in which it measures.
func runDry(ctx context.Context, o *sweepOptions) error {
	s, m := o.state, o.plan.Manifest
	d := dryRun{Dir: o.dir, Command: m.Command, Name: m.Name, Hash: m.Hash}
	var missing []sweepdir.Entry
	d.Added = o.addedSeeds()
	copies := sweep.Reused(o.dir, o.plan, o.siblings, version)
	for _, r := range m.Runs {
		row := dryRow{Index: r.Index, Arm: m.Arms[r.Arm].Name, Seed: r.Seed, State: sweepdir.StateOf(o.dir, r).State, Dir: r.Dir, Hash: r.Hash, Set: m.Arms[r.Arm].Set}
		switch from, copied := copies[r.Index]; {
		case copied:
			row.State, row.From = stateCopy, from
			d.Copies++
		case row.State != rundir.StateDone && row.State != rundir.StateDiverged:
			missing = append(missing, r)
		}
		d.Runs = append(d.Runs, row)
	}
	if err := sweep.CheckMemory(o.dir, m, s.available()); err != nil {
		return err
	}
	if d.Missing = len(missing); d.Missing > 0 {
		if !o.quiet {
			fmt.Fprintln(s.Err, "measuring the first steps")
		}
		var err error
		if d.Estimate, err = sweep.EstimateTime(ctx, o.plan, o.flags.jobs, runtime.GOMAXPROCS(0), sweep.NewProbe(s.Now, "")); err != nil {
			return err
		}
		d.MissingS = sweep.Makespan(missing, d.Estimate.Arms, d.Estimate.Jobs)
		for i, r := range m.Runs {
			if d.Runs[i].State != stateCopy {
				d.Runs[i].About = d.Estimate.Arms[r.Arm]
			}
		}
	}
	if o.json {
		return printJSON(s.Out, d)
	}
	return d.write(s.Out, len(m.Arms), len(m.Seeds))
}

func (d dryRun) write(out io.Writer, arms, seeds int) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "index\tarm\tseed\tstate\ttime\tfolder\tsettings")
	for _, r := range d.Runs {
		textutil.Fprintf(w, "%d\t%s\t%d\t%s\t%s\t%s\t%s\n", r.Index, r.Arm, r.Seed, r.State, shortTime(r.About), r.Dir, settings(r.Set))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	text := fmt.Sprintf("\n%s (%s, %s) in %s", textutil.Count(len(d.Runs), "run"), textutil.Count(arms, "arm"), textutil.Count(seeds, "seed"), textutil.Printable(d.Dir, 0))
	switch {
	case d.Missing == 0 && d.Copies == 0:
		text += "; all done"
	case d.Missing < len(d.Runs):
		text += fmt.Sprintf(", %d missing", d.Missing)
	}
	text += "\n" + copiesFrom(d.Runs)
	if len(d.Added) > 0 {
		text += addedLine(d.Added) + "\n"
	}
	if d.Missing > 0 {
		text += estimated(d.MissingS, d.Estimate)
	}
	_, err := io.WriteString(out, text)
	return err
}

// addedSeeds are those that the sweep in the folder does not have yet.
func (o *sweepOptions) addedSeeds() []uint64 {
	old, err := sweepdir.ReadManifest(o.dir)
	if err != nil || len(old.Seeds) > len(o.plan.Manifest.Seeds) {
		return nil
	}
	return o.plan.Manifest.Seeds[len(old.Seeds):]
}

func addedLine(seeds []uint64) string {
	return fmt.Sprintf("%s added to the sweep in this folder: %s", textutil.Count(len(seeds), "seed"), strings.Trim(fmt.Sprint(seeds), "[]"))
}

// copiesFrom has a line for each folder from which runs are copied.
func copiesFrom(runs []dryRow) string {
	n, text := map[string]int{}, ""
	for _, r := range runs {
		if r.From != "" {
			n[r.From]++
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(n)) {
		text += fmt.Sprintf("%s copied from %s (--fresh trains all runs again, in a new folder)\n", textutil.Count(n[dir], "finished run"), dir)
	}
	return text
}

// estimated is the line on the time that the missing runs take.
func estimated(seconds float64, e *sweep.Estimate) string {
	about, how := "about", "measured on the first steps, valid if they are typical"
	if e.AtLeast {
		about, how = "at least", "the measurement reached its time limit before two steps"
	}
	if text := shortTime(seconds); !strings.HasPrefix(text, "more than") {
		about += " " + text
	} else {
		about = text
	}
	return fmt.Sprintf("%s, %d at a time with %s each; %s\n", about, e.Jobs, textutil.Count(e.Threads, "thread"), how)
}

// settings writes what makes an arm as --set takes it.
func settings(set []sweepdir.Override) string {
	var parts []string
	for _, o := range set {
		parts = append(parts, o.Key+"="+o.Value)
	}
	if len(parts) == 0 {
		return "none (base configuration)"
	}
	return strings.Join(parts, " ")
}
