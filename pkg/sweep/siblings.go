package sweep

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// A sweep may need runs that a sweep in a folder next to its own has finished:
// the baseline ablation those of the assignment, a sweep with eight seeds those
// of the one with four. They are copied (see run_reuse.go).

const (
	// maxSiblings bounds the folders next to a sweep's own that are read.
	maxSiblings = 2000
	// maxManifest bounds the manifest of such a folder, in bytes.
	maxManifest = 64 << 20
)

// Siblings returns the sweeps in the folders next to dir that have a run in
// common with one of the plans, parts of studies included, in the order of their
// names. Only folders of this user count, and no link is followed: other users may be
// able to write into the parent.
func Siblings(dir string, plans ...*Plan) []string {
	dir = filepath.Clean(dir)
	entries, _ := os.ReadDir(filepath.Dir(dir)) // what can't be listed has nothing to copy
	entries = entries[:min(len(entries), maxSiblings)]
	wanted := map[string]bool{}
	for _, p := range plans {
		for _, e := range p.Manifest.Runs {
			wanted[e.Hash] = e.Config != ""
		}
	}
	var out []string
	add := func(dir string) {
		if !ownFile(filepath.Join(dir, sweepdir.ManifestFile)) {
			return
		}
		if m, err := sweepdir.ReadManifest(dir); err == nil && slices.ContainsFunc(m.Runs, func(e sweepdir.Entry) bool { return e.Config != "" && wanted[e.Hash] }) {
			out = append(out, dir)
		}
	}
	for _, e := range entries {
		path := filepath.Join(filepath.Dir(dir), e.Name())
		if path == dir || !ownFolder(path) {
			continue
		}
		add(path)
		if !ownFile(filepath.Join(path, sweepdir.StudyFile)) {
			continue
		}
		if st, err := sweepdir.ReadStudy(path); err == nil {
			for _, part := range st.Parts {
				if p := filepath.Join(path, part.Name); ownFolder(p) {
					add(p)
				}
			}
		}
	}
	return out
}

func ownFolder(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir() && isOwn(info)
}

func ownFile(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() <= maxManifest && isOwn(info)
}

// selfContained says whether a run is a function of its configuration alone: a
// file that a configuration names can change and leave the hash as it is, and so
// can the card of a GPU.
func selfContained(e sweepdir.Entry) bool {
	c, err := frozen(e)
	return err == nil && c.Data.Source == "generated" && slices.Contains([]string{"base", "random"}, c.Model.Init) &&
		slices.Contains([]string{"", "base"}, c.Algorithm.Teacher) && c.Model.Device == "cpu"
}

// verify returns nil if the run in the folder path is this user's, is finished, was
// made by this version of the program from the configuration with this hash, and
// matches its checksums.
func verify(path, hash, version string) error {
	if !ownFolder(path) {
		return fmt.Errorf("%s: it is a link, or the folder of another user", path)
	}
	run, err := rundir.Open(path)
	if err != nil {
		return err
	}
	if run.Result == nil || len(run.Missing) > 0 || len(run.Result.Files) == 0 {
		return fmt.Errorf("%s: it is not finished, not complete, or has no checksums", path)
	}
	if m := run.Meta; m.Version != version || !kernel.SameBits(m.Kernel, kernel.Name()) {
		return fmt.Errorf("%s: it was made by grpo %s with kernel %s, this is %s with kernel %s", path, m.Version, m.Kernel, version, kernel.Name())
	}
	if _, err := frozen(sweepdir.Entry{Config: string(run.Config), Hash: hash}); err != nil {
		return fmt.Errorf("%s: its configuration is another: %w", path, err)
	}
	for _, name := range []string{"last", "best"} {
		file := filepath.Join(path, rundir.CheckpointDir, name+".safetensors")
		c, err := model.ReadCheckpointFile(file)
		switch {
		case errors.Is(err, fs.ErrNotExist) && name == "best":
			continue
		case err != nil:
			return err
		case name == "last" && c.Params.Hash() != run.Result.WeightsSHA256:
			return fmt.Errorf("%s: its weights are not those of the result", file)
		}
	}
	return nil
}

// Reused returns, by index, the folders of the sweeps from which [Run] would copy
// runs of the plan in dir. The version is that of the program.
func Reused(dir string, p *Plan, siblings []string, version string) map[int]string {
	out := map[int]string{}
	var missing []sweepdir.Entry
	for _, e := range p.Manifest.Runs {
		if _, err := os.Lstat(e.Path(dir)); e.Config != "" && errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, e)
		}
	}
	found := findReusable(missing, Options{Siblings: siblings, Version: version, Observer: noObserver{}})
	for _, e := range missing {
		if run, ok := found[e.Hash]; ok {
			out[e.Index] = run.sweep
		}
	}
	return out
}
