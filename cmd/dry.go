package cmd

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/budget"
	"grpo/pkg/sweep"
	"grpo/pkg/sweep/launch"
	"grpo/pkg/sweepdir"
)

// drySweep is what `grpo sweep --dry-run --json` prints.
type drySweep struct {
	Dir     string             `json:"dir"`
	Command string             `json:"command"`
	Name    string             `json:"name"`
	Hash    string             `json:"hash"`
	Runs    []sweep.PreviewRun `json:"runs"`
	Missing int                `json:"missing"` // without copies
	Copies  int                `json:"copies"`  // finished runs of other folders
	// Added are the seeds that the sweep in the folder does not have yet.
	Added    []uint64        `json:"added_seeds,omitempty"`
	Looks    []sweepdir.Look `json:"looks,omitempty"` // planned
	Estimate *sweep.Estimate `json:"estimate"`        // null if nothing is missing
	MissingS float64         `json:"missing_s"`       // time for the missing runs
	Disk     float64         `json:"disk_bytes"`
}

// dryPart is a part of a dryStudy.
type dryPart struct {
	Part     string             `json:"part"`
	Question string             `json:"question"`
	Chosen   string             `json:"chosen"`
	Runs     []sweep.PreviewRun `json:"runs"`
}

// dryStudy is what `grpo assignment --dry-run --json` prints.
type dryStudy struct {
	Dir      string            `json:"dir"`
	Name     string            `json:"name"`
	Hash     string            `json:"hash"`
	Parts    []dryPart         `json:"parts"`
	Runs     int               `json:"runs"`
	Copies   int               `json:"copies"`   // runs that an earlier part trains
	Reused   int               `json:"reused"`   // finished runs of other folders
	Missing  int               `json:"missing"`  // without copies
	Estimate []*sweep.Estimate `json:"estimate"` // of each part; null if nothing is missing
	MissingS float64           `json:"missing_s"`
	Disk     float64           `json:"disk_bytes"`
}

// preview prints what a sweep or a study would do and how long it would take, or the jobs that would
// be submitted to a cluster: those of the first part of a study come after its runs, and which runs
// the others have depends on these.
func (f *sweepFlags) preview(ctx context.Context, s *State, j *launch.Job) error {
	jobs := func(head string) (shown bool, err error) {
		if f.out.json {
			return false, nil
		}
		text, err := j.Kind().Preview(ctx, j)
		if err != nil || text == "" {
			return false, err
		}
		_, err = io.WriteString(s.Out, textutil.Text(head)+text)
		return true, err
	}
	if j.Study == nil {
		if shown, err := jobs(""); err != nil || shown {
			return err
		}
	}
	parts, err := j.Located()
	if err != nil {
		return err
	}
	opts := j.Options.Options
	opts.Observer = sweep.Notes(func(text string) {
		if !f.out.quiet {
			textutil.Fprintf(s.Err, "%s\n", text)
		}
	})
	v, err := sweep.NewPreview(ctx, parts, opts)
	if err != nil {
		return err
	}
	if j.Study == nil {
		return f.previewSweep(s, parts[0], v)
	}
	if err := f.previewStudy(s, j.Study, v); err != nil {
		return err
	}
	_, err = jobs(fmt.Sprintf("\njobs of part %s:\n", j.Study.Manifest.Parts[0].Name))
	return err
}

func (f *sweepFlags) previewSweep(s *State, l *sweep.Located, v *sweep.Preview) error {
	m, runs := l.Manifest, v.Parts[0]
	if f.out.json {
		d := drySweep{Dir: l.Dir, Command: m.Command, Name: m.Name, Hash: m.Hash, Runs: runs,
			Missing: v.Missing, Copies: v.Reused, Added: l.Added, Looks: m.Looks, MissingS: v.MissingS, Disk: v.Disk}
		if v.Estimate != nil {
			d.Estimate = v.Estimate[0]
		}
		return printJSON(s.Out, d)
	}
	text := fmt.Sprintf("%s (%s, %s) in %s", textutil.Count(len(runs), "run"),
		textutil.Count(len(m.Arms), "arm"), textutil.Count(len(m.Seeds), "seed"), textutil.Printable(l.Dir, 0))
	switch {
	case v.Missing == 0 && v.Reused == 0:
		text += "; all done"
	case v.Missing < len(runs):
		text += fmt.Sprintf(", %d missing", v.Missing)
	}
	after := ""
	if added := l.AddedText(); added != "" {
		after = added + "\n"
	}
	if looks := sweep.LooksLine(m); looks != "" {
		after += looks + "\n"
	}
	if m.NextRung() > 0 {
		after += "--halving stops arms early: the time and the space on the disk are those of all arms\n"
	}
	return writePreview(s.Out, nil, v, text, after)
}

