package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"grpo/internal/regular"
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
// or eval.jsonl are out of order, when counts don't add up, or when a file is
// not what the result, or the last checkpoint of an unfinished run, has sealed
// (the error names the file, and the line where it can be told).
func Open(dir string) (*Run, error) {
	for attempt := 0; ; attempt++ {
		r, seen, err := readRun(dir)
		if err == nil {
			return r, nil
		}
		// A run that is under way writes its next checkpoint while this reads.
		var damaged *DamagedError
		if now := readSeals(dir); errors.As(err, &damaged) && attempt < 3 && (now.result != seen.result || now.seal != seen.seal) {
			continue
		}
		return nil, fmt.Errorf("open run: %w", err)
	}
}

// seals are the two files that vouch for others, as they stand.
type seals struct {
	result, seal string
	err          error // why seal.json can't be read
}

func readSeals(dir string) seals {
	// An error of result.json shows where the run is read.
	result, _ := regular.Read(filepath.Join(dir, ResultFile), regular.MaxDocument)
	err := regular.Folder(filepath.Join(dir, CheckpointDir))
	if err != nil {
		return seals{result: string(result), err: err}
	}
	seal, err := regular.Read(filepath.Join(dir, CheckpointDir, SealFile), regular.MaxDocument)
	return seals{string(result), string(seal), err}
}

func readRun(dir string) (*Run, seals, error) {
	r := &Run{Dir: dir}
	// The seal comes first: what it vouches for was on the disk before it.
	seen := readSeals(dir)
	fail := func(err error) (*Run, seals, error) { return nil, seen, err }
	info, err := os.Stat(dir)
	var at *fs.PathError
	switch {
	case errors.As(err, &at): // the path and why, without the name of the system's call
		return fail(fmt.Errorf("%s: %w", at.Path, at.Err))
	case err != nil:
		return fail(err)
	case !info.IsDir():
		return fail(fmt.Errorf("%s: it is a file, not a run's folder", dir))
	}
	content, err := r.load()
	if err != nil {
		return fail(err)
	}
	if len(r.Missing) == len(runFiles) {
		return fail(fmt.Errorf("%s: it holds no run (no %s, %s or %s)", dir, ConfigFile, MetricsFile, ResultFile))
	}
	r.Config = content[ConfigFile]
	if r.Meta, err = decodeOptional[Meta](r, content, MetaFile); err != nil {
		return fail(err)
	}
	if r.Metrics, err = decodeLog[Metrics](r, content, MetricsFile); err != nil {
		return fail(err)
	}
	if r.Evals, err = decodeLog[Eval](r, content, EvalFile); err != nil {
		return fail(err)
	}
	if r.Samples, err = decodeLog[Sample](r, content, SamplesFile); err != nil {
		return fail(err)
	}
	if r.Status, err = decodeOptional[Status](r, content, StatusFile); err != nil {
		return fail(err)
	}
	if r.Result, err = decodeOptional[Result](r, content, ResultFile); err != nil {
		return fail(err)
	}
	if err := r.checkOrder(); err != nil {
		return fail(err)
	}
	var seal *Seal
	if r.Result == nil && !errors.Is(seen.err, fs.ErrNotExist) {
		if seen.err != nil {
			return fail(fmt.Errorf("read %w", seen.err))
		}
		seal = new(Seal)
		if err := Unmarshal([]byte(seen.seal), seal); err != nil {
			return fail(fmt.Errorf("read %s: %w (continuing the run writes it anew)", filepath.Join(dir, CheckpointDir, SealFile), err))
		}
	}
	if err := r.checkSeals(seal, content); err != nil {
		return fail(err)
	}
	if err := r.checkCounts(); err != nil {
		return fail(err)
	}
	return r, seen, nil
}

// runFiles are the files that Open looks for, in the order of [Run.Missing].
var runFiles = []string{ConfigFile, MetaFile, MetricsFile, EvalFile, SamplesFile, StatusFile, ResultFile}

// load reads the files that are there, by name, and keeps the names of the
// others.
func (r *Run) load() (map[string][]byte, error) {
	content := map[string][]byte{}
	for _, name := range runFiles {
		limit := int64(regular.MaxDocument)
		if isLog(name) {
			limit = regular.MaxLog
		}
		data, err := regular.Read(filepath.Join(r.Dir, name), limit)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			r.Missing = append(r.Missing, name)
		case err != nil:
			return nil, fmt.Errorf("read %w", err)
		default:
			content[name] = data
		}
	}
	return content, nil
}

func decodeOptional[T any](r *Run, content map[string][]byte, name string) (*T, error) {
	data, there := content[name]
	if !there {
		return nil, nil
	}
	v := new(T)
	if err := Unmarshal(data, v); err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(r.Dir, name), err)
	}
	return v, nil
}

func decodeLog[T any](r *Run, content map[string][]byte, name string) ([]T, error) {
	lines, err := decodeLines[T](filepath.Join(r.Dir, name), content[name])
	var torn *TornError
	if errors.As(err, &torn) {
		r.Torn = append(r.Torn, torn)
		return lines, nil
	}
	return lines, err
}
