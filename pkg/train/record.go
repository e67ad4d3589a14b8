package train

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"grpo/pkg/config"
	"grpo/pkg/rundir"
)

// The folder of a run that can't be continued, a supervised run or the training of a reward model,
// has config.yaml, a log and, when the run is done, record.json.

// sameRequest returns an error if the folder has a run of another configuration. load is the loader
// of this kind of configuration.
func sameRequest[T config.Root](dir string, cfg T, load func(config.LoadOptions) (*config.Loaded[T], error), log string) error {
	differences := func() (string, bool, error) {
		old, err := load(config.LoadOptions{Path: filepath.Join(dir, rundir.ConfigFile)})
		if err != nil {
			return "", true, err
		}
		return strings.Join(config.Diff(old.Config, cfg), "; "), config.Hash(old.Config) != config.Hash(cfg), nil
	}
	_, err := ownConfig(dir, config.Marshal(cfg), differences, log, rundir.RecordFile)
	return err
}

// startLog writes the configuration and opens the log, empty.
func startLog(dir, log string, cfg []byte) (*rundir.Log, error) {
	if err := rundir.WriteFileAtomic(filepath.Join(dir, rundir.ConfigFile), cfg); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, log)
	if err := rundir.WriteFileAtomic(path, nil); err != nil {
		return nil, err
	}
	return rundir.OpenLog(path)
}

// readRecord reads the record of a finished run, and notes that the run is done; nil if it is not.
// check returns an error unless the record is that of this run, whose files are complete.
func readRecord[R any](dir string, o interface{ Note(string) }, check func(*R) error) (*R, error) {
	rec := new(R)
	err := rundir.ReadJSON(filepath.Join(dir, rundir.RecordFile), rec)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = check(rec)
	}
	if err != nil {
		return nil, fmt.Errorf("%w (the run is done: put the file back, or start in a new folder with --fresh)", err)
	}
	o.Note(fmt.Sprintf("the run in %s is done; this is its record (no file was changed)", dir))
	return rec, nil
}

// hasWeights returns an error unless a file has the weights with a checksum.
func hasWeights(path, want string) error {
	c, err := readOwn(path)
	if err == nil && c.Params.Hash() != want {
		err = fmt.Errorf("%s does not hold the weights that %s names", path, rundir.RecordFile)
	}
	return err
}

// sameRecorded returns an error if a finished run was made with other contents of its files, which its
// record has (then; nil in records of earlier versions), than they have now.
func sameRecorded(then map[string]string, paths []string, o interface{ Note(string) }) error {
	if then == nil {
		return nil
	}
	now, err := Files{}.sums(paths)
	if err != nil {
		return err
	}
	changed, gone := changedFiles(then, now)
	if len(changed) > 0 {
		return fmt.Errorf("the run was trained on other contents of %s", strings.Join(changed, ", "))
	}
	noteGone(o, gone)
	return nil
}

// noteGone says which files of a finished run can't be compared.
func noteGone(o interface{ Note(string) }, gone []string) {
	if len(gone) > 0 {
		o.Note("not compared, because it is not there any more: " + strings.Join(gone, ", "))
	}
}