func (f *sweepFlags) previewStudy(s *State, p *sweep.Study, v *sweep.Preview) error {
	d := dryStudy{Dir: p.Dir, Name: p.Manifest.Name, Hash: p.Manifest.Hash, Copies: v.Copies, Reused: v.Reused,
		Missing: v.Missing, Estimate: v.Estimate, MissingS: v.MissingS, Disk: v.Disk}
	var names []string
	for i, part := range p.Manifest.Parts {
		d.Parts = append(d.Parts, dryPart{part.Name, part.Question, part.Chosen, v.Parts[i]})
		d.Runs += len(v.Parts[i])
		names = append(names, part.Name)
	}
	if f.out.json {
		return printJSON(s.Out, d)
	}
	text := fmt.Sprintf("%s in %s in %s", textutil.Count(d.Runs, "run"), textutil.Count(len(names), "part"),
		textutil.Printable(p.Dir, 0))
	if v.Copies > 0 {
		text += fmt.Sprintf(", %d of them copied from an earlier part", v.Copies)
	}
	if v.Missing+v.Copies+v.Reused == 0 {
		text += "; all done"
	} else {
		text += fmt.Sprintf(", %d to train", v.Missing)
	}
	after := ""
	for i, part := range p.Parts {
		if looks := sweep.LooksLine(part.Manifest); looks != "" {
			after += names[i] + ": " + looks + "\n"
		}
	}
	return writePreview(s.Out, names, v, text, after)
}

// writePreview prints a row for each run, a summary, and the time. Runs of a study
// have the name of their part; their folder may not be known yet.
func writePreview(out io.Writer, parts []string, v *sweep.Preview, summary, after string) error {
	w := newTable(out)
	if parts == nil {
		fmt.Fprintln(w, "index\tarm\tseed\tstate\ttime\tfolder\tsettings")
	} else {
		fmt.Fprintln(w, "part\tindex\tarm\tseed\tstate\ttime\tsettings")
	}
	copied := map[string]int{} // runs of each folder
	for i, runs := range v.Parts {
		for _, r := range runs {
			if parts != nil {
				textutil.Fprintf(w, "%s\t", parts[i])
			}
			textutil.Fprintf(w, "%d\t%s\t%d\t%s\t%s", r.Index, r.Name, r.Seed, r.State, shortTime(r.About))
			if parts == nil {
				textutil.Fprintf(w, "\t%s", r.Dir)
			}
			textutil.Fprintf(w, "\t%s\n", settings(r.Set))
			if r.From != "" {
				copied[r.From]++
			}
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	text := "\n" + summary + "\n"
	for _, dir := range slices.Sorted(maps.Keys(copied)) {
		text += fmt.Sprintf("%s copied from %s (--fresh trains all runs again, in a new folder)\n",
			textutil.Count(copied[dir], "finished run"), dir)
	}
	text += after
	if v.Missing > 0 {
		// The last estimate is a lower bound if an earlier one is.
		text += estimated(v.MissingS, v.Estimate[len(v.Estimate)-1])
		text += fmt.Sprintf("up to %s on the disk\n", budget.Bytes(v.Disk))
	}
	_, err := io.WriteString(out, text)
	return err
}

// estimated is the line about the time of the missing runs.
func estimated(seconds float64, e *sweep.Estimate) string {
	about, how := "about", "measured on the first steps, valid if they are typical"
	if e.AtLeast {
		about, how = "at least", "the measurement reached its time limit before two steps"
	}
	if text := shortTime(seconds); strings.HasPrefix(text, "more than") {
		about = text
	} else {
		about += " " + text
	}
	return fmt.Sprintf("%s, %d at a time with %s each; %s\n", about, e.Jobs,
		textutil.Count(e.Threads, "thread"), how)
}

// settings writes an arm's settings as --set takes them.
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
