package rundir

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"grpo/internal/regular"
)

// SealFile stands in [CheckpointDir] and seals a run that is not finished; the
// [Result] seals one that is.
const SealFile = "seal.json"

// Seal says what the files of an unfinished run held when its newest checkpoint
// was written: the whole of config.yaml, and of the JSONL files so many of their
// first bytes. Lines behind that are not sealed; a run that is continued makes
// them again.
type Seal struct {
	Step  int               `json:"step"` // of the checkpoint
	Files map[string]Prefix `json:"files"`
}

// Prefix is the beginning of a file.
type Prefix struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // of these bytes, in hex
}

// PrefixOf describes all of data.
func PrefixOf(data []byte) Prefix {
	sum := sha256.Sum256(data)
	return Prefix{Bytes: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
}

// DamagedError reports a file of a run's folder whose content is not what the
// run wrote.
type DamagedError struct {
	Path    string
	Problem string
}

// Error implements error.
func (e *DamagedError) Error() string { return e.Path + ": " + e.Problem }

// Holds returns nil when the first bytes of the file at path are those that p
// describes; a file that is missing has none. When they are not, the error is a
// [*DamagedError], which names the first line that can't be read, where there
// is one.
func (p Prefix) Holds(path string) error {
	data, err := regular.Read(path, regular.MaxLog)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read %w", explain(err))
	}
	return p.holds(path, data, "its last checkpoint")
}

// holds checks the content of a file against what sealed it.
func (p Prefix) holds(path string, data []byte, sealedBy string) error {
	if int64(len(data)) < p.Bytes {
		return &DamagedError{path, fmt.Sprintf("it has %d bytes, %s counts on %d: the end is lost", len(data), sealedBy, p.Bytes)}
	}
	if p.Bytes < 0 || PrefixOf(data[:p.Bytes]) != p {
		return &DamagedError{path, fmt.Sprintf("%s is not what it was under %s: the file was damaged or changed",
			suspectLine(path, data[:max(0, p.Bytes)]), sealedBy)}
	}
	return nil
}

// suspectLine says where in a damaged file the damage must be.
func suspectLine(path string, data []byte) string {
	lines := strings.Count(string(data), "\n")
	if !isLog(path) {
		return "its content"
	}
	if n := firstBadLine(filepath.Base(path), data); n > 0 {
		return fmt.Sprintf("line %d", n)
	}
	return fmt.Sprintf("a figure or a text in lines 1 to %d", lines)
}

func isLog(path string) bool { return filepath.Ext(path) == ".jsonl" }

// firstBadLine finds the first line that is none of its file, or 0.
func firstBadLine(name string, data []byte) int {
	for i, line := range strings.SplitAfter(string(data), "\n") {
		var err error
		switch name {
		case MetricsFile:
			var m Metrics
			if err = Unmarshal([]byte(line), &m); err == nil && m.Step != i+1 {
				return i + 1
			}
		case EvalFile:
			var e Eval
			if err = Unmarshal([]byte(line), &e); err == nil {
				err = e.Check()
			}
		case SamplesFile:
			err = Unmarshal([]byte(line), new(Sample))
		}
		if err != nil && line != "" {
			return i + 1
		}
	}
	return 0
}

// checkSeals compares what was read with what sealed it: the result, or the
// seal of an unfinished run. A file that is missing altogether is no damage
// ([Run.Missing]): people publish runs without their samples.
func (r *Run) checkSeals(seal *Seal, content map[string][]byte) error {
	sealedBy, sealed := "the result", map[string]Prefix{}
	switch {
	case r.Result != nil:
		for name, sum := range r.Result.Files {
			sealed[name] = Prefix{Bytes: int64(len(content[name])), SHA256: sum}
		}
	case seal != nil:
		sealedBy, sealed = "the last checkpoint", seal.Files
	}
	for _, name := range slices.Sorted(maps.Keys(sealed)) {
		data, there := content[name]
		if !there {
			continue
		}
		p, path := sealed[name], filepath.Join(r.Dir, name)
		if !isLog(name) && p.Bytes != int64(len(data)) {
			return &DamagedError{path, fmt.Sprintf("it has %d bytes, under %s it had %d: the file was damaged or changed", len(data), sealedBy, p.Bytes)}
		}
		if err := p.holds(path, data, sealedBy); err != nil {
			return err
		}
	}
	return nil
}
