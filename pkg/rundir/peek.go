package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"grpo/internal/regular"
)

// Peek reads what a list of many runs shows: of a finished run Status, Steps and the final
// validation answer reward of its result; of another run its status and the last lines of metrics
// and evaluations. Unlike [Open] it verifies nothing and reads no more than 64 KiB of a log, which
// takes a hundredth of the time.
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
		return nil, fmt.Errorf("open run: %s: not a run folder", dir)
	}
	return r, nil
}

// peekResult decodes some fields of result.json.
func peekResult(data []byte) (*Result, error) {
	var some struct {
		Status string `json:"status"`
		Steps  int    `json:"steps"`
		Final  struct {
			Sampled struct {
				AnswerReward float64 `json:"answer_reward"`
			} `json:"sampled"`
		} `json:"final"`
	}
	if err := json.Unmarshal(data, &some); err != nil {
		return nil, fmt.Errorf("read %s: %w", ResultFile, err)
	}
	out := &Result{Status: some.Status, Steps: some.Steps}
	out.Final.Sampled.AnswerReward = some.Final.Sampled.AnswerReward
	return out, nil
}

// lastLines decodes the complete lines in the last 64 KiB of a log, which may be missing.
func lastLines[T any](path string) ([]T, error) {
	const limit = 64 << 10
	f, err := regular.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	from := max(0, info.Size()-limit)
	data, err := io.ReadAll(io.NewSectionReader(f, from, limit))
	if err != nil {
		return nil, err
	}
	if from > 0 { // the first line is cut
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	if end := bytes.LastIndexByte(data, '\n'); end >= 0 {
		// Two lines of metrics and a step's evaluations; earlier ones cost time.
		data = data[:end+1]
		for n, at := 0, end; n < 8; n++ {
			if at = bytes.LastIndexByte(data[:at], '\n'); at < 0 {
				break
			} else if n == 7 {
				data = data[at+1:]
			}
		}
	} else {
		data = nil
	}
	return decodeLines[T](path, data)
}
