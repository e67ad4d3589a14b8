package sweep

import (
	"context"
	"path/filepath"

	"grpo/internal/textutil"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// Pending is a frozen sweep with the runs that are to be trained elsewhere, by their index.
type Pending struct {
	*Located
	Runs []int
}

// Freeze freezes a sweep, or parts of a study, in their folders, copies finished runs as [Run] does,
// and returns what is missing. It starts nothing. Of runs with one configuration in several parts
// only the first is missing: a later command copies it.
//
// Errors: those of [Prepare]. A run that can't be trained, that another process is training, or that is
// queued in Slurm is a note.
func Freeze(ctx context.Context, parts []*Located, opts Options) (out []Pending, err error) {
	taken := map[string]bool{} // hashes of configurations
	for _, p := range parts {
		if err := p.Prepare(opts.Observer.Note); err != nil {
			return nil, err
		}
		s, err := sweepdir.Open(p.Dir)
		if err != nil {
			return nil, err
		}
		opts.Siblings = p.Siblings
		r := &runner{dir: p.Dir, manifest: s.Manifest, opts: opts}
		r.scan(s)
		r.leaveQueued(ctx)
		r.reuseRuns()
		pending, running := Pending{Located: p}, 0
		for _, j := range r.in(waiting) {
			if sweepdir.StateOf(p.Dir, j.entry).State == rundir.StateRunning {
				running++
			} else if !taken[j.entry.Hash] {
				pending.Runs = append(pending.Runs, j.entry.Index)
			}
			taken[j.entry.Hash] = true
		}
		for _, j := range r.in(failed) {
			r.note("%s can't be trained: %v", r.name(j), j.failure)
		}
		if running > 0 {
			r.note("%s: another process is training %s, which it keeps", p.Dir, textutil.Count(running, "run"))
		}
		if len(pending.Runs) > 0 {
			out = append(out, pending)
		}
		opts.StudySweeps = append(opts.StudySweeps, p.Dir)
	}
	return out, nil
}

// Ready returns the parts of the prepared study in dir that need no result that is still missing:
// the first, and once it is finished all of them.
func (p *AssignmentPlan) Ready(dir string, opts StudyOptions) (out []*Located, err error) {
	for i, part := range p.Study.Parts {
		if i == 1 && !p.ask.PerArm {
			first, err := sweepdir.OpenPart(dir, p.Study.Parts[0])
			if err != nil {
				return nil, err
			}
			if first == nil || !first.Finished() {
				return out, nil
			}
			if err := p.chooseBest(dir, opts); err != nil {
				return nil, err
			}
		}
		l, err := Locate(filepath.Join(dir, part.Name), p.Parts[i])
		if err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	return out, nil
}
