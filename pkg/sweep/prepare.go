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
// is left as it is, so that the same command continues it. Where another sweep
// is there, or something else, the error is a [config.ErrConfig] that names
// what differs.
func Prepare(dir string, p *Plan) error {
	if err := p.Manifest.Check(); err != nil {
		return fmt.Errorf("prepare sweep: %w", err)
	}
	unlock, err := claim(dir, rundir.KindSweep, func() error { return sameSweep(dir, p) })
	if err != nil {
		return err
	}
	defer unlock()
	if sweepdir.IsSweep(dir) {
		return nil
	}
	if err := rundir.WriteFileAtomic(filepath.Join(dir, sweepdir.RequestFile), p.Request); err != nil {
		return err
	}
	return sweepdir.WriteManifest(dir, p.Manifest)
}

// sameSweep refuses a folder that holds another sweep than p.
func sameSweep(dir string, p *Plan) error {
	if err := regular.Folder(filepath.Join(dir, sweepdir.RunsDir)); err != nil {
		return fmt.Errorf("prepare sweep: %w", err)
	}
	old, err := sweepdir.ReadManifest(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// A process that was killed before it wrote the manifest leaves the same
		// request. Any other sweep.yaml is the user's.
		text, err := regular.Read(filepath.Join(dir, sweepdir.RequestFile), regular.MaxDocument)
		if err != nil || bytes.Equal(text, p.Request) {
			return err
		}
		return fmt.Errorf("%w: %s holds a %s but no %s, and the sweep would replace that file; give another --out",
			config.ErrConfig, dir, sweepdir.RequestFile, sweepdir.ManifestFile)
	case err != nil:
		return fmt.Errorf("%w: %w (give another --out, or --fresh to begin anew beside it)", config.ErrConfig, err)
	case old.Hash != p.Manifest.Hash:
		return fmt.Errorf("%w: %s holds another sweep (%s); give another --out, or --fresh to begin anew beside it",
			config.ErrConfig, dir, strings.Join(differences(old, p.Manifest), "; "))
	}
	return nil
}

// claim is [rundir.Claim] for the folder of a sweep or a study. Its lock is held
// for moments only: so it waits, unlike that of a run.
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
