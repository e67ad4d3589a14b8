package rundir

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"grpo/internal/pattern"
	"grpo/internal/regular"
)

// All checksums are SHA-256 in hex. A JSON document may carry its own: the last member of the
// object is
//
//	"checksum": "<SHA-256 of the object without this member>"
//
// over the compact form with HTML escapes, so white space and the two ways to write < make no
// difference. A file without the member comes from an earlier version or another program and is not
// checked. A [Prefix] has the checksum of a log: later lines may follow.

// ChecksumsFile in [CheckpointDir] has the [Checksums] of an unfinished run; those of a finished
// run are in its [Result].
const ChecksumsFile = "seal.json"

// Checksums describes the files of an unfinished run at its newest checkpoint: all of config.yaml,
// and the start of each JSONL file.
type Checksums struct {
	Step  int               `json:"step"` // of the checkpoint
	Files map[string]Prefix `json:"files"`
}

// Prefix is the start of a file.
type Prefix struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // of these bytes
}

// PrefixOf describes all of data.
func PrefixOf(data []byte) Prefix { return Prefix{int64(len(data)), checksum(data)} }

func checksum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

var checksumMember = pattern.Of(`,\s*"checksum"\s*:\s*"([0-9a-f]{64})"\s*\}\s*$`)

// MarshalWithChecksum is [Marshal] of a struct with the checksum as the last
// member.
func MarshalWithChecksum(v any) ([]byte, error) {
	data, err := Marshal(v)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(data[:len(data)-1], `,"checksum":%q}`, objectChecksum(data)), nil
}

func objectChecksum(object []byte) string {
	var compact, escaped bytes.Buffer
	if json.Compact(&compact, object) != nil {
		return "" // not JSON: the decoder reports it
	}
	json.HTMLEscape(&escaped, compact.Bytes())
	return checksum(escaped.Bytes())
}

// UnmarshalWithChecksum is [Unmarshal] of an object that may have its checksum.
func UnmarshalWithChecksum(data []byte, v any) error {
	if at := checksumMember().FindSubmatchIndex(data); at != nil {
		body := append(data[:at[0]:at[0]], '}')
		if string(data[at[2]:at[3]]) != objectChecksum(body) {
			return errors.New("it does not match its checksum: the file was damaged or changed")
		}
		data = body
	}
	return Unmarshal(data, v) // anywhere else the member is an unknown key
}

// The types without their methods.
type (
	plainResult    Result
	plainStatus    Status
	plainChecksums Checksums
)

// MarshalJSON implements [json.Marshaler]: it adds the checksum.
func (r Result) MarshalJSON() ([]byte, error) { return MarshalWithChecksum(plainResult(r)) }

// MarshalJSON implements [json.Marshaler]: it adds the checksum.
func (s Status) MarshalJSON() ([]byte, error) { return MarshalWithChecksum(plainStatus(s)) }

// MarshalJSON implements [json.Marshaler]: it adds the checksum.
func (s Checksums) MarshalJSON() ([]byte, error) { return MarshalWithChecksum(plainChecksums(s)) }

// UnmarshalJSON implements [json.Unmarshaler]: strict like [Unmarshal], and it verifies the
// checksum.
func (r *Result) UnmarshalJSON(data []byte) error {
	return UnmarshalWithChecksum(data, (*plainResult)(r))
}

// UnmarshalJSON implements [json.Unmarshaler] like that of [Result].
func (s *Status) UnmarshalJSON(data []byte) error {
	return UnmarshalWithChecksum(data, (*plainStatus)(s))
}

// UnmarshalJSON implements [json.Unmarshaler] like that of [Result].
func (s *Checksums) UnmarshalJSON(data []byte) error {
	return UnmarshalWithChecksum(data, (*plainChecksums)(s))
}

// DamagedError reports a file of a run folder whose content is not what the run wrote.
type DamagedError struct {
	Path    string
	Problem string
}

// Error implements error.
func (e *DamagedError) Error() string { return e.Path + ": " + e.Problem }

// Holds returns nil if the file at path starts with the bytes that p describes; a missing file has
// no bytes. Otherwise the error is a [*DamagedError], which names the first unreadable line, if
// there is one.
func (p Prefix) Holds(path string) error {
	data, err := regular.Read(path, regular.MaxLog)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Explain(err)
	}
	return p.verify(path, data, "its last checkpoint")
}

// verify compares the content of a file with p, which comes from source.
func (p Prefix) verify(path string, data []byte, source string) error {
	const changed = "the file was damaged or changed"
	switch n := int64(len(data)); {
	case n < p.Bytes:
		return &DamagedError{path, fmt.Sprintf("it has %d bytes, but %s needs %d: the end is lost", n, source,
			p.Bytes)}
	case n > p.Bytes && !isLog(path):
		return &DamagedError{path, fmt.Sprintf("it has %d bytes, but %d according to %s: %s", n, p.Bytes,
			source, changed)}
	case p.Bytes < 0 || PrefixOf(data[:p.Bytes]) != p:
		where := suspectLine(path, data[:max(0, p.Bytes)])
		return &DamagedError{path, fmt.Sprintf("%s does not match the checksum in %s: %s", where, source, changed)}
	}
	return nil
}

func isLog(path string) bool { return filepath.Ext(path) == ".jsonl" }

// suspectLine describes where the damage in a file must be.
func suspectLine(path string, data []byte) string {
	if !isLog(path) {
		return "its content"
	}
	lines := strings.SplitAfter(string(data), "\n")
	for i, line := range lines[:len(lines)-1] {
		var err error
		switch filepath.Base(path) {
		case MetricsFile:
			var m Metrics
			if err = Unmarshal([]byte(line), &m); err == nil && m.Step != i+1 {
				err = errors.New("another step")
			}
		case EvalFile:
			var e Eval
			if err = Unmarshal([]byte(line), &e); err == nil {
				err = e.Check()
			}
		case SamplesFile:
			err = Unmarshal([]byte(line), new(Sample))
		}
		if err != nil {
			return fmt.Sprintf("line %d", i+1)
		}
	}
	return fmt.Sprintf("a number or a string in lines 1 to %d", len(lines)-1)
}

// verifyFiles compares the files with their checksums in the result or in saved,
// those of an unfinished run. A missing file is not damage ([Run.Missing]):
// people publish runs without their samples.
func (r *Run) verifyFiles(saved *Checksums, content map[string][]byte) error {
	source, expected := "the result", map[string]Prefix{}
	if r.Result != nil {
		for name, sum := range r.Result.Files {
			expected[name] = Prefix{int64(len(content[name])), sum}
		}
	} else if saved != nil {
		source, expected = "the last checkpoint", saved.Files
	}
	for _, name := range slices.Sorted(maps.Keys(expected)) {
		if data, there := content[name]; there {
			if err := expected[name].verify(filepath.Join(r.Dir, name), data, source); err != nil {
				return err
			}
		}
	}
	return nil
}
