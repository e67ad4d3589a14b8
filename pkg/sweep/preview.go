package sweep

import (
	"context"
	"path/filepath"
	"slices"

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

// Preview makes no change in the sweep's folder: it measures in a temporary one.
func (p *Located) Preview(ctx context.Context, opts Options) (*Preview, error) {
	if err := p.Check(opts); err != nil {
		return nil, err
	}
	v := &Preview{Disk: diskOf(p.Dir, p.Manifest, opts.Jobs)}
	v.add(p, "", make([]bool, len(p.Manifest.Runs)), opts.Version)
	return v, v.estimate(ctx, []*Plan{p.Plan}, opts)
}

// Preview is [Located.Preview] for a study in dir, whose learning rate the plan
// adopts.
func (p *AssignmentPlan) Preview(ctx context.Context, dir string, opts Options) (*Preview, error) {
	if _, err := p.find(dir); err != nil {
		return nil, err
	}
	if err := p.checkMemory(dir, opts.Memory); err != nil {
		return nil, err
	}
	if err := p.CheckDisk(dir, opts.Jobs, opts.Disk); err != nil {
		return nil, err
	}
	v := &Preview{Disk: p.disk(dir, opts.Jobs)}
	for i, copied := range p.Copied() {
		name, part := p.Study.Parts[i].Name, &Located{Plan: p.Parts[i]}
		if i == 0 || !p.waits() {
			var err error
			if part, err = Locate(filepath.Join(dir, name), p.Parts[i]); err != nil {
				return nil, err
			}
		}
		v.add(part, name+"/", copied, opts.Version)
	}
	return v, v.estimate(ctx, p.Parts, opts)
}

// add appends a part whose folders begin with prefix. Runs marked as copied are
// those of an earlier part. A part without a folder has no learning rate yet.
func (v *Preview) add(p *Located, prefix string, copied []bool, version string) {
	var from map[string]reusedRun
	if p.Dir != "" {
		from = findReusable(p.Dir, p.Manifest.Runs, Options{Siblings: p.Siblings, Version: version}, func(string, ...any) {})
	}
	var rows []PreviewRun
	for i, e := range p.Manifest.Runs {
		arm := p.Manifest.Arms[e.Arm]
		row := PreviewRun{
			Index: e.Index, Arm: arm.Name, Name: p.Manifest.NameOf(e.Arm), Seed: e.Seed, Set: arm.Set, State: sweepdir.Missing,
		}
		if p.Dir == "" {
			rate := sweepdir.Override{Key: RateKey, Value: "(best of part lr)"}
			row.Set = append(slices.Clone(arm.Set), rate)
		} else {
			row.Dir, row.Hash, row.State = prefix+e.Dir, e.Hash, p.Manifest.Settle(sweepdir.StateOf(p.Dir, e)).State
		}
		switch {
		case sweepdir.Ended(row.State):
		case copied[i]:
			row.State = StateCopy
			v.Copies++
		case from[e.Hash].sweep != "":
			row.State, row.From = StateCopy, from[e.Hash].sweep
			v.Reused++
		default:
			v.Missing++
		}
		rows = append(rows, row)
	}
	v.Parts = append(v.Parts, rows)
}

// estimate measures how long the missing runs take.
func (v *Preview) estimate(ctx context.Context, plans []*Plan, opts Options) (err error) {
	if v.Missing == 0 {
		return nil
	}
	opts = opts.withDefaults()
	opts.Observer.Note("measuring the first steps")
	if v.Estimate, err = EstimateTime(ctx, plans, opts.Jobs, opts.Cores, NewProbe(opts.Now)); err != nil {
		return err
	}
	for i, e := range v.Estimate {
		var missing []sweepdir.Entry
		for k, run := range plans[i].Manifest.Runs {
			row := &v.Parts[i][k]
			if row.State == StateCopy {
				continue
			}
			row.About = e.Arms[run.Arm]
			if !sweepdir.Ended(row.State) {
				missing = append(missing, run)
			}
		}
		v.MissingS += Makespan(missing, e.Arms, e.Jobs)
	}
	return nil
}
