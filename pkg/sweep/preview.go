package sweep

import (
	"context"
	"slices"

	"grpo/pkg/analysis"
	"grpo/pkg/sweepdir"
)

// StateCopy is the state of a missing run that would be copied, not trained.
const StateCopy = "copy"

// PreviewRun is a run as the preview shows it.
type PreviewRun struct {
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
	Name string `json:"-"` // of the arm, for readers ([sweepdir.Manifest.NameOf])
}

// Preview is what a sweep, or a study, would do, and how long that would take.
type Preview struct {
	Parts   [][]PreviewRun
	Missing int // runs to train
	Copies  int // of runs that an earlier part trains
	Reused  int // copies of finished runs of other folders
	// Estimate has an element for each part; nil where nothing is missing.
	Estimate []*Estimate
	MissingS float64 // seconds for the missing runs
	Disk     float64 // bytes that the unfinished runs take on the disk, at most
}

// NewPreview lists the runs of a sweep, or of the parts of a study, and measures how long the missing
// ones take. It makes no change in their folders: it measures in a temporary one.
func NewPreview(ctx context.Context, parts []*Located, opts Options) (*Preview, error) {
	v := &Preview{Disk: diskOf(parts, opts.Jobs)}
	seen := map[string]bool{} // hashes of the runs of earlier parts
	for _, p := range parts {
		rows, may := p.Rows(opts), mayTrain(p.Manifest)
		for i := range rows {
			switch row := &rows[i]; {
			case sweepdir.Ended(row.State), !may(p.Manifest.Runs[i]):
			case seen[p.Manifest.Runs[i].Hash]:
				row.State, row.From = StateCopy, ""
				v.Copies++
			case row.State == StateCopy:
				v.Reused++
			default:
				v.Missing++
			}
		}
		for _, e := range p.Manifest.Runs {
			seen[e.Hash] = true
		}
		v.Parts = append(v.Parts, rows)
	}
	if v.Missing == 0 {
		return v, nil
	}
	opts = opts.withDefaults()
	opts.Observer.Note("measuring the first steps")
	var plans []*Plan
	for _, p := range parts {
		plans = append(plans, p.Plan)
	}
	var err error
	if v.Estimate, err = EstimateTime(ctx, plans, opts, NewProbe(opts.Memory, opts.Now)); err != nil {
		return nil, err
	}
	for i, e := range v.Estimate {
		var missing []sweepdir.Entry
		for k, run := range plans[i].Manifest.Runs {
			row := &v.Parts[i][k]
			if row.State == StateCopy || !mayTrain(plans[i].Manifest)(run) {
				continue
			}
			row.About = e.Arms[run.Arm]
			if !sweepdir.Ended(row.State) {
				missing = append(missing, run)
			}
		}
		v.MissingS += Makespan(missing, e.Arms, e.Jobs)
	}
	return v, nil
}

// Rows lists the runs of a sweep with their states; those that this program would copy
// from another folder have the state [StateCopy].
func (p *Located) Rows(opts Options) (rows []PreviewRun) {
	var from map[string]reusedRun
	if !p.Waits {
		opts.Siblings = p.Siblings
		from = findReusable(p.Dir, p.Manifest.Runs, opts, func(string, ...any) {})
	}
	for _, e := range p.Manifest.Runs {
		arm := p.Manifest.Arms[e.Arm]
		row := PreviewRun{
			Index: e.Index, Arm: arm.Name, Name: p.Manifest.NameOf(e.Arm), Seed: e.Seed, Set: arm.Set, State: sweepdir.Missing,
		}
		if p.Waits {
			rate := sweepdir.Override{Key: analysis.RateKey, Value: "(best of part lr)"}
			row.Set = append(slices.Clone(arm.Set), rate)
		} else {
			row.Dir, row.Hash, row.State = p.Prefix+e.Dir, e.Hash, p.Manifest.Settle(p.stateOf(e)).State
		}
		if reused, ok := from[e.Hash]; ok && !sweepdir.Ended(row.State) {
			row.State, row.From = StateCopy, reused.sweep
		}
		rows = append(rows, row)
	}
	return rows
}
