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

// ChecksumsFile in [CheckpointDir] holds the [Checksums] of a run that is not
// finished; those of a finished run are in its [Result].
const ChecksumsFile = "seal.json"

// Checksums describes the files of an unfinished run when its newest checkpoint
// was written: all of config.yaml, and the beginning of each JSONL file. Later
// lines have no checksum; a run that continues makes them again.
type Checksums struct {
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

// holds compares the content of a file with p, which comes from source.
func (p Prefix) holds(path string, data []byte, source string) error {
	if int64(len(data)) < p.Bytes {
		return &DamagedError{path, fmt.Sprintf("it has %d bytes, but %s needs %d: the end is lost", len(data), source, p.Bytes)}
	}
	if p.Bytes < 0 || PrefixOf(data[:p.Bytes]) != p {
		return &DamagedError{path, fmt.Sprintf("%s does not match the checksum in %s: the file was damaged or changed",
			suspectLine(path, data[:max(0, p.Bytes)]), source)}
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
	return fmt.Sprintf("a number or a string in lines 1 to %d", lines)
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

// verifyFiles compares the files with their checksums: those of the result, or
// saved, those of an unfinished run. A missing file is not damage
// ([Run.Missing]): people publish runs without their samples.
func (r *Run) verifyFiles(saved *Checksums, content map[string][]byte) error {
	source, expected := "the result", map[string]Prefix{}
	switch {
	case r.Result != nil:
		for name, sum := range r.Result.Files {
			expected[name] = Prefix{Bytes: int64(len(content[name])), SHA256: sum}
		}
	case saved != nil:
		source, expected = "the last checkpoint", saved.Files
	}
	for _, name := range slices.Sorted(maps.Keys(expected)) {
		data, there := content[name]
		if !there {
			continue
		}
		p, path := expected[name], filepath.Join(r.Dir, name)
		if !isLog(name) && p.Bytes != int64(len(data)) {
			return &DamagedError{path, fmt.Sprintf("it has %d bytes, but %d according to %s: the file was damaged or changed", len(data), p.Bytes, source)}
		}
		if err := p.holds(path, data, source); err != nil {
			return err
		}
	}
	return nil
}
