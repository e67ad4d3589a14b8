package sweep

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"grpo/pkg/config"
	"grpo/pkg/inputfiles"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
	"grpo/pkg/train"
)

// The runs of a sweep are comparable only if they were made from the same files, and a manifest has
// these by name alone. What the runs have recorded of the contents is compared before any run is
// trained (by the command that continues the sweep, and by each run's own process).

// trained returns what a run has recorded, if it is finished or has a checkpoint after a step; nil
// otherwise: such a run starts over, with the files of now.
func trained(dir string, e sweepdir.Entry) *rundir.Meta {
	path := e.Path(dir)
	if e.CheckFolder(dir) != nil {
		return nil
	}
	if _, err := os.Lstat(filepath.Join(path, rundir.ResultFile)); err != nil {
		if _, err := os.Lstat(rundir.CheckpointIn(path, "last")); err != nil || rundir.SavedStep(path) == 0 {
			return nil
		}
	}
	meta := new(rundir.Meta)
	if rundir.ReadJSON(filepath.Join(path, rundir.MetaFile), meta) != nil {
		return nil // reading the run reports it
	}
	return meta
}

// sameFiles returns an error unless the files that the trained runs of a sweep were made with have the
// same contents now. One that is gone is a note, unless there are runs left to train and its folder is there:
// paths of a cluster need not exist here.
func sameFiles(dir string, m sweepdir.Manifest, note func(string)) error {
	files, left := inputfiles.Hashes{}, false
	var gone []string // a run and its file
	for _, e := range m.Runs {
		meta := trained(dir, e)
		_, err := os.Lstat(filepath.Join(e.Path(dir), rundir.ResultFile))
		left = left || err != nil && !m.IsStopped(e)
		if meta == nil {
			continue
		}
		c, err := frozen(e)
		if err != nil {
			continue // its process reports it
		}
		changed, missing, err := train.ChangedFiles(files, c, meta)
		if err != nil {
			return err
		}
		if len(changed) > 0 {
			return otherFiles(e.Path(dir), changed)
		}
		if len(missing) > 0 && gone == nil {
			gone = []string{e.Path(dir), missing[0]}
		}
	}
	if gone == nil {
		return nil
	}
	what := gone[1] + ", which is not there any more"
	if _, err := os.Stat(filepath.Dir(gone[1])); left && err == nil {
		return otherFiles(gone[0], []string{what})
	}
	note(fmt.Sprintf("%s was made with %s: it is not compared", gone[0], what))
	return nil
}

func otherFiles(run string, files []string) error {
	return fmt.Errorf("%w: %s was made with other contents of %s, and the runs of a sweep must have the same "+
		"(put the old file back, or %s)", config.ErrConfig, run, strings.Join(files, ", "), elsewhereHint)
}

// others are the trained runs that the run of an entry will be compared with.
func others(dir string, m sweepdir.Manifest, e sweepdir.Entry) (out []train.Others) {
	for _, o := range m.Runs {
		if o.Index == e.Index {
			continue
		}
		if meta := trained(dir, o); meta != nil {
			out = append(out, train.Others{Run: o.Path(dir), Meta: meta, Arm: o.Arm == e.Arm})
		}
	}
	return out
}
