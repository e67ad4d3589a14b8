package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"grpo/internal/regular"
)

// A folder is replaced like a file (see [WriteFileAtomic]), with one difference: a rename can't
// replace a folder that has files. Linux and macOS can exchange two folders in one step. Elsewhere,
// and on file systems that can't, the old folder is moved aside first, under a name from which
// [RecoverFolder] moves it back if the process ends before the new one is in place.

// asideSuffix ends the name of an old folder while it is being replaced.
const asideSuffix = ".old"

// ReplaceFolder replaces the folder at path by one whose files fill writes into dir, a new folder
// next to it. On an error the old content is still in place. fill makes no folders.
func ReplaceFolder(path string, fill func(dir string) error) error {
	commit, err := PrepareFolder(path, fill, nil)
	if err != nil {
		return err
	}
	return commit()
}

// PrepareFolder is the first half of [ReplaceFolder], as [PrepareFile] is of [WriteAtomic].
func PrepareFolder(path string, fill func(dir string) error, allow func() error) (commit func() error, err error) {
	return prepareFolder(path, fill, func(temp, path string) error {
		if allow != nil {
			if err := allow(); err != nil {
				return err
			}
		}
		return replace(temp, path)
	})
}

// NewFolder is [ReplaceFolder] for a path where there is nothing or an empty folder: anything else
// is an error.
func NewFolder(path string, fill func(dir string) error) error {
	commit, err := prepareFolder(path, fill, func(temp, path string) error {
		if isFolder(path) {
			if err := syscall.Rmdir(path); err != nil { // os.Rename replaces no folder, not even an empty one
				return err
			}
		}
		return Rename(temp, path)
	})
	if err != nil {
		return err
	}
	return commit()
}

func prepareFolder(path string, fill func(dir string) error,
	move func(temp, path string) error) (commit func() error, err error) {
	path = filepath.Clean(path)
	var temp string
	err = makeTemp(path, func(name string) error {
		temp = name
		return os.Mkdir(name, 0o777)
	})
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", path, explainWrite(err))
	}
	failed := func(err error) error {
		os.RemoveAll(temp)
		return fmt.Errorf("write %s: %w", path, explainWrite(err))
	}
	if err := fill(temp); err != nil {
		return nil, failed(err)
	}
	return func() error {
		err := syncFiles(temp)
		if err == nil {
			err = move(temp, path)
		}
		if err != nil {
			return failed(err)
		}
		return synced(path)
	}, nil
}

// replace moves the folder temp to path and removes what was there.
func replace(temp, path string) error {
	if !isFolder(path) {
		return Rename(temp, path)
	}
	if exchange(temp, path) == nil {
		return os.RemoveAll(temp)
	}
	aside := path + asideSuffix
	if err := os.RemoveAll(aside); err != nil {
		return err
	}
	if err := Rename(path, aside); err != nil {
		return err
	}
	if err := Rename(temp, path); err != nil {
		return errors.Join(err, RecoverFolder(path))
	}
	return os.RemoveAll(aside)
}

// RecoverFolder ends a replacement of the folder at path by a process that was killed. The caller
// holds [Lock].
func RecoverFolder(path string) (err error) {
	aside := path + asideSuffix
	switch {
	case !isFolder(aside):
	case isFolder(path):
		err = os.RemoveAll(aside)
	default:
		err = Rename(aside, path)
	}
	if err != nil {
		return fmt.Errorf("recover %s: %w", path, Explain(err))
	}
	return nil
}

func isFolder(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// syncFiles makes the files of a folder durable.
func syncFiles(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		f, err := regular.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return errors.Join(err, syncDir(dir))
}

// Vacant returns an error unless a new folder can be made at path: there is nothing, or an empty
// folder.
func Vacant(path string) error {
	entries, err := os.ReadDir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) > 0:
		return fmt.Errorf("%s is not empty", path)
	}
	return nil
}
