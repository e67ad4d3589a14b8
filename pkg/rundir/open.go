package rundir

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"grpo/internal/regular"
)

// Run is the content of a run's folder. For a missing file, the field is nil and Missing has its
// name, so an unfinished run can be reported too.
type Run struct {
	Dir string

	Config  []byte // content of config.yaml
	Meta    *Meta
	Metrics []Metrics
	Evals   []Eval
	Samples []Sample
	Status  *Status
	Result  *Result // nil until the run is done

	// Missing names the files that a finished run would have, in a fixed order.
	Missing []string
	// Partial lists the files whose incomplete last line was left out.
	Partial []PartialLine
}

// ErrNotRun is wrapped by the errors about a path that is not the folder of a run.
var ErrNotRun = errors.New("not a run folder")

// Finished reports whether the run has a result.
func (r *Run) Finished() bool { return r.Result != nil }

// Open reads the folder of a run. Errors: dir has no file of a run, a file can't be decoded, lines
// of metrics.jsonl or eval.jsonl are out of order, counts don't add up, or a file does not match
// its checksum in the result or (unfinished run) in the last checkpoint. The error names the file
// and, if known, the line.
func Open(dir string) (*Run, error) {
	for attempt := 0; ; attempt++ {
		r, err := readRun(dir)
		if err == nil {
			return r, nil
		}
		// A process that continues the run may cut its logs during the read.
		var damaged *DamagedError
		if held, _ := Held(dir); held && errors.As(err, &damaged) && attempt < 3 {
			continue
		}
		return nil, fmt.Errorf("open run: %w", err)
	}
}

// runFiles are the files of a finished run in the order of [Run.Missing].
var runFiles = []string{ConfigFile, MetaFile, MetricsFile, EvalFile, SamplesFile, StatusFile, ResultFile}

// HasFiles reports whether the folder has any file of a run.
func HasFiles(dir string) bool {
	return slices.ContainsFunc(runFiles, func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	})
}

// runsIn says which folders in dir are runs, as advice; empty if none is.
func runsIn(dir string) string {
	entries, _ := os.ReadDir(dir)
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		return !e.IsDir() || !HasFiles(filepath.Join(dir, e.Name()))
	})
	switch len(entries) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("; its folder %s is one", entries[0].Name())
	}
	return fmt.Sprintf("; its folders %s and %d more are: name these", entries[0].Name(), len(entries)-1)
}

func readRun(dir string) (*Run, error) {
	info, err := os.Stat(dir)
	var at *fs.PathError
	switch {
	case errors.As(err, &at): // drops the name of the system call
		return nil, fmt.Errorf("%s: %w", at.Path, at.Err)
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, fmt.Errorf("%s: it is a file, %w", dir, ErrNotRun)
	}
	r := &Run{Dir: dir}
	content := map[string][]byte{}
	// Read the files with checksums of others first: the logs only grow, and still match if a
	// process appends to them during the read.
	if err := r.load(content, ResultFile); err != nil {
		return nil, err
	}
	saved, savedErr := readChecksums(dir)
	if err := r.load(content, runFiles[:len(runFiles)-1]...); err != nil {
		return nil, err
	}
	for _, name := range runFiles {
		if _, there := content[name]; !there {
			r.Missing = append(r.Missing, name)
		}
	}
	if len(r.Missing) == len(runFiles) {
		return nil, fmt.Errorf("%s: %w (no %s, %s or %s%s)", dir, ErrNotRun, ConfigFile, MetricsFile, ResultFile,
			runsIn(dir))
	}
	if err := r.decode(content); err != nil {
		return nil, err
	}
	if err := r.checkOrder(); err != nil {
		return nil, err
	}
	if r.Result == nil && savedErr != nil {
		return nil, savedErr
	}
	if err := r.verifyFiles(saved, content); err != nil {
		return nil, err
	}
	return r, r.checkCounts()
}

