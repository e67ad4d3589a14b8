//go:build unix

package faulttest

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

// finished runs the same command in dir and compares the folder with the reference run.
func (l *lab) finished(dir string) error {
	if _, err := l.train(dir).succeed(); err != nil {
		return fmt.Errorf("the same command does not continue: %w", err)
	}
	return l.same(dir)
}

// same compares a finished folder with the reference run.
func (l *lab) same(dir string) error { return sameRun(l.reference, dir) }

// sameRun compares two finished folders bit by bit, except for times.
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
		return errors.New("the reference run has nothing to compare")
	case got.Result == nil:
		return fmt.Errorf("%s: no result", dir)
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

// sameResult ignores the time, and the hashes of files that contain times.
func sameResult(a, b rundir.Result) error {
	a.WallS, b.WallS, a.Files, b.Files = 0, 0, nil, nil
	x, err := rundir.Marshal(a)
	y, err2 := rundir.Marshal(b)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	if !bytes.Equal(x, y) {
		return fmt.Errorf("the results differ: %s and %s", x, y)
	}
	return nil
}

// sameFiles compares the names of all files, so that no partial file remains except
// those of [isReportTemp], and the weights and moments of the checkpoints.
func sameFiles(reference, dir string) error {
	files, err := sameNames(reference, dir)
	if err != nil {
		return err
	}
	for _, name := range files {
		if filepath.Ext(name) != ".safetensors" {
			continue
		}
		a, err := model.ReadCheckpointFile(filepath.Join(reference, name))
		b, err2 := model.ReadCheckpointFile(filepath.Join(dir, name))
		if err := errors.Join(err, err2); err != nil {
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

// sameNames returns the names of all files, which must be the same in both folders.
func sameNames(reference, dir string) ([]string, error) {
	want, err := names(reference)
	got, err2 := names(dir)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	if got = slices.DeleteFunc(got, isReportTemp); !slices.Equal(want, got) {
		return nil, fmt.Errorf("the files differ: %v and %v", want, got)
	}
	return want, nil
}

var tempName = regexp.MustCompile(`^\.(.+)\.\d+-\d+(-[0-9a-f]+)?\.grpo-tmp$`)

// isReportTemp reports whether a file is the temporary file of a figure or a table. A leftover of a
// killed process is not removed: any process can plot a finished run without its lock, so the file
// might still be in use. Nothing reads it.
func isReportTemp(name string) bool {
	m := tempName.FindStringSubmatch(filepath.Base(name))
	return m != nil &&
		(slices.Contains([]string{".png", ".html", ".md", ".tex", ".csv"}, filepath.Ext(m[1])) || m[1] == sweepdir.ResultsJSON)
}

// countHidden counts such files below dir.
func countHidden(dir string) (int, error) {
	files, err := names(dir)
	return len(files) - len(slices.DeleteFunc(files, isReportTemp)), err
}

// names lists the files below dir, without the claims.
func names(dir string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Name() == rundir.ClaimsDir { // each process makes one
			return filepath.SkipDir
		}
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

// leftovers reports whether a killed process left a temporary file or a partial line.
func leftovers(dir string) (bool, error) {
	files, err := names(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	for _, name := range files {
		if strings.HasPrefix(filepath.Base(name), ".") {
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

// clear checks that a process ended with one of these codes and with an error line that contains
// one of wants; a stack trace is not acceptable.
func clear(o outcome, codes []int, wants ...string) error {
	text := strings.TrimSpace(o.stderr)
	last := text[strings.LastIndexByte(text, '\n')+1:]
	switch {
	case !slices.Contains(codes, o.code):
		return fmt.Errorf("want one of the exit codes %v: %s", codes, o)
	case strings.Contains(text, "panic:") || strings.Contains(text, "\ngoroutine ") || strings.Contains(text, "fatal error:"):
		return fmt.Errorf("it crashed: %s", o)
	case !strings.HasPrefix(last, "grpo: "):
		return fmt.Errorf("the last line is not an error of the program: %s", o)
	case !slices.ContainsFunc(wants, func(w string) bool { return strings.Contains(text, w) }):
		return fmt.Errorf("the error has none of %q: %s", wants, o)
	}
	return nil
}

// sameJSON compares the output of two commands, except for the folder's name.
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
