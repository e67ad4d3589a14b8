package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Run is what a run's folder holds. A file that is not there leaves its field
// nil and its name in Missing: a run that is half finished, or died, still
// gives a report.
type Run struct {
	Dir string

	Config  []byte // config.yaml as it stands
	Meta    *Meta
	Metrics []Metrics
	Evals   []Eval
	Samples []Sample
	Status  *Status
	Result  *Result // nil until the run is done

	// Missing names the files that a finished run has and this one has not, in
	// a fixed order.
	Missing []string
	// Torn lists the files whose last line is incomplete and was left out.
	Torn []*TornError
}

// Finished says whether the run's result is there.
func (r *Run) Finished() bool { return r.Result != nil }

// Open reads the folder of a run. It is an error when dir holds none of a
// run's files, when a file can't be decoded, when the lines of metrics.jsonl
// or eval.jsonl are out of order, or when counts don't add up (the error names
// file and line).
func Open(dir string) (*Run, error) {
	r := &Run{Dir: dir}
	fail := func(err error) (*Run, error) { return nil, fmt.Errorf("open run: %w", err) }

	if info, err := os.Stat(dir); err != nil {
		return fail(err)
	} else if !info.IsDir() {
		return fail(fmt.Errorf("%s: it is a file, not a run's folder", dir))
	}
	config, err := os.ReadFile(filepath.Join(dir, ConfigFile))
	if err := r.note(ConfigFile, err); err != nil {
		return fail(fmt.Errorf("read %w", err))
	}
	r.Config = config

	if r.Meta, err = readOptional[Meta](r, MetaFile); err != nil {
		return fail(err)
	}
	if r.Metrics, err = readLines[Metrics](r, MetricsFile); err != nil {
		return fail(err)
	}
	if r.Evals, err = readLines[Eval](r, EvalFile); err != nil {
		return fail(err)
	}
	if r.Samples, err = readLines[Sample](r, SamplesFile); err != nil {
		return fail(err)
	}
	if r.Status, err = readOptional[Status](r, StatusFile); err != nil {
		return fail(err)
	}
	if r.Result, err = readOptional[Result](r, ResultFile); err != nil {
		return fail(err)
	}
	if len(r.Missing) == runFiles {
		return fail(fmt.Errorf("%s: it holds no run (no %s, %s or %s)", dir, ConfigFile, MetricsFile, ResultFile))
	}
	if err := r.checkOrder(); err != nil {
		return fail(err)
	}
	if err := r.checkCounts(); err != nil {
		return fail(err)
	}
	return r, nil
}

// runFiles is the number of files that Open looks for.
const runFiles = 7

// note keeps the name of a file that does not exist and passes on any other
// error.
func (r *Run) note(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		r.Missing = append(r.Missing, name)
		return nil
	}
	return err
}

func readOptional[T any](r *Run, name string) (*T, error) {
	v := new(T)
	err := ReadJSON(filepath.Join(r.Dir, name), v)
	if err != nil {
		return nil, r.note(name, err)
	}
	return v, nil
}

func readLines[T any](r *Run, name string) ([]T, error) {
	lines, err := ReadLines[T](filepath.Join(r.Dir, name))
	var torn *TornError
	if errors.As(err, &torn) {
		r.Torn = append(r.Torn, torn)
		return lines, nil
	}
	return lines, r.note(name, err)
}
