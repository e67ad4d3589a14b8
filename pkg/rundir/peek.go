package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"grpo/internal/regular"
)

// Peek reads what a list of many runs shows: of a finished run its result; of another run its status
// and the last lines of metrics and evaluations. Unlike [Open] it verifies nothing and reads no more
// than 64 KiB of a log, which takes a hundredth of the time.
func Peek(dir string) (*Run, error) {
	r := &Run{Dir: dir}
	content := map[string][]byte{}
	err := r.load(content, ResultFile, StatusFile)
	if err == nil {
		err = regular.Folder(filepath.Join(dir, CheckpointDir))
	}
	if data, there := content[ResultFile]; err == nil && there {
		r.Result, err = peekResult(data)
	}
	if err == nil && r.Result == nil {
		r.Status, err = decodeOptional[Status](r, content, StatusFile)
	}
	if err == nil && r.Result == nil {
		if r.Metrics, err = lastLines[Metrics](filepath.Join(dir, MetricsFile)); err == nil {
			r.Evals, err = lastLines[Eval](filepath.Join(dir, EvalFile))
		}
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("open run: %w", err)
	case !HasFiles(dir):
		return nil, fmt.Errorf("open run: %s: %w", dir, ErrNotRun)
	}
	return r, nil
}

// peekResult decodes result.json without its checksum.
func peekResult(data []byte) (*Result, error) {
	var some plainResult
	if err := json.Unmarshal(data, &some); err != nil {
		return nil, fmt.Errorf("read %s: %w", ResultFile, err)
	}
	return (*Result)(&some), nil
}

// lastLines decodes the complete lines in the last 64 KiB of a log, which may be missing.
func lastLines[T any](path string) ([]T, error) {
	data, from, err := regular.Tail(path, 0, 64<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if from > 0 { // the first line is cut
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	lines := bytes.SplitAfter(data, []byte("\n")) // the last one is partial or empty
	const most = 8                                // two lines of metrics, or a step's evaluations: more cost time
	return decodeLines[T](path, bytes.Join(lines[max(0, len(lines)-1-most):], nil))
}
