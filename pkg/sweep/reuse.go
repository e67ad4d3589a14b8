package sweep

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"grpo/internal/regular"
	"grpo/internal/textutil"
	"grpo/pkg/model"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
	"grpo/pkg/train"
)

// A run is a function of its configuration, so a run that another sweep has finished
// is copied: the baseline ablation needs runs of the assignment, a sweep with eight
// seeds those of the one with four. A copy keeps its name, command and times; its arm
// and seed in this sweep are in the manifest.

const (
	// maxSiblings bounds the folders next to a sweep's own that are read.
	maxSiblings = 2000
	// maxManifest bounds the manifest of such a folder, in bytes.
	maxManifest = 64 << 20
	// copyPrefix starts the name of an incomplete copy. The dot and the missing
	// hash distinguish it from every run's folder.
	copyPrefix = ".copy-"
)

// Siblings returns the sweeps in the folders next to dir, parts of studies
// included, that have a run in common with the plan, in the order of their names.
// Only folders of this user count, and no link is followed: other users may be able
// to write into the parent.
func Siblings(dir string, p *Plan) []string {
	dir = filepath.Clean(dir)
	entries, _ := os.ReadDir(filepath.Dir(dir)) // a folder that can't be listed has nothing to copy
	wanted := map[string]bool{}
	for _, e := range p.Manifest.Runs {
		wanted[e.Hash] = true
	}
	var out []string
	add := func(dir string) {
		if !isMine(dir, fs.ModeDir) || !isMine(filepath.Join(dir, sweepdir.ManifestFile), 0) {
			return
		}
		m, err := sweepdir.ReadManifest(dir)
		common := func(e sweepdir.Entry) bool { return wanted[e.Hash] }
		if err == nil && slices.ContainsFunc(m.Runs, common) {
			out = append(out, dir)
		}
	}
	for _, e := range entries[:min(len(entries), maxSiblings)] {
		path := filepath.Join(filepath.Dir(dir), e.Name())
		if path == dir {
			continue
		}
		add(path)
		if isMine(path, fs.ModeDir) && isMine(filepath.Join(path, sweepdir.StudyFile), 0) {
			st, _ := sweepdir.ReadStudy(path) // no parts if it can't be read
			for _, part := range st.Parts {
				add(filepath.Join(path, part.Name))
			}
		}
	}
	return out
}

// isMine says whether path is a folder (fs.ModeDir) or a file (0) of this user; a
// file must not be larger than a manifest can be.
func isMine(path string, kind fs.FileMode) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().Type() == kind && (info.IsDir() || info.Size() <= maxManifest) && isOwn(info)
}

// isReproducible says whether a run can be compared with one of a sibling: a run does not record the
// weights of its teacher, and a GPU may be another.
func isReproducible(e sweepdir.Entry) bool {
	c, err := frozen(e)
	return err == nil && slices.Contains([]string{"", "base"}, c.Algorithm.Teacher) && c.Model.Device == "cpu"
}

// verify returns nil if the run in the folder path belongs to this user, is
// finished, was made by this program ([Options.sameProgram]) from the configuration with
// this hash and from files with the contents of today, and matches its checksums.
func verify(path, hash string, opts Options) error {
	if !isMine(path, fs.ModeDir) {
		return fmt.Errorf("%s: it is a link, or the folder of another user", path)
	}
	run, err := rundir.Open(path)
	if err != nil {
		return err
	}
	if run.Result == nil || len(run.Missing) > 0 || len(run.Result.Files) == 0 {
		return fmt.Errorf("%s: it is not finished, not complete, or has no checksums", path)
	}
	if err := opts.sameProgram(run.Meta); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	c, err := frozen(sweepdir.Entry{Config: string(run.Config), Hash: hash})
	if err != nil {
		return fmt.Errorf("%s: its configuration is another: %w", path, err)
	}
	if err := train.SameInputs(c, run.Meta); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, name := range []string{"last", "best"} {
		file := filepath.Join(path, rundir.CheckpointDir, name+".safetensors")
		saved, err := model.ReadCheckpointFile(file)
		switch {
		case errors.Is(err, fs.ErrNotExist) && (name == "best" || c.Output.Keep == "best"):
		case err != nil:
			return err
		case name == "last" && saved.Params.Hash() != run.Result.WeightsSHA256:
			return fmt.Errorf("%s: its weights are not those of the result", file)
		}
	}
	return nil
}

// sameProgram returns an error if a run was made by another program. Builds of sources between two releases have one
// version, and are told apart by their revisions where both are known.
func (o Options) sameProgram(m *rundir.Meta) error {
	isKnown := func(revision string) bool { return revision != "" && revision != "unknown" }
	switch {
	case m.Version != o.Version:
		return fmt.Errorf("it was made by grpo %s, this is %s", m.Version, o.Version)
	case isKnown(m.Revision) && isKnown(o.Revision) && m.Revision != o.Revision:
		return fmt.Errorf("it was made by revision %s of grpo, this is %s", m.Revision, o.Revision)
	}
	return nil
}

// reusedRun is a finished run of another sweep.
type reusedRun struct {
	sweep string // that sweep's folder
	path  string // the run's folder
}

