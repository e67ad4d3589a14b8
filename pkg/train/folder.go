package train

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
)

// A run checks that a folder belongs to the same configuration before it writes
// anything there: see [rundir.Claim].

func (t *trainer) path(parts ...string) string {
	return filepath.Join(append([]string{t.opts.Dir}, parts...)...)
}

// later keeps a note until run.log is open.
func (t *trainer) later(format string, args ...any) {
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

// result returns the result of this run if it is done. It needs no claim of the folder and no GPU. A folder that
// is not this run's is left to [rundir.Acquire].
func (t *trainer) result() (*rundir.Result, error) {
	if _, err := os.Lstat(t.path(rundir.ResultFile)); err != nil {
		return nil, nil
	}
	if rundir.Allow(t.opts.Dir, rundir.KindRun, t.isSame) != nil {
		return nil, nil
	}
	run, err := rundir.Open(t.opts.Dir) // verifies the checksums of the files
	if err != nil {
		return nil, fmt.Errorf("%w (the run is done: restore the file, or start over in a new folder "+
			"with --fresh)", err)
	}
	if err := t.sameFiles(run.Meta); err != nil {
		return nil, fmt.Errorf("show run %s: %w", t.opts.Dir, err)
	}
	t.opts.Observer.Note(fmt.Sprintf("the run in %s is done; this is its result", t.opts.Dir))
	return run.Result, t.keepBest()
}

// isSame returns an error if the folder has another run's configuration.
func (t *trainer) isSame() error {
	_, err := t.sameRun()
	return err
}

// open returns the result if the run is done, continues from the newest valid checkpoint if there
// is one, and starts from step 0 otherwise.
func (t *trainer) open() (*rundir.Result, error) {
	old, err := t.sameRun()
	if err != nil {
		return nil, err
	}
	if done, err := t.result(); done != nil || err != nil {
		return done, err
	}
	checkpoints, err := rundir.Subfolder(t.opts.Dir, rundir.CheckpointDir)
	if err != nil {
		return nil, fmt.Errorf("make the checkpoints' folder: %w", err)
	}
	if err := t.noteRewrite(old); err != nil {
		return nil, err
	}
	t.noteKilled()
	if err := t.hold.Begin(t.clock.start); err != nil {
		return nil, err
	}
	for _, dir := range []string{t.opts.Dir, checkpoints} {
		if err := rundir.RemoveTemps(dir); err != nil {
			return nil, err
		}
	}
	if err := rundir.RecoverFolder(filepath.Join(checkpoints, rundir.BestFolder)); err != nil {
		return nil, err
	}
	if err := t.writeReference(); err != nil {
		return nil, err
	}
	t.opts.Progress.Do("reading the checkpoint")
	if err := t.restore(old); err != nil {
		return nil, err
	}
	if err := t.readReference(); err != nil {
		return nil, err
	}
	return nil, t.begin(old)
}

// begin cuts the logs to their length in the checkpoint and writes a folder's first files; old is
// its config.yaml. The checksums are written first and last, so they never cover a file that does
// not exist yet.
func (t *trainer) begin(old []byte) error {
	bare := rundir.Checksums{Step: t.state.Step, Files: t.state.Logs}
	if err := rundir.WriteJSON(t.path(rundir.CheckpointDir, rundir.ChecksumsFile), bare); err != nil {
		return err
	}
	t.logs = logs{}
	for _, name := range logFiles {
		log, err := rundir.OpenLog(t.path(name))
		if err != nil {
			return err
		}
		t.logs[name] = log
		if err := log.TruncateTo(t.state.Logs[name].Bytes); err != nil {
			return fmt.Errorf("continue run: %w", err)
		}
	}
	if text := config.Marshal(t.cfg); !bytes.Equal(old, text) {
		if err := rundir.WriteFileAtomic(t.path(rundir.ConfigFile), text); err != nil {
			return err
		}
	}
	meta := t.opts.Meta
	meta.Kernel, meta.Threads = t.model.Kernel(), t.opts.Threads
	meta.Device, meta.Moves = t.Device.String(), t.state.Moves
	meta.Started, meta.ElapsedS = t.clock.start.UTC().Format(time.RFC3339), t.state.Elapsed
	meta.ConfigHash, meta.InitHash, meta.ProblemsHash = config.Hash(t.cfg), t.inputs.Init, t.inputs.Problems
	meta.NetworkHash = t.inputs.Network
	meta.RewardFiles, meta.PairsHash, meta.InputFiles = t.inputs.Rewards, t.inputs.Pairs, t.files
	if err := rundir.WriteJSON(t.path(rundir.MetaFile), meta); err != nil {
		return err
	}
	if err := rundir.WriteJSON(t.path(rundir.CheckpointDir, rundir.ChecksumsFile), t.checksums()); err != nil {
		return err
	}
	return t.writeStatus(rundir.StateRunning, "")
}

// noteKilled notes that the process which had the folder before left no message. This process holds
// the folder, so that one has ended.
func (t *trainer) noteKilled() {
	run, err := rundir.Peek(t.opts.Dir)
	if err != nil || run.Status == nil || run.Status.State != rundir.StateRunning {
		return
	}
	t.later("the run was not finished: %s", run.Gone())
	if run.MayLackMemory() {
		var available int64
		if t.opts.Available != nil {
			available = t.opts.Available()
		}
		t.later("%s", budget.AfterKill(t.model, t.cfg, t.need, available))
	}
}

// noteRewrite notes how the folder's config.yaml differs from its replacement.
func (t *trainer) noteRewrite(old []byte) error {
	if old == nil || bytes.Equal(old, config.Marshal(t.cfg)) {
		return nil
	}
	diff, _, err := t.differences()
	t.later("%s is rewritten: %s", t.path(rundir.ConfigFile), cmp.Or(diff, "the same values, written differently"))
	return err
}

// sameRun returns the folder's config.yaml, or nil if there is none. Another run's configuration is
// an error; keys without an effect on the results may differ.
func (t *trainer) sameRun() ([]byte, error) {
	return rundir.OwnConfig(t.opts.Dir, config.Marshal(t.cfg), t.differences, rundir.CheckpointDir, rundir.ResultFile)
}

// differences lists the keys in which the folder's configuration differs from this run's, and
// reports whether the results could differ.
func (t *trainer) differences() (diff string, other bool, err error) {
	old, err := config.Load(config.LoadOptions{Path: t.path(rundir.ConfigFile)})
	if err != nil {
		return "", true, err
	}
	diff = strings.Join(config.Diff(old.Config, t.cfg), "; ")
	return diff, config.Hash(onDeviceOf(old.Config, t.cfg)) != config.Hash(t.cfg), nil
}
