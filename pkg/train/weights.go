package train

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"grpo/internal/regular"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
)

// FindCheckpoint is the finder of [config.LoadOptions]. A path is a safetensors
// file, the folder of `grpo sft`, or the folder of a run, of which it takes the
// last checkpoint, or the best where a finished run kept no other. What can't be
// read has no file: loading it reports the reason.
func FindCheckpoint(path string) (config.Checkpoint, error) {
	file := path
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return config.Checkpoint{}, nil
	case info.IsDir():
		if file, err = weightsIn(path); err != nil {
			return config.Checkpoint{}, err
		}
	case !strings.ContainsAny(path, `/\.`):
		file = "./" + path // so that it can't be taken for a word such as base
	}
	found, err := savedSize(file)
	if err != nil {
		return config.Checkpoint{}, nil
	}
	return found, nil
}

// weightsIn returns the file of the weights in a folder.
func weightsIn(dir string) (string, error) {
	names := []string{SFTModelFile, filepath.Join(rundir.CheckpointDir, lastFile), filepath.Join(rundir.CheckpointDir, bestFile)}
	for _, name := range names {
		path := filepath.Join(dir, name)
		err := errors.Join(regular.Folder(filepath.Dir(path)), regular.Check(path, regular.MaxCheckpoint))
		if err == nil {
			return path, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("there are no weights in this folder: none of %s (give the folder of grpo sft or of a run, or a safetensors file)", strings.Join(names, ", "))
}
