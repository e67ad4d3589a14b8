package rundir

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"grpo/internal/regular"
	"grpo/pkg/config"
)

// Kind is what a folder contains, judging by the names of its files.
type Kind string

// Kinds of folders. Names that start with a dot don't count: a folder with only .gitkeep, .DS_Store
// or claims is empty.
const (
	KindEmpty  Kind = "nothing" // or no folder
	KindRun    Kind = "a training run"
	KindSFT    Kind = "a supervised run"
	KindReward Kind = "a reward model"
	KindSweep  Kind = "a sweep"
	KindStudy  Kind = "a study of several sweeps"
	// KindOther may receive plots, tables and generated problems. Runs, sweeps and studies are
	// refused: they could replace files of the same name.
	KindOther Kind = "other files"
)

// Names of files that identify a folder, as package sweepdir uses them.
const (
	RequestFile  = "sweep.yaml"
	ManifestFile = "manifest.json"
	StudyFile    = "study.json"
	TaskLog      = "task.log"
)

// A run writes the files early before its config.yaml, the others after it; a supervised run has
// sft.jsonl and record.json, that of a reward model reward-model.jsonl and record.json.
var (
	early = []string{CheckpointDir, MetricsFile, EvalFile, SamplesFile, StatusFile, LogFile, TaskLog}
	later = append([]string{MetaFile, ResultFile, "sft.jsonl", "reward-model.jsonl", "record.json"}, early...)
)

// KindOf reads a folder without changing it.
func KindOf(dir string) (Kind, error) {
	kind, _, err := inspect(dir)
	return kind, err
}

// inspect returns the kind of a folder and the names in it.
func inspect(dir string) (Kind, []string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return KindEmpty, nil, nil
	}
	if err != nil {
		return "", nil, err
	}
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	has := func(some ...string) bool {
		return slices.ContainsFunc(some, func(name string) bool { return slices.Contains(names, name) })
	}
	only := func(some ...string) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(some, name) })
	}
	switch {
	case len(names) == 0:
		return KindEmpty, nil, nil
	case has(StudyFile):
		return KindStudy, names, nil
	case has(ManifestFile), only(RequestFile): // written before the manifest
		return KindSweep, names, nil
	case has(ConfigFile) && has(later...), only(ConfigFile):
		// Next to other files, config.yaml may belong to any program.
		text, err := regular.Read(filepath.Join(dir, ConfigFile), regular.MaxDocument)
		switch {
		case bytes.Contains(text, []byte("\nstages:\n")):
			return KindSFT, names, err
		case bytes.Contains(text, []byte("\ncenter_rewards_coefficient: ")):
			return KindReward, names, err
		}
		return KindRun, names, err
	case has(ResultFile), only(early...):
		return KindRun, names, nil
	}
	return KindOther, names, nil
}

// Allow returns an error unless a command may write files of this kind into the folder: it is
// missing or empty, or it has the same kind and same returns nil. It writes nothing. same compares
// the request in the folder with the command's; it may be nil and is not called for an empty
// folder.
func Allow(dir string, kind Kind, same func() error) error {
	is, names, err := inspect(dir)
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		return config.Invalid(fmt.Errorf("read the folder: %w (choose another with --out)", err))
	case err != nil:
		return fmt.Errorf("read the folder: %w (choose another with --out)", Explain(err))
	case is == KindEmpty || is == kind && same == nil:
		return nil
	case is == kind:
		return same()
	case is == KindOther:
		const most = 3
		list := fmt.Sprintf("%q", names[:min(most, len(names))])
		if list = strings.Trim(list, "[]"); len(names) > most {
			list += " ..."
		}
		return fmt.Errorf("%w: %s has other files (%s), not %s; give another --out", config.ErrConfig, dir,
			list, kind)
	case kind == KindOther:
		return fmt.Errorf("%w: %s has %s, whose files could be replaced; give another --out",
			config.ErrConfig, dir, is)
	}
	return fmt.Errorf("%w: %s has %s, not %s; give another --out, or --fresh to start in a new folder next to it",
		config.ErrConfig, dir, is, kind)
}

// Claim takes a folder for writing: after [Allow] it creates the folder with its parents and takes
// its [Lock]. Every command that starts a run, a sweep or a study calls it first, or [Acquire]. A
// refused folder is not changed.
func Claim(dir string, kind Kind, same func() error) (unlock func() error, err error) {
	h, err := Acquire(dir, kind, same)
	if err != nil {
		return nil, err
	}
	return h.Release, nil
}

// Acquire is [Claim] for a process that trains: see [Hold.Begin] and [Hold.Check].
func Acquire(dir string, kind Kind, same func() error) (*Hold, error) {
	if err := Allow(dir, kind, same); err != nil {
		return nil, err
	}
	if err := MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("make the run's folder: %w (choose another with --out)", err)
	}
	h, err := Lock(dir)
	if err != nil {
		return nil, err
	}
	// Another process may have started in the folder since the first check.
	if err := Allow(dir, kind, same); err != nil {
		return nil, errors.Join(err, h.Release())
	}
	return h, nil
}

// Subfolder creates the folder name in dir and returns its path. An existing one must be a folder
// and not a link: its files would be outside dir.
func Subfolder(dir, name string) (string, error) {
	path := filepath.Join(dir, name)
	if err := regular.Folder(path); err != nil {
		return "", err
	}
	return path, MkdirAll(path)
}

// OwnConfig returns the config.yaml in dir, or nil if there is none. It must equal want, or be an
// equivalent configuration next to one of the files marks. Without those files it belongs to the
// user and must not be replaced.
func OwnConfig(dir string, want []byte, differences func() (diff string, other bool, err error),
	marks ...string) ([]byte, error) {
	old, err := regular.Read(filepath.Join(dir, ConfigFile), regular.MaxDocument)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("open run: %w", err)
	case bytes.Equal(old, want):
		return old, nil
	}
	diff, other, err := differences()
	switch {
	case err != nil:
		return nil, fmt.Errorf("the configuration in folder %s can't be read: %w", dir, err)
	case other:
		return nil, fmt.Errorf("%w: %s has a run of another configuration (%s) in its %s; give another "+
			"--out, or --fresh to start in a new folder next to it",
			config.ErrConfig, dir, diff, ConfigFile)
	}
	for _, name := range marks {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return old, nil
		}
	}
	return nil, fmt.Errorf("%w: %s has a %s but no run; a run would replace that file; give another --out",
		config.ErrConfig, dir, ConfigFile)
}
