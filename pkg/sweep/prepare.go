package sweep

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"grpo/internal/regular"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// Prepare freezes a plan in dir, which is made: sweep.yaml first, manifest.json
// last. Where the same sweep is there already (by [sweepdir.Manifest.Hash]) it
// is left as it is, so that the same command continues it; seeds that the plan
// has in addition are appended. Where another sweep is there, or something else,
// the error is a [config.ErrConfig] that names what differs.
func Prepare(dir string, p *Plan) error {
	if err := p.Manifest.Check(); err != nil {
		return fmt.Errorf("prepare sweep: %w", err)
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

// Find returns the plan as [Prepare] would leave it in dir: with the runs in the
// order of the manifest that is there, and with the seeds that it would append.
// It fails as Prepare does and writes nothing. A sweep that is new in dir is
// compared with its siblings, of which it may be one with more seeds.
func Find(dir string, p *Plan, siblings []string) (*Plan, error) {
	found, _, err := find(dir, p)
	if err != nil || found != p || p.Manifest.Fresh {
		return found, err
	}
	out := *p
	out.Manifest.Added = addedTo(siblings, p.Manifest)
	return &out, nil
}

// find is [Find]; frozen says that the manifest in dir is that of the result. The
// plan itself is returned where dir holds no sweep.
func find(dir string, p *Plan) (found *Plan, frozen bool, err error) {
	found = p
	err = rundir.Allow(dir, rundir.KindSweep, func() (err error) {
		found, frozen, err = sameSweep(dir, p)
		return err
	})
	return found, frozen, err
}

// sameSweep is [find] for a folder that holds a sweep, which it refuses unless
// that is p, or p with fewer seeds.
func sameSweep(dir string, p *Plan) (found *Plan, frozen bool, err error) {
	if err := regular.Folder(filepath.Join(dir, sweepdir.RunsDir)); err != nil {
		return nil, false, fmt.Errorf("prepare sweep: %w", err)
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
		return nil, false, fmt.Errorf("%w: %s holds a %s but no %s, and the sweep would replace that file; give another --out",
			config.ErrConfig, dir, sweepdir.RequestFile, sweepdir.ManifestFile)
	case config.Outside(err):
		return nil, false, rundir.Explain(err)
	case err != nil:
		return nil, false, fmt.Errorf("%w: %w (give another --out, or --fresh to start over in a new folder next to it)", config.ErrConfig, err)
	case old.Hash == p.Manifest.Hash:
		return &Plan{Manifest: old, Request: p.Request}, true, nil
	}
	if m, ok := extended(dir, old, p.Manifest); ok {
		return &Plan{Manifest: m, Request: p.Request}, false, nil
	}
	hint := "give another --out, or --fresh to start over in a new folder next to it"
	if withSeeds(old, p.Manifest.Seeds).Identity() == p.Manifest.Hash {
		hint = fmt.Sprintf("it has more seeds: give --seeds %s to continue it, or \"grpo report\" to see it; %s", seedsFlag(old.Seeds), hint)
	}
	return nil, false, fmt.Errorf("%w: %s holds another sweep (%s); %s", config.ErrConfig, dir, strings.Join(differences(old, p.Manifest), "; "), hint)
}

// claim is [rundir.Claim] for the folder of a sweep or a study. Its lock is held
// only briefly: so it waits, unlike that of a run.
func claim(dir string, kind rundir.Kind, same func() error) (unlock func() error, err error) {
	const every, tries = 50 * time.Millisecond, 100
	for range tries {
		unlock, err = rundir.Claim(dir, kind, same)
		var locked *rundir.LockedError
		if !errors.As(err, &locked) {
			return unlock, err
		}
		time.Sleep(every)
	}
	return nil, err
}