// load reads the files that exist.
func (r *Run) load(content map[string][]byte, names ...string) error {
	for _, name := range names {
		limit := int64(regular.MaxDocument)
		if isLog(name) {
			limit = regular.MaxLog
		}
		data, err := regular.Read(filepath.Join(r.Dir, name), limit)
		if err == nil {
			content[name] = data
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// readChecksums reads the checksums of an unfinished run, nil if there are none.
func readChecksums(dir string) (*Checksums, error) {
	if err := regular.Folder(filepath.Join(dir, CheckpointDir)); err != nil {
		return nil, err
	}
	saved := new(Checksums)
	err := ReadJSON(filepath.Join(dir, CheckpointDir, ChecksumsFile), saved)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%w (continuing the run writes it again)", err)
	}
	return saved, nil
}

func (r *Run) decode(content map[string][]byte) (err error) {
	r.Config = content[ConfigFile]
	if r.Meta, err = decodeOptional[Meta](r, content, MetaFile); err != nil {
		return err
	}
	if r.Metrics, err = decodeLog[Metrics](r, content, MetricsFile); err != nil {
		return err
	}
	if r.Evals, err = decodeLog[Eval](r, content, EvalFile); err != nil {
		return err
	}
	if r.Samples, err = decodeLog[Sample](r, content, SamplesFile); err != nil {
		return err
	}
	if r.Status, err = decodeOptional[Status](r, content, StatusFile); err != nil {
		return err
	}
	r.Result, err = decodeOptional[Result](r, content, ResultFile)
	return err
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
	path, data := filepath.Join(r.Dir, name), content[name]
	lines, err := decodeLines[T](path, data)
	if err == nil && len(data) > 0 && data[len(data)-1] != '\n' {
		r.Partial = append(r.Partial, PartialLine{path, len(lines) + 1})
	}
	return lines, err
}

// PartialLine is the last line of a JSONL file, without its newline: the writer died or is still
// writing.
type PartialLine struct {
	Path string
	Line int // from 1
}

// decodeLines decodes the content of the JSONL file at path, strictly, without a partial last line.
// After an error of [Unmarshal] or a blank line it returns no lines, and the error names the file
// and the line.
func decodeLines[T any](path string, data []byte) ([]T, error) {
	var lines []T
	for line := range bytes.Lines(data) {
		line, whole := bytes.CutSuffix(line, []byte("\n"))
		if !whole {
			break
		}
		var v T
		err := Unmarshal(line, &v)
		if len(bytes.TrimSpace(line)) == 0 {
			err = errors.New("it is blank")
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: line %d: %w", path, len(lines)+1, err)
		}
		lines = append(lines, v)
	}
	return lines, nil
}

// SavedStep is the step of the newest checkpoint of the unfinished run in dir; 0 without one.
func SavedStep(dir string) int {
	var s Checksums
	if ReadJSON(filepath.Join(dir, CheckpointDir, ChecksumsFile), &s) != nil {
		return 0 // nothing can be continued
	}
	return s.Step
}

// Reached says how far an unfinished run came.
func (r *Run) Reached() string {
	step, steps := 0, ""
	if r.Status != nil {
		step, steps = r.Status.Step, fmt.Sprintf(" of %d", r.Status.Steps)
	}
	if n := len(r.Metrics); n > 0 {
		step = max(step, r.Metrics[n-1].Step)
	}
	return fmt.Sprintf("it reached step %d%s; its last checkpoint is after step %d", step, steps, SavedStep(r.Dir))
}

// Gone describes the end of a run whose process ended without a result or an error in its status.
func (r *Run) Gone() string {
	if r.Status == nil {
		return ""
	}
	how := "it was killed, or crashed"
	if r.restarted() {
		how = "its machine was started again"
	}
	return fmt.Sprintf("its process %d no longer exists (last seen %s) and left no message: %s; %s",
		r.Status.PID, r.Status.Updated, how, r.Reached())
}

// restarted reports whether the machine of the last process was started again since.
func (r *Run) restarted() bool {
	owners, _ := Owners(r.Dir)
	n := len(owners)
	return n > 0 && owners[n-1].place().Ended(self().place())
}

// MayLackMemory reports whether the end of the run's process may have been for lack of memory: nothing
// else is known to have ended it.
func (r *Run) MayLackMemory() bool {
	return r.Status != nil && r.Status.State == StateRunning && !r.restarted()
}
