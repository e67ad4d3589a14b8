package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"grpo/internal/regular"
	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

const elsewhereHint = "give another --out, or --fresh to start over in a new folder next to it"

// Located is a plan with the folder in which it is run.
type Located struct {
	*Plan
	Dir      string
	Siblings []string // sweeps from which finished runs are copied
	Added    []uint64 // seeds that the sweep in the folder does not have yet
	Waits    bool     // part of a study whose learning rate is not chosen yet: there is no folder
	Prefix   string   // part of a study: its name with a slash, for [Located.Rows]
}

// Locate finds the folder's sweep and its siblings. It fails as [Prepare] does and
// writes nothing.
func Locate(dir string, p *Plan) (*Located, error) { return locate(dir, p, Siblings(dir, p)) }

func locate(dir string, p *Plan, siblings []string) (*Located, error) {
	reuse := slices.DeleteFunc(slices.Clone(p.Reuse), func(from string) bool { return from == filepath.Clean(dir) })
	isNamed := func(from string) bool { return slices.Contains(reuse, from) }
	neighbours := slices.DeleteFunc(siblings, isNamed)
	out := &Located{Dir: dir, Siblings: slices.Concat(reuse, neighbours)}
	var err error
	if out.Plan, err = Find(dir, p, out.Siblings); err != nil {
		return nil, err
	}
	if out.Manifest.Fresh {
		out.Siblings = reuse
	}
	old, err := sweepdir.ReadManifest(dir)
	if seeds := out.Manifest.Seeds; err == nil && len(old.Seeds) <= len(seeds) {
		out.Added = seeds[len(old.Seeds):]
	}
	return out, nil
}

// AddedText is a line about the seeds that the sweep in the folder does not have yet; empty if it has
// all.
func (p *Located) AddedText() string {
	if len(p.Added) == 0 {
		return ""
	}
	return fmt.Sprintf("%s added to the sweep in this folder: %s",
		textutil.Count(len(p.Added), "seed"), joinSeeds(p.Added, " "))
}

// stateOf reads the state of a run of the plan.
func (p *Located) stateOf(e sweepdir.Entry) sweepdir.RunState {
	if p.Waits {
		return sweepdir.RunState{Entry: e, State: sweepdir.Missing}
	}
	return sweepdir.StateOf(p.Dir, e)
}

// Run freezes the plan in its folder, or finds it there, and trains the missing
// runs. It returns the sweep even with an error, so that finished runs can be
// reported; nil if nothing could be started.
func (p *Located) Run(ctx context.Context, opts Options) (*sweepdir.Sweep, error) {
	if err := CheckRoom(p.Dir, []*Located{p}, opts); err != nil {
		return nil, err
	}
	if err := p.Prepare(opts.Observer.Note); err != nil {
		return nil, err
	}
	opts.Siblings = p.Siblings
	return Run(ctx, p.Dir, opts)
}

// Prepare freezes a plan in dir, which is made: sweep.yaml first, manifest.json
// last. If dir holds the same sweep (by [sweepdir.Manifest.Hash]) it is left as it
// is, or gets the seeds that it lacks. Another sweep, or something else, is a
// [config.ErrConfig] that names the differences.
func Prepare(dir string, p *Plan) error {
	if err := p.Manifest.Check(); err != nil {
		return fmt.Errorf("prepare sweep: %w", err)
	}
	if _, frozen, err := find(dir, p); err == nil && frozen {
		return nil // without a claim, which changes the folder
	}
	unlock, err := claim(dir, rundir.KindSweep, func() error {
		_, _, err := sameSweep(dir, p)
		return err
	})
	if err != nil {
		return err
	}
	defer unlock()
	found, frozen, err := find(dir, p)
	if err != nil || frozen {
		return err
	}
	if err := rundir.WriteFileAtomic(filepath.Join(dir, sweepdir.RequestFile), found.Request); err != nil {
		return err
	}
	return sweepdir.WriteManifest(dir, found.Manifest)
}

// Prepare is [Prepare] in the plan's folder, if the files that its runs read have the contents that
// the runs there were made with ([sameFiles]).
func (p *Located) Prepare(note func(string)) error {
	if err := sameFiles(p.Dir, p.Manifest, note); err != nil {
		return err
	}
	return Prepare(p.Dir, p.Plan)
}

// Find returns the plan as [Prepare] would leave it in dir: the runs in the order of
// the manifest there, and new seeds after them. It fails as Prepare does and writes
// nothing. A sweep that is new in dir may be one of its siblings with more seeds.
func Find(dir string, p *Plan, siblings []string) (*Plan, error) {
	found, _, err := find(dir, p)
	if err != nil || found != p || p.Manifest.Fresh {
		return found, err
	}
	m := p.Manifest
	if len(m.Looks) > 0 {
		return found, unseen(siblings, m)
	}
	m.Added = addedTo(siblings, m)
	return p.with(addedLast(m)), nil
}

