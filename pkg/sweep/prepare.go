package sweep

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

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
	unlock, err := lockSweep(dir)
	if err != nil {
		return err
	}
	defer unlock()
	old, err := sweepdir.ReadManifest(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := refuseOther(dir); err != nil {
			return err
		}
		if err := rundir.WriteFileAtomic(filepath.Join(dir, sweepdir.RequestFile), p.Request); err != nil {
			return err
		}
		return sweepdir.WriteManifest(dir, p.Manifest)
	case err != nil:
		return fmt.Errorf("%w: %w (give another --out, or --fresh to begin anew beside it)", config.ErrConfig, err)
	case old.Hash != p.Manifest.Hash:
		return fmt.Errorf("%w: %s holds another sweep (%s); give another --out, or --fresh to begin anew beside it",
			config.ErrConfig, dir, strings.Join(differences(old, p.Manifest), "; "))
	}
	return nil
}

// lockSweep makes the sweep's folder and takes its lock, which is held for
// moments only: so it waits, unlike the lock of a run.
func lockSweep(dir string) (unlock func() error, err error) {
	const every, tries = 50 * time.Millisecond, 100
	for range tries {
		unlock, err = rundir.Make(dir)
		var locked *rundir.LockedError
		if !errors.As(err, &locked) {
			return unlock, err
		}
		time.Sleep(every)
	}
	return nil, err
}

// refuseOther refuses a folder that is something else than a sweep's.
func refuseOther(dir string) error {
	for _, other := range []struct{ file, what string }{
		{rundir.ConfigFile, "a single run"}, {rundir.ResultFile, "a single run"}, {sweepdir.StudyFile, "a study of several sweeps"},
	} {
		if _, err := os.Lstat(filepath.Join(dir, other.file)); err == nil {
			return fmt.Errorf("%w: %s holds %s, not a sweep; give another --out, or --fresh to begin beside it", config.ErrConfig, dir, other.what)
		}
	}
	return nil
}
