//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"grpo/pkg/model"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// finished gives the command once more in dir, or as often as it takes when it
// was interrupted, and compares the folder with the undisturbed run.
func (l *lab) finished(dir string) error {
	o, err := l.train(dir).wait()
	if err != nil {
		return err
	}
	if o.code != 0 {
		return fmt.Errorf("the same command does not continue: %s", o)
	}
	return l.same(dir)
}

// same compares a finished folder with the undisturbed run.
func (l *lab) same(dir string) error { return sameRun(l.reference, dir) }

// sameRun compares two finished folders, bit by bit, times apart.
func sameRun(reference, dir string) error {
	want, err := rundir.Open(reference)
	if err != nil {
		return err
	}
	got, err := rundir.Open(dir)
	if err != nil {
		return err
	}
	switch {
	case len(want.Metrics) == 0 || len(want.Evals) == 0 || len(want.Samples) == 0 || want.Result == nil:
		return errors.New("the undisturbed run has nothing to compare with")
	case got.Result == nil:
		return fmt.Errorf("%s: there is no result", dir)
	case !bytes.Equal(want.Config, got.Config):
		return fmt.Errorf("%s: the configuration differs", dir)
	}
	err = errors.Join(rundir.CompareMetrics(want.Metrics, got.Metrics), rundir.CompareEvals(want.Evals, got.Evals),
		rundir.CompareSamples(want.Samples, got.Samples), sameResult(*want.Result, *got.Result), sameFiles(reference, dir))
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}

// sameResult leaves out the time, and the hashes of files in which times stand.
func sameResult(a, b rundir.Result) error {
	a.WallS, b.WallS = 0, 0
	a.Files, b.Files = nil, nil
	x, err := rundir.Marshal(a)
	if err != nil {
		return err
	}
	y, err := rundir.Marshal(b)
	if err != nil {
		return err
	}
	if !bytes.Equal(x, y) {
		return fmt.Errorf("the results differ: %s and %s", x, y)
	}
	return nil
}

// sameFiles compares the names of all files, so that nothing half-written is
// left but what [ofReport] allows, and the weights and moments of the checkpoints.
func sameFiles(reference, dir string) error {
	want, err := names(reference)
	if err != nil {
		return err
	}
	got, err := names(dir)
	if err != nil {
		return err
	}
	if got = slices.DeleteFunc(got, ofReport); !slices.Equal(want, got) {
		return fmt.Errorf("the files differ: %v and %v", want, got)
	}
	for _, name := range want {
		if filepath.Ext(name) != ".safetensors" {
			continue
		}
		a, err := model.ReadCheckpointFile(filepath.Join(reference, name))
		if err != nil {
			return err
		}
		b, err := model.ReadCheckpointFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		for _, p := range []struct {
			what string
			a, b *model.Params
		}{{"weights", a.Params, b.Params}, {"first moments", a.M, b.M}, {"second moments", a.V, b.V}} {
			if (p.a == nil) != (p.b == nil) || p.a != nil && p.a.Hash() != p.b.Hash() {
				return fmt.Errorf("%s: the %s differ", name, p.what)
			}
		}
	}
	return nil
}

var tempName = regexp.MustCompile(`^\.(.+)\.\d+-\d+\.grpo-tmp$`)

// ofReport says whether a file is what a process was writing when it was killed,
// and that of a figure or a table. Such a file stays: a finished run is shown,
// and drawn again, by anybody at any time and without its lock, so nobody can tell
// a leftover from a file that another process is writing. Nothing reads it.
func ofReport(name string) bool {
	m := tempName.FindStringSubmatch(filepath.Base(name))
	return m != nil && (slices.Contains([]string{".png", ".html", ".md", ".csv"}, filepath.Ext(m[1])) || m[1] == sweepdir.ResultsJSON)
}

// hidden counts such files below dir.
func hidden(dir string) (int, error) {
	files, err := names(dir)
	return len(files) - len(slices.DeleteFunc(files, ofReport)), err
}

// names lists the files below dir.
func names(dir string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		out = append(out, name)
		return err
	})
	slices.Sort(out)
	return out, err
}

// leftovers says whether a killed process left a file that it was writing, or a
// line of which only a part is there.
func leftovers(dir string) (bool, error) {
	files, err := names(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	for _, name := range files {
		if strings.HasPrefix(filepath.Base(name), ".") && filepath.Base(name) != rundir.LockFile {
			return true, err
		}
		if filepath.Ext(name) == ".jsonl" {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || len(data) > 0 && data[len(data)-1] != '\n' {
				return true, err
			}
		}
	}
	return false, err
}

// clear checks that a process ended with one of these codes and one line of its
// own that says one of wants; the trace of a crash is not clear.
func clear(o outcome, codes []int, wants ...string) error {
	text := strings.TrimSpace(o.stderr)
	last := text[strings.LastIndexByte(text, '\n')+1:]
	switch {
	case !slices.Contains(codes, o.code):
		return fmt.Errorf("want one of the exit codes %v: %s", codes, o)
	case strings.Contains(text, "panic:") || strings.Contains(text, "\ngoroutine ") || strings.Contains(text, "fatal error:"):
		return fmt.Errorf("it crashed: %s", o)
	case !strings.HasPrefix(last, "grpo: "):
		return fmt.Errorf("the last line is not the program's: %s", o)
	case len(wants) > 0 && !slices.ContainsFunc(wants, func(w string) bool { return strings.Contains(text, w) }):
		return fmt.Errorf("the error says none of %q: %s", wants, o)
	}
	return nil
}

// copyTree copies the regular files of a folder.
func copyTree(from, to string) error { return os.CopyFS(to, os.DirFS(from)) }

// sameJSON compares what two commands printed, apart from the folder's name.
func sameJSON(a, b string, dirs ...string) error {
	for _, d := range dirs {
		a, b = strings.ReplaceAll(a, d, "DIR"), strings.ReplaceAll(b, d, "DIR")
	}
	var x, y any
	if err := errors.Join(rundir.Unmarshal([]byte(a), &x), rundir.Unmarshal([]byte(b), &y)); err != nil {
		return err
	}
	if !reflect.DeepEqual(x, y) {
		return fmt.Errorf("it shows another result: %s", b)
	}
	return nil
}
