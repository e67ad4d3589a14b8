package train

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"grpo/internal/regular"
	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/rundir"
)

// A run checks that a folder belongs to the same configuration before it writes
// anything there: see [rundir.Claim].

// sameRun returns the folder's config.yaml, nil if there is none, and refuses
// one of another run. It may differ in keys without an effect on the run: then
// this run's goes into the folder.
func (t *trainer) sameRun() ([]byte, error) {
	return ownConfig(t.opts.Dir, config.Marshal(t.cfg), []string{rundir.CheckpointDir, rundir.ResultFile}, t.differences)
}

// differences compares the folder's configuration with this run's, key by key,
// and reports whether the results could differ.
func (t *trainer) differences() (diff string, other bool, err error) {
	old, err := config.Load(config.LoadOptions{Path: t.path(rundir.ConfigFile)})
	if err != nil {
		return "", true, err
	}
	return strings.Join(config.Diff(old.Config, t.cfg), "; "), config.Hash(onDeviceOf(old.Config, t.cfg)) != config.Hash(t.cfg), nil
}

// ownConfig returns the config.yaml in dir, nil if there is none. It is an error
// unless it is the configuration text, or was written by the same request in
// other words: then one of the files marks is there too. Without them it is a
// file of the user's, which a run must not replace.
func ownConfig(dir string, text []byte, marks []string, differences func() (diff string, other bool, err error)) ([]byte, error) {
	old, err := regular.Read(filepath.Join(dir, rundir.ConfigFile), regular.MaxDocument)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("open run: %w", err)
	case bytes.Equal(old, text):
		return old, nil
	}
	diff, other, err := differences()
	switch {
	case err != nil:
		return nil, fmt.Errorf("the folder %s holds a configuration that can't be read: %w", dir, err)
	case other:
		return nil, fmt.Errorf("%w: %s holds a run of another configuration (%s) in its %s; give another --out, or --fresh to start in a new folder next to it",
			config.ErrConfig, dir, diff, rundir.ConfigFile)
	}
	for _, name := range marks {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return old, nil
		}
	}
	return nil, fmt.Errorf("%w: %s holds a %s but no run, and a run would replace that file; give another --out", config.ErrConfig, dir, rundir.ConfigFile)
}

// sameRequest refuses a folder with a supervised run of another configuration.
func (s *sft) sameRequest() error {
	_, err := ownConfig(s.opts.Dir, config.Marshal(s.cfg), []string{SFTLogFile, SFTRecordFile}, func() (string, bool, error) {
		old, err := config.LoadSFT(config.LoadOptions{Path: s.path(rundir.ConfigFile)})
		if err != nil {
			return "", true, err
		}
		return strings.Join(config.Diff(old.Config, s.cfg), "; "), config.Hash(old.Config) != config.Hash(s.cfg), nil
	})
	return err
}

// finished returns the record of a run that is done, nil if there is none. It
// writes nothing, so that to give the command again does no harm.
func (s *sft) finished() (*SFTRecord, error) {
	if err := rundir.Allow(s.opts.Dir, rundir.KindSFT, s.sameRequest); err != nil {
		return nil, err
	}
	rec := new(SFTRecord)
	err := rundir.ReadJSON(s.path(SFTRecordFile), rec)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && rec.ConfigHash != config.Hash(s.cfg) {
		err = fmt.Errorf("%s is the record of another configuration", s.path(SFTRecordFile))
	}
	var c *model.Checkpoint
	if err == nil {
		c, err = readOwn(s.path(SFTModelFile))
	}
	if err == nil && c.Params.Hash() != rec.Weights {
		err = fmt.Errorf("%s does not hold the weights that %s names", s.path(SFTModelFile), SFTRecordFile)
	}
	if err != nil {
		return nil, fmt.Errorf("%w (the run is done: put the file back, or start in a new folder with --fresh)", err)
	}
	s.opts.Observer.Note(fmt.Sprintf("the run in %s is done: nothing is written, this is its record", s.opts.Dir))
	return rec, nil
}

// readOwn reads a checkpoint in a result folder.
func readOwn(path string) (*model.Checkpoint, error) {
	if err := regular.Check(path, regular.MaxCheckpoint); err != nil {
		return nil, fmt.Errorf("read checkpoint: %w", err)
	}
	return model.ReadCheckpointFile(path)
}
