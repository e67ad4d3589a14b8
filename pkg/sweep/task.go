package sweep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
	"grpo/pkg/train"
)

// TaskOptions are the options of one run of a sweep.
type TaskOptions struct {
	Threads  int // 0 = one for each fast core
	Now      func() time.Time
	Observer train.Observer
	Meta     rundir.Meta // the caller fills in version and host
	Memory   budget.MemoryCheck
	Progress model.Progress
	Disk     budget.DiskCheck
	// Wait: while a process on another machine, or of an earlier start of this job, is training the
	// run, wait. Without it, that is an error, as it always is for other processes on this machine.
	Wait bool
}

// Task trains or continues run number index of the sweep in dir and returns its
// result; a finished run is not trained again. Of other runs it needs only what they
// have recorded of the files that they read, so that [Run] or the array job of a
// cluster can launch a sweep.
//
// Errors: [config.ErrConfig] for a manifest, an index or a configuration that
// can't be used; [rundir.ErrInterrupted] when ctx ended, and when another process
// is running the same run; otherwise those of [train.Run]. A failure is written into
// the run's status.json, so that a launcher can distinguish it from a process that
// died.
func Task(ctx context.Context, dir string, index int, opts TaskOptions) (*rundir.Result, error) {
	m, err := sweepdir.ReadManifest(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s is not the folder of a sweep (\"grpo sweep --prepare\" writes one)",
			config.ErrConfig, dir)
	}
	if err != nil {
		return nil, config.Invalid(rundir.Explain(err))
	}
	if index < 0 || index >= len(m.Runs) {
		return nil, fmt.Errorf("%w: %s: there is no run %d (the sweep has runs 0 to %d)",
			config.ErrConfig, dir, index, len(m.Runs)-1)
	}
	e := m.Runs[index]
	path := e.Path(dir)
	if err := e.CheckFolder(dir); err != nil {
		return nil, fmt.Errorf("run %d: %w", index, err)
	}
	problem := ""
	switch at, next := m.StoppedAt(e.Arm), m.NextLook(); {
	case at > 0:
		problem = fmt.Sprintf("--halving stopped this arm after step %d", at)
	case m.IsStopped(e):
		problem = "a planned look has ended without this arm, which gets no more seeds"
	case m.IsPlanned(e):
		problem = fmt.Sprintf("the look at %d seeds comes before this seed (the command that made the sweep takes it)",
			m.Looks[next].Seeds)
	}
	if problem != "" {
		return nil, fmt.Errorf("%w: %s, seed %d: %s", config.ErrConfig, m.NameOf(e.Arm), e.Seed, problem)
	}
	if step := m.NextRung(); step > 0 {
		until, end := context.WithCancel(ctx)
		defer end()
		ctx, opts.Observer = until, untilStep{opts.Observer, step, end}
	}
	cfg, err := frozen(e)
	if err != nil {
		report(dir, path, opts.Now, rundir.StateFailed, err.Error())
		return nil, err
	}
	var res *rundir.Result
	for {
		if opts.Wait {
			if err := waitForOthers(ctx, path, opts.Observer); err != nil {
				return nil, err
			}
		}
		res, err = train.Run(ctx, cfg, train.Options{
			Dir: path, Threads: opts.Threads, Now: opts.Now, Observer: opts.Observer,
			Meta: opts.Meta, Memory: opts.Memory, Disk: opts.Disk, Progress: opts.Progress,
			Others: others(dir, m, e),
		})
		// Another process may have been faster after the wait.
		if o, held, _ := rundir.Holder(path); !opts.Wait || !isLocked(err) || !held || !isAwaited(o) {
			break
		}
	}
	switch {
	case isLocked(err):
		return nil, fmt.Errorf("%w: %w", rundir.ErrInterrupted, err)
	case errors.Is(err, rundir.ErrInterrupted):
		// Before training there is no status, or one of a process that was killed or failed.
		report(dir, path, opts.Now, rundir.StateInterrupted, "")
	case err != nil:
		report(dir, path, opts.Now, rundir.StateFailed, err.Error())
	}
	return res, err
}

// isAwaited says whether a process ends without an action of the user: one on another machine, or
// one that a scheduler has told to end.
func isAwaited(o rundir.Owner) bool { return o.Elsewhere() || o.Replaced() }

// otherEvery is the time between two looks at a run that another process is training.
const otherEvery = 10 * time.Second

// waitForOthers returns when no process that is waited for is training the run in
// the folder path: it has ended, or is dead.
func waitForOthers(ctx context.Context, path string, observer train.Observer) error {
	for first := true; ; first = false {
		o, held, _ := rundir.Holder(path)
		if !held || !isAwaited(o) {
			return nil
		}
		if first {
			observer.Note(fmt.Sprintf("%s is training this run; waiting until it ends", o))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w while %s was training this run", rundir.ErrInterrupted, o)
		case <-time.After(otherEvery):
		}
	}
}

// isLocked says whether another process has the run's folder. [Task] then returns an
// interruption, which a launcher does not count as a failure.
func isLocked(err error) bool {
	var locked *rundir.LockedError
	return errors.As(err, &locked)
}

// report writes into a run's status how it ended, with the problem if there was
// one. If that fails (a full disk, say) the log has the process's message.
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

// ReportFailure writes into the status of a run of the sweep in dir that it failed.
func ReportFailure(dir string, index int, now func() time.Time, why error) {
	if m, err := sweepdir.ReadManifest(dir); err == nil {
		report(dir, m.Runs[index].Path(dir), now, rundir.StateFailed, why.Error())
	}
}

// frozen reads a run's configuration in the manifest. It has every key, so
// environment and flags have no effect; the hash shows that it was not changed.
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
