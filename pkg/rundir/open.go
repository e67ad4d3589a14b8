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

	Config  []byte // content of config.yaml
	Meta    *Meta
	Metrics []Metrics
	Evals   []Eval
	Samples []Sample
	Status  *Status
	Result  *Result // nil until the run is done

	// Missing names the files that a finished run has and this one has not, in
	// a fixed order.
	Missing []string
	// Partial lists the files whose last line is incomplete and was left out.
	Partial []*PartialLineError
}

// Finished says whether the run's result is there.
func (r *Run) Finished() bool { return r.Result != nil }

// Open reads the folder of a run. It is an error when dir holds none of a
// run's files, when a file can't be decoded, when the lines of metrics.jsonl
// or eval.jsonl are out of order, when counts don't add up, or when a file does
// not match its checksum in the result or, in an unfinished run, in the last
// checkpoint (the error names the file and, if known, the line).
func Open(dir string) (*Run, error) {
	for attempt := 0; ; attempt++ {
		r, seen, err := readRun(dir)
		if err == nil {
			return r, nil
		}
		// A running process may write its next checkpoint while this reads.
		var damaged *DamagedError
		if now := readChecksums(dir); errors.As(err, &damaged) && attempt < 3 && (now.result != seen.result || now.saved != seen.saved) {
			continue
		}
		return nil, fmt.Errorf("open run: %w", err)
	}
}

// checksumFiles is the content of the two files that hold checksums of others.
type checksumFiles struct {
	result, saved string
	err           error // why seal.json can't be read
}

func readChecksums(dir string) checksumFiles {
	// An error of result.json shows where the run is read.
	result, _ := regular.Read(filepath.Join(dir, ResultFile), regular.MaxDocument)
	err := regular.Folder(filepath.Join(dir, CheckpointDir))
	if err != nil {
		return checksumFiles{result: string(result), err: err}
	}
	saved, err := regular.Read(filepath.Join(dir, CheckpointDir, ChecksumsFile), regular.MaxDocument)
	return checksumFiles{string(result), string(saved), err}
}

func readRun(dir string) (*Run, checksumFiles, error) {
	r := &Run{Dir: dir}
	// The checksums come first: the files they describe were on the disk before them.
	seen := readChecksums(dir)
	fail := func(err error) (*Run, checksumFiles, error) { return nil, seen, err }
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
	var saved *Checksums
	if r.Result == nil && !errors.Is(seen.err, fs.ErrNotExist) {
		if seen.err != nil {
			return fail(fmt.Errorf("read %w", seen.err))
		}
		saved = new(Checksums)
		if err := Unmarshal([]byte(seen.saved), saved); err != nil {
			return fail(fmt.Errorf("read %s: %w (continuing the run writes it again)", filepath.Join(dir, CheckpointDir, ChecksumsFile), err))
		}
	}
	if err := r.verifyFiles(saved, content); err != nil {
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
	var partial *PartialLineError
	if errors.As(err, &partial) {
		r.Partial = append(r.Partial, partial)
		return lines, nil
	}
	return lines, err
}
