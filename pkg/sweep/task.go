package sweep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"grpo/internal/regular"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
	"grpo/pkg/train"
)

// TaskOptions are what one run of a sweep needs besides the sweep's folder.
type TaskOptions struct {
	Threads  int // 0 = one for each core
	Now      func() time.Time
	Observer train.Observer // may be nil
	Meta     rundir.Meta    // the caller fills in version and host
	Memory   train.MemoryCheck
}

// Task does run number index of the sweep in dir, or continues it, and returns
// its result; a run that is done already is not done again. It knows nothing of
// other runs and of who started it, so that anything that can count can launch
// a sweep: [Run], or the array job of a cluster.
//
// Errors: [config.ErrConfig] for a manifest, an index or a configuration that
// can't be used; [train.ErrInterrupted] when ctx ended, and also when another
// process works on the same run; otherwise what [train.Run] returns. A failure is
// written into the run's status.json, even one that comes before the run could
// begin, so that a launcher can distinguish it from a process that died.
func Task(ctx context.Context, dir string, index int, opts TaskOptions) (*rundir.Result, error) {
	m, err := sweepdir.ReadManifest(dir)
	if err != nil {
		return nil, config.Invalid(rundir.Explain(err))
	}
	if index < 0 || index >= len(m.Runs) {
		return nil, fmt.Errorf("%w: %s: there is no run %d (the sweep has runs 0 to %d)",
			config.ErrConfig, dir, index, len(m.Runs)-1)
	}
	e := m.Runs[index]
	if e.Config == "" {
		return nil, fmt.Errorf("%w: %s, seed %d: %s", config.ErrConfig, m.Arms[e.Arm].Name, e.Seed, e.Error)
	}
	path := e.Path(dir)
	if err := e.CheckFolder(dir); err != nil {
		return nil, fmt.Errorf("run %d: %w", index, err)
	}
	cfg, err := frozen(e)
	if err != nil {
		report(dir, path, opts.Now, rundir.StateFailed, err.Error())
		return nil, err
	}
	if opts.Observer == nil {
		opts.Observer = quiet{}
	}
	if err := tidy(path); err != nil {
		return nil, err
	}
	res, err := train.Run(ctx, cfg, train.Options{
		Dir: path, Threads: opts.Threads, Now: opts.Now, Observer: opts.Observer,
		Meta: opts.Meta, Memory: opts.Memory,
	})
	switch {
	case isLocked(err):
		return nil, fmt.Errorf("%w: %w", train.ErrInterrupted, err)
	case errors.Is(err, train.ErrNothingSaved):
		// Training leaves the status "running" then, as a killed process does.
		report(dir, path, opts.Now, rundir.StateInterrupted, "")
	case err != nil && !errors.Is(err, train.ErrInterrupted):
		report(dir, path, opts.Now, rundir.StateFailed, err.Error())
	}
	return res, err
}

// tidy removes what killed processes left half-written. If another process
// works on the run, it says so before anything costly begins.
func tidy(path string) error {
	unlock, err := rundir.Claim(path, rundir.KindRun, nil)
	if isLocked(err) {
		return fmt.Errorf("%w: %w", train.ErrInterrupted, err)
	}
	if err != nil {
		return err
	}
	defer unlock()
	checkpoints := filepath.Join(path, rundir.CheckpointDir)
	if err := regular.Folder(checkpoints); err != nil {
		return err
	}
	for _, dir := range []string{path, checkpoints} {
		if err := rundir.RemoveTemps(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// isLocked says whether another process works on the run. [Task] returns an
// interruption then: a launcher looks again, and does not count it as a failure.
func isLocked(err error) bool {
	var locked *rundir.LockedError
	return errors.As(err, &locked)
}

// quiet is the observer of a run without one; everything is in run.log.
type quiet struct{}

func (quiet) Begin(int, int)      {}
func (quiet) Step(rundir.Metrics) {}
func (quiet) Eval(rundir.Eval)    {}
func (quiet) Note(string)         {}

// report writes into a run's status how it ended, with the problem if there was
// one. Where that is impossible (a full disk, say) the process's own message has to
// be enough.
func report(dir, path string, now func() time.Time, state, problem string) {
	if _, err := os.Stat(dir); err != nil {
		return // the sweep was removed, and should not come back as a folder of failures
	}
	unlock, err := rundir.Claim(path, rundir.KindRun, nil)
	if err != nil {
		return
	}
	defer unlock()
	file := filepath.Join(path, rundir.StatusFile)
	var s rundir.Status
	if err := rundir.ReadJSON(file, &s); err != nil {
		s = rundir.Status{}
	}
	s.State, s.PID, s.Error = state, os.Getpid(), problem
	s.Updated = now().UTC().Format(time.RFC3339)
	_ = rundir.WriteJSON(file, s)
}

// frozen reads the configuration that a manifest holds for a run. It is what
// config.Marshal wrote, every key in it, so environment and flags have no
// effect; its hash shows that it reads back to the same configuration.
func frozen(e sweepdir.Entry) (config.Config, error) {
	r, err := config.LoadText(fmt.Sprintf("%s, run %d", sweepdir.ManifestFile, e.Index), []byte(e.Config))
	if err != nil {
		return config.Config{}, fmt.Errorf("its frozen configuration can't be read: %w", err)
	}
	cfg := r.Config
	if hash := config.Hash(cfg); hash != e.Hash {
		return cfg, fmt.Errorf("%w: %s: run %d: its frozen configuration has the hash %s, not %s: "+
			"the file was edited, or is of another version of grpo (start over with --fresh)",
			config.ErrConfig, sweepdir.ManifestFile, e.Index, hash, e.Hash)
	}
	return cfg, nil
}
