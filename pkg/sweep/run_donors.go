package sweep

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
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

// donations are the runs of the donors by the hash of their configuration. A
// donor that can't be read gives nothing.
func (r *runner) donations() map[string][]donation {
	out := map[string][]donation{}
	for _, dir := range r.opts.Donors {
		m, err := sweepdir.ReadManifest(dir)
		if err != nil {
			r.opts.Observer.Note(fmt.Sprintf("no run is taken over from %s: %v", dir, err))
			continue
		}
		for _, e := range m.Runs {
			if e.Config != "" {
				out[e.Hash] = append(out[e.Hash], donation{dir, e})
			}
		}
	}
	return out
}

// takeOver copies what the donors have of the runs that have not begun, and
// tells each as found. What can't be copied is made as any other run.
func (r *runner) takeOver() {
	if len(r.opts.Donors) == 0 {
		return
	}
	donated := r.donations()
	var wanted []*job
	for _, j := range r.jobs {
		if _, err := os.Lstat(j.path); j.phase == waiting && len(donated[j.entry.Hash]) > 0 && errors.Is(err, fs.ErrNotExist) {
			wanted = append(wanted, j)
		}
	}
	if len(wanted) == 0 {
		return
	}
	unlock, err := claim(r.dir, rundir.KindSweep, nil)
	if err != nil {
		r.opts.Observer.Note(fmt.Sprintf("no run is taken over: %v", err))
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
		for _, d := range donated[j.entry.Hash] {
			if _, err := os.Lstat(filepath.Join(d.entry.Path(d.dir), rundir.ResultFile)); err != nil || !isFinished(sweepdir.StateOf(d.dir, d.entry)) {
				continue
			}
			if err := copyRun(d.entry.Path(d.dir), j.path); err != nil {
				r.opts.Observer.Note(fmt.Sprintf("%s: its run can't be taken over from %s and is made again: %v", r.name(j), d.dir, err))
				break
			}
			if state := sweepdir.StateOf(r.dir, j.entry); isFinished(state) {
				j.phase = finished
				taken[d.dir]++
				r.emit(Event{Kind: Found, State: state}, j)
			}
			break
		}
	}
	for _, dir := range r.opts.Donors {
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
