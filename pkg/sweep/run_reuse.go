package sweep

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"grpo/internal/regular"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// A run is a function of its configuration, so one that another sweep has made
// already need not be made again: its folder is copied. The copy keeps what the
// run was made as (the label in config.yaml and result.json, command and times
// in meta.json); its place in this sweep is the manifest's affair.

// copyPrefix begins the name of a copy that is not complete. The dot and the
// missing hash keep it apart from every run's folder.
const copyPrefix = ".copy-"

// donation is a run of another sweep.
type donation struct {
	dir   string // of that sweep
	entry sweepdir.Entry
}

// findDonations finds, by index, finished runs of other sweeps with the same
// configurations as the entries. Donors belong to the same study; the runs of
// siblings, to which anything may have happened, are verified.
func findDonations(entries []sweepdir.Entry, opts Options) map[int]donation {
	wanted, contained := map[string]bool{}, map[string]bool{}
	for _, e := range entries {
		wanted[e.Hash] = true
		contained[e.Hash] = len(opts.Siblings) > 0 && selfContained(e)
	}
	found := map[string]donation{} // by hash
	for i, dir := range slices.Concat(opts.Donors, opts.Siblings) {
		m, err := sweepdir.ReadManifest(dir)
		if err != nil {
			opts.Observer.Note(fmt.Sprintf("no run is reused from %s: %v", dir, err))
			continue
		}
		refused := false
		for _, e := range m.Runs {
			if _, done := found[e.Hash]; done || e.Config == "" || !wanted[e.Hash] {
				continue
			}
			// Without a result, to ask for the state could touch the run's lock.
			path := e.Path(dir)
			if _, err := os.Stat(filepath.Join(path, rundir.ResultFile)); err != nil || !isFinished(sweepdir.StateOf(dir, e)) {
				continue
			}
			if i >= len(opts.Donors) {
				if !contained[e.Hash] || !ownFolder(path) {
					continue
				}
				if err := verify(path, e.Hash, opts.Version); err != nil {
					if !refused { // one line for each folder
						opts.Observer.Note(fmt.Sprintf("a run is not reused: %v", err))
					}
					refused = true
					continue
				}
			}
			found[e.Hash] = donation{dir, e}
		}
	}
	out := map[int]donation{}
	for _, e := range entries {
		if d, ok := found[e.Hash]; ok {
			out[e.Index] = d
		}
	}
	return out
}

// takeOver copies what other sweeps have of the runs that have not begun, and
// reports each as found. What can't be copied is made like any other run.
func (r *runner) takeOver() {
	if len(r.opts.Donors)+len(r.opts.Siblings) == 0 {
		return
	}
	var wanted []*job
	var entries []sweepdir.Entry
	for _, j := range r.jobs {
		if _, err := os.Lstat(j.path); j.phase == waiting && errors.Is(err, fs.ErrNotExist) {
			wanted, entries = append(wanted, j), append(entries, j.entry)
		}
	}
	donated := findDonations(entries, r.opts)
	if len(donated) == 0 {
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
	taken := map[string]int{}
	for _, j := range wanted {
		d, ok := donated[j.entry.Index]
		if !ok {
			continue
		}
		if err := copyRun(d.entry.Path(d.dir), j.path); err != nil {
			r.opts.Observer.Note(fmt.Sprintf("%s: its run can't be copied from %s and is made again: %v", r.name(j), d.dir, err))
			continue
		}
		if state := sweepdir.StateOf(r.dir, j.entry); isFinished(state) {
			j.phase = finished
			taken[d.dir]++
			r.emit(Event{Kind: Found, State: state}, j)
		}
	}
	for _, dir := range slices.Concat(r.opts.Donors, r.opts.Siblings) {
		if n := taken[dir]; n > 0 {
			r.opts.Observer.Note(fmt.Sprintf("%s copied from %s, which has the very same", plural(n, "run"), dir))
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
		// A folder that came in the meantime is not empty, so that this fails.
		err = os.Rename(temp, to)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(temp))
	}
	return nil
}

// copyFolder copies files and folders with their times, lock and temporary
// files apart. A link or a device is nothing that a run has.
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
		err = os.Chtimes(to, time.Time{}, info.ModTime()) // grpo status tells when a run last gave a sign
	}
	return err
}