// findReusable finds, by hash, finished runs of other sweeps with the configurations
// of those entries whose folders in dir don't exist. Runs of siblings are verified,
// since they may have been changed in any way.
func findReusable(
	dir string, entries []sweepdir.Entry, opts Options, note func(format string, args ...any),
) map[string]reusedRun {
	wanted, found := map[string]sweepdir.Entry{}, map[string]reusedRun{}
	for _, e := range entries {
		if _, err := os.Lstat(e.Path(dir)); errors.Is(err, fs.ErrNotExist) {
			wanted[e.Hash] = e
		}
	}
	for i, from := range slices.Concat(opts.StudySweeps, opts.Siblings) {
		isSibling := i >= len(opts.StudySweeps)
		entries, err := entriesOf(from)
		if err != nil {
			note("no run is reused from %s: %v", from, err)
			continue
		}
		var refused error
		for _, e := range entries {
			own, ok := wanted[e.Hash]
			if !ok || isSibling && !isReproducible(own) {
				continue
			}
			// Without a result, reading the state could touch the run's lock.
			path := e.Path(from)
			_, err := os.Stat(filepath.Join(path, rundir.ResultFile))
			if err != nil || !sweepdir.StateOf(from, e).Finished() {
				continue
			}
			if isSibling {
				err = verify(path, e.Hash, opts)
			}
			if err != nil {
				refused = cmp.Or(refused, err)
				continue
			}
			found[e.Hash] = reusedRun{from, path}
			delete(wanted, e.Hash)
		}
		if refused != nil { // one line for each folder
			note("a run is not reused: %v", refused)
		}
	}
	return found
}

// reuseRuns copies the finished runs of other sweeps for runs that have not
// started, and reports each as found. A run that can't be copied is trained.
func (r *scan) reuseRuns() {
	if len(r.opts.StudySweeps)+len(r.opts.Siblings) == 0 {
		return
	}
	reusable := findReusable(r.dir, r.entries(waiting), r.opts, r.note)
	if len(reusable) == 0 {
		return
	}
	unlock, err := claim(r.dir, rundir.KindSweep, nil)
	if err != nil {
		r.note("no run is reused: %v", err)
		return
	}
	defer func() {
		if err := unlock(); err != nil {
			r.note("%v", err)
		}
	}()
	r.removeCopies()
	copied := map[string]int{}
	for _, j := range r.in(waiting) {
		from, ok := reusable[j.entry.Hash]
		if !ok {
			continue
		}
		if err := copyRun(from.path, j.path, r.manifest.Arms[j.entry.Arm].Name, j.entry.Seed); err != nil {
			r.note("%s: its run can't be copied from %s and is trained again: %v", r.name(j), from.sweep, err)
			continue
		}
		if state := sweepdir.StateOf(r.dir, j.entry); state.Finished() {
			copied[from.sweep]++
			r.finish(Found, j, state)
		}
	}
	for _, dir := range slices.Concat(r.opts.StudySweeps, r.opts.Siblings) {
		if n := copied[dir]; n > 0 {
			r.note("%s copied from %s, with the same configuration", textutil.Count(n, "run"), dir)
			delete(copied, dir) // an earlier part of the study is next to this one, too
		}
	}
}

// removeCopies deletes incomplete copies of a killed process. The caller holds
// the sweep's lock.
func (r *scan) removeCopies() {
	runs := filepath.Join(r.dir, sweepdir.RunsDir)
	entries, _ := os.ReadDir(runs) // none before the first run
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), copyPrefix) {
			if err := os.RemoveAll(filepath.Join(runs, e.Name())); err != nil {
				r.note("remove the rest of an earlier copy: %v", err)
			}
		}
	}
}

// copyRun copies a run's folder, first under another name: to is either complete
// or absent. Its metrics.csv names the arm and the seed in this sweep. It is an error when to exists.
func copyRun(from, to, arm string, seed uint64) error {
	temp := filepath.Join(filepath.Dir(to), copyPrefix+filepath.Base(to))
	err := copyFolder(from, temp)
	table := filepath.Join(temp, rundir.TableFile)
	if _, missing := os.Lstat(table); err == nil && missing == nil {
		var run *rundir.Run
		if run, err = rundir.Open(temp); err == nil {
			err = rundir.WriteFileAtomic(table, run.CSV(arm, strconv.FormatUint(seed, 10)))
		}
	}
	if err == nil {
		// This fails if the folder was made in the meantime, because it is not empty.
		err = rundir.Rename(temp, to)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(temp))
	}
	return nil
}

// copyFolder copies files and folders with their times, except the claims and
// temporary files. A link or a device is an error: a run has none.
func copyFolder(from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := to + strings.TrimPrefix(path, from)
		switch {
		case e.Name() == rundir.ClaimsDir:
			return fs.SkipDir
		case e.IsDir():
			return os.MkdirAll(target, 0o755)
		case strings.HasPrefix(e.Name(), "."):
			return nil
		case !e.Type().IsRegular():
			return fmt.Errorf("copy %s: it is neither a file nor a folder", path)
		}
		return copyFile(path, target)
	})
}

func copyFile(from, to string) error {
	in, err := regular.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	// Synced, because the folder's rename must not come before its content; with
	// its time, because grpo status shows when a run was last active.
	return errors.Join(err, out.Sync(), out.Close(), os.Chtimes(to, time.Time{}, info.ModTime()))
}