// find is [Find] without the siblings. frozen means that dir has the manifest of the
// result. It returns the plan itself if dir holds no sweep.
func find(dir string, p *Plan) (found *Plan, frozen bool, err error) {
	found = p
	err = rundir.Allow(dir, rundir.KindSweep, func() (err error) {
		found, frozen, err = sameSweep(dir, p)
		return err
	})
	return found, frozen, err
}

// sameSweep is [find] for the folder of a sweep, which must be p with the same or
// fewer seeds.
func sameSweep(dir string, p *Plan) (found *Plan, frozen bool, err error) {
	for _, name := range []string{sweepdir.RunsDir, rundir.ClaimsDir} {
		if err := regular.Folder(filepath.Join(dir, name)); err != nil {
			return nil, false, fmt.Errorf("prepare sweep: %w", err)
		}
	}
	old, err := sweepdir.ReadManifest(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// A process that was killed before it wrote the manifest leaves the same
		// request. Any other sweep.yaml is the user's.
		text, err := regular.Read(filepath.Join(dir, sweepdir.RequestFile), regular.MaxDocument)
		if err != nil || bytes.Equal(text, p.Request) {
			return p, false, err
		}
		return nil, false, fmt.Errorf("%w: %s holds a %s but no %s, and the sweep would replace that file; "+
			"give another --out", config.ErrConfig, dir, sweepdir.RequestFile, sweepdir.ManifestFile)
	case err != nil:
		return nil, false, unreadable(err)
	case old.Hash == p.Manifest.Hash:
		m, same := toggled(old, p.Manifest)
		m, err := withLooks(dir, old, p.Manifest, m)
		return p.with(m), same && len(m.Looks) == len(old.Looks) && m.LooksTaken() == old.LooksTaken(), err
	}
	if m, ok := extended(dir, old, p.Manifest); ok {
		m, _ = toggled(m, p.Manifest)
		m, err := withLooks(dir, old, p.Manifest, m)
		return p.with(m), false, err
	}
	hint := elsewhereHint
	if withSeeds(old, p.Manifest.Seeds).Identity() == p.Manifest.Hash {
		hint = fmt.Sprintf("it has more seeds: give --seeds %s to continue it, or \"grpo report\" to see it; %s",
			seedsFlag(old.Seeds), elsewhereHint)
		if old.ChosenOn() > 0 && len(p.Manifest.Looks) == 0 {
			hint = "it compares on fresh seeds after a choice: leave out --reuse-choice to continue it; " + elsewhereHint
		}
	}
	return nil, false, fmt.Errorf("%w: %s holds another sweep (%s); %s",
		config.ErrConfig, dir, strings.Join(differences(old, p.Manifest), "; "), hint)
}

// with is the plan with the manifest of its folder.
func (p *Plan) with(m sweepdir.Manifest) *Plan {
	out := *p
	out.Manifest = m
	return &out
}

// unreadable is the error about a manifest or a study that can't be used.
func unreadable(err error) error {
	if config.Outside(err) {
		return rundir.Explain(err)
	}
	return fmt.Errorf("%w: %w (%s)", config.ErrConfig, err, elsewhereHint)
}

// claim is [rundir.Claim] for the folder of a sweep or a study, which is held only
// briefly: it waits, for another machine until no cache hides that it is released.
func claim(dir string, kind rundir.Kind, same func() error) (unlock func() error, err error) {
	return claimFor(5*time.Second, dir, kind, same)
}

// claimFor is [claim] that waits so long for a process on this machine.
func claimFor(
	here time.Duration, dir string, kind rundir.Kind, same func() error,
) (unlock func() error, err error) {
	const every, elsewhere = 50 * time.Millisecond, 90 * time.Second
	for waited := time.Duration(0); ; waited += every {
		unlock, err = rundir.Claim(dir, kind, same)
		var locked *rundir.LockedError
		switch {
		case !errors.As(err, &locked):
			return unlock, err
		case waited > elsewhere, waited > here && !locked.Owner.Elsewhere():
			return nil, err
		}
		time.Sleep(every)
	}
}

// Claimed calls f while the folder of a sweep or a study is claimed, so that two commands never
// submit the same run. It waits up to a minute for another command on this machine.
func Claimed(dir string, kind rundir.Kind, f func() error) error {
	unlock, err := claimFor(time.Minute, dir, kind, nil)
	if isLocked(err) {
		return fmt.Errorf("submit the runs: %w (another command submits them now; run this one again later)", err)
	}
	if err != nil {
		return err
	}
	return errors.Join(f(), unlock())
}
