package sweep

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"grpo/internal/regular"
	"grpo/internal/textutil"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// A run is a function of its configuration, so a run that another sweep has
// finished need not be made again: its folder is copied. The copy keeps its label
// in config.yaml and result.json, and its command and times in meta.json; what it
// is in this sweep is in the manifest.

// copyPrefix begins the name of a copy that is not complete. The dot and the
// missing hash distinguish it from every run's folder.
const copyPrefix = ".copy-"

// reusedRun is a finished run of another sweep.
type reusedRun struct {
	sweep string // that sweep's folder
	path  string // the run's folder
}

// findReusable finds, by hash, finished runs of other sweeps with the same
// configurations as the entries. Those of siblings are verified, since anything
// may have happened to them.
func findReusable(entries []sweepdir.Entry, opts Options) map[string]reusedRun {
	wanted, found := map[string]sweepdir.Entry{}, map[string]reusedRun{}
	for _, e := range entries {
		wanted[e.Hash] = e
	}
	search := func(dir string, verify func(path, hash string) error) {
		m, err := sweepdir.ReadManifest(dir)
		if err != nil {
			opts.Observer.Note(fmt.Sprintf("no run is reused from %s: %v", dir, err))
			return
		}
		refused := false
		for _, e := range m.Runs {
			_, want := wanted[e.Hash]
			if _, done := found[e.Hash]; done || e.Config == "" || !want {
				continue
			}
			// Without a result, to ask for the state could touch the run's lock.
			path := e.Path(dir)
			if _, err := os.Stat(filepath.Join(path, rundir.ResultFile)); err != nil || !isFinished(sweepdir.StateOf(dir, e)) {
				continue
			}
			if err := verify(path, e.Hash); err != nil {
				if !refused { // one line for each folder
					opts.Observer.Note(fmt.Sprintf("a run is not reused: %v", err))
				}
				refused = true
				continue
			}
			found[e.Hash] = reusedRun{dir, path}
		}
	}
	for _, dir := range opts.StudySweeps {
		search(dir, func(string, string) error { return nil })
	}
	if len(opts.Siblings) > 0 {
		maps.DeleteFunc(wanted, func(_ string, e sweepdir.Entry) bool { return !selfContained(e) })
	}
	for _, dir := range opts.Siblings {
		search(dir, func(path, hash string) error { return verify(path, hash, opts.Version) })
	}
	return found
}

// reuseRuns copies what other sweeps have of the runs that have not begun, and
// reports each as found. A run that can't be copied is made like any other.
func (r *runner) reuseRuns() {
	if len(r.opts.StudySweeps)+len(r.opts.Siblings) == 0 {
		return
	}
	var wanted []*job
	var entries []sweepdir.Entry
	for _, j := range r.jobs {
		if _, err := os.Lstat(j.path); j.phase == waiting && errors.Is(err, fs.ErrNotExist) {
			wanted, entries = append(wanted, j), append(entries, j.entry)
		}
	}
	reusable := findReusable(entries, r.opts)
	if len(reusable) == 0 {
		return
	}
	unlock, err := claim(r.dir, rundir.KindSweep, nil)
	if err != nil {
		r.opts.Observer.Note(fmt.Sprintf("no run is reused: %v", err))
		return
	}
	defer func() {
		if err := unlock(); err != nil {
			r.opts.Observer.Note(err.Error())
		}
	}()
	if err := removeCopies(filepath.Join(r.dir, sweepdir.RunsDir)); err != nil {
		r.opts.Observer.Note(fmt.Sprintf("remove the rest of an earlier copy: %v", err))
	}
	copied := map[string]int{}
	for _, j := range wanted {
		from, ok := reusable[j.entry.Hash]
		if !ok {
			continue
		}
		if err := copyRun(from.path, j.path); err != nil {
			r.opts.Observer.Note(fmt.Sprintf("%s: its run can't be copied from %s and is made again: %v", r.name(j), from.sweep, err))
			continue
		}
		if state := sweepdir.StateOf(r.dir, j.entry); isFinished(state) {
			j.phase = finished
			copied[from.sweep]++
			r.emit(Event{Kind: Found, State: state}, j)
		}
	}
	for _, dir := range slices.Concat(r.opts.StudySweeps, r.opts.Siblings) {
		if n := copied[dir]; n > 0 {
			r.opts.Observer.Note(fmt.Sprintf("%s copied from %s, with the same configuration", textutil.Count(n, "run"), dir))
		}
	}
}

// removeCopies deletes what a killed process left half-copied. The caller holds
// the sweep's lock.
func removeCopies(runs string) error {
	entries, err := os.ReadDir(runs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), copyPrefix) {
			if err := os.RemoveAll(filepath.Join(runs, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyRun copies a run's folder so that to is either all of it or not there:
// under another name first. It is an error when to is there.
func copyRun(from, to string) error {
	temp := filepath.Join(filepath.Dir(to), copyPrefix+filepath.Base(to))
	err := copyFolder(from, temp)
	if err == nil {
		// This fails if the folder was made in the meantime, because it is not empty.
		err = os.Rename(temp, to)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(temp))
	}
	return nil
}

// copyFolder copies files and folders with their times, except the lock and
// temporary files. A link or a device is an error: a run has none.
func copyFolder(from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, below)
		switch {
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
	if _, err = io.Copy(out, in); err == nil {
		err = out.Sync() // the folder's rename must not come before its content
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Chtimes(to, time.Time{}, info.ModTime()) // grpo status shows when a run was last active
	}
	return err
}
