package cmd

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"text/tabwriter"

	"grpo/internal/textutil"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
	"grpo/pkg/sweepdir"
)

// stateCopy is the state of a run that an earlier part makes.
const stateCopy = "copy"

// waitsForRate is shown as the learning rate of the comparisons while it is not
// known.
const waitsForRate = "(best of part lr)"

// dryPart is a part of the study as --dry-run shows it.
type dryPart struct {
	Part     string   `json:"part"`
	Question string   `json:"question"`
	Chosen   string   `json:"chosen"`
	Runs     []dryRow `json:"runs"`
}

// dryStudy is what `grpo assignment --dry-run --json` prints.
type dryStudy struct {
	Dir   string    `json:"dir"`
	Name  string    `json:"name"`
	Hash  string    `json:"hash"`
	Parts []dryPart `json:"parts"`
	Runs  int       `json:"runs"`
	// Copies are runs that an earlier part makes; they take no time, nor do the
	// finished runs of other folders.
	Copies  int `json:"copies"`
	Reused  int `json:"reused"`
	Missing int `json:"missing"` // copies apart
	// Estimate has one for each part; null where nothing is missing.
	Estimate []*sweep.Estimate `json:"estimate"`
	MissingS float64           `json:"missing_s"`
}

// dryAssignment says what the study would do and how long it would take; it
// writes nothing but to a temporary folder, in which it measures.
func dryAssignment(ctx context.Context, o *assignmentOptions) error {
	s, p := o.state, o.plan
	old, err := sweep.FindStudy(o.dir, p.Study, p.Parts[0])
	if err != nil {
		return err
	}
	if old != nil {
		if err := p.Adopt(*old); err != nil {
			return err
		}
	}
	if err := o.checkMemory(); err != nil {
		return err
	}
	d := dryStudy{Dir: o.dir, Name: p.Study.Name, Hash: p.Study.Hash}
	todo := make([][]sweepdir.Entry, len(p.Parts))
	for i, copied := range p.Copied() {
		part := p.Study.Parts[i]
		dry := dryPart{Part: part.Name, Question: part.Question, Chosen: part.Chosen}
		m := p.Parts[i].Manifest
		var reused map[int]string
		if i == 0 || !p.Waits() {
			reused = sweep.Reused(filepath.Join(o.dir, part.Name), p.Parts[i], o.siblings(i), version)
		}
		for k, e := range m.Runs {
			row := dryRow{Index: e.Index, Arm: m.Arms[e.Arm].Name, Seed: e.Seed, Dir: part.Name + "/" + e.Dir, Hash: e.Hash, Set: m.Arms[e.Arm].Set}
			row.State = sweepdir.Missing
			if i > 0 && p.Waits() { // neither its hash nor its folder is known
				row.Dir, row.Hash = "", ""
				row.Set = append(append([]sweepdir.Override{}, row.Set...), sweepdir.Override{Key: sweep.RateKey, Value: waitsForRate})
			} else {
				row.State = sweepdir.StateOf(filepath.Join(o.dir, part.Name), e).State
			}
			switch {
			case row.State == rundir.StateDone || row.State == rundir.StateDiverged:
			case copied[k]:
				row.State = stateCopy
				d.Copies++
			case reused[k] != "":
				row.State, row.From = stateCopy, reused[k]
				d.Reused++
			default:
				todo[i] = append(todo[i], e)
				d.Missing++
			}
			dry.Runs = append(dry.Runs, row)
		}
		d.Runs += len(dry.Runs)
		d.Parts = append(d.Parts, dry)
	}
	if d.Missing > 0 {
		if !o.quiet {
			fmt.Fprintln(s.Err, "measuring the first steps")
		}
		if d.Estimate, err = sweep.EstimateParts(ctx, p.Parts, o.flags.jobs, runtime.GOMAXPROCS(0), sweep.NewProbe(s.Now, "")); err != nil {
			return err
		}
		for i, e := range d.Estimate {
			if len(todo[i]) > 0 {
				d.MissingS += sweep.Makespan(todo[i], e.Arms, e.Jobs)
			}
			for k, r := range p.Parts[i].Manifest.Runs {
				if d.Parts[i].Runs[k].State != stateCopy {
					d.Parts[i].Runs[k].About = e.Arms[r.Arm]
				}
			}
		}
	}
	if o.json {
		return printJSON(s.Out, d)
	}
	return d.write(s.Out)
}

func (d dryStudy) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "part\tindex\tarm\tseed\tstate\ttime\tsettings")
	for _, p := range d.Parts {
		for _, r := range p.Runs {
			textutil.Fprintf(w, "%s\t%d\t%s\t%d\t%s\t%s\t%s\n", p.Part, r.Index, r.Arm, r.Seed, r.State, shortTime(r.About), settings(r.Set))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	text := fmt.Sprintf("\n%s in %s in %s", textutil.Count(d.Runs, "run"), textutil.Count(len(d.Parts), "part"), textutil.Printable(d.Dir, 0))
	if d.Copies > 0 {
		text += fmt.Sprintf(", %d of them copied from an earlier part", d.Copies)
	}
	if d.Missing == 0 && d.Copies == 0 && d.Reused == 0 {
		text += "; all done"
	} else {
		text += fmt.Sprintf(", %d to train", d.Missing)
	}
	text += "\n"
	for _, p := range d.Parts {
		text += copiesFrom(p.Runs)
	}
	if d.Missing > 0 {
		// The last part's estimate also says whether the probe of an earlier one was cut off.
		text += estimated(d.MissingS, d.Estimate[len(d.Estimate)-1])
	}
	_, err := io.WriteString(out, text)
	return err
}
