package sweepdir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"grpo/internal/regular"
	"grpo/pkg/rundir"
)

// ReadStudy reads and checks the study in dir. A missing file is an error for
// which errors.Is(err, fs.ErrNotExist) holds.
func ReadStudy(dir string) (Study, error) {
	file := filepath.Join(dir, StudyFile)
	data, err := regular.Read(file, regular.MaxDocument)
	if err != nil {
		return Study{}, fmt.Errorf("read %w", err)
	}
	s, err := decodeStudy(data)
	if err != nil {
		return Study{}, fmt.Errorf("read %s: %w", file, err)
	}
	return s, nil
}

// WriteStudy checks the study and writes it into dir, which must exist.
func WriteStudy(dir string, s Study) error {
	file := filepath.Join(dir, StudyFile)
	if err := s.Check(); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return rundir.WriteJSON(file, s)
}

func decodeStudy(data []byte) (Study, error) {
	var s Study
	if err := checkFormat(data); err != nil {
		return s, err
	}
	if err := rundir.Unmarshal(data, &s); err != nil {
		return s, withLine(data, err)
	}
	return s, s.Check()
}

// Check returns an error unless the study is whole: its parts are named,
// uniquely, and each name is that of a folder below the study's.
func (s Study) Check() error {
	if s.Format != FormatVersion {
		return fmt.Errorf("format %d, want %d", s.Format, FormatVersion)
	}
	if s.Name == "" {
		return errors.New("the study has no name")
	}
	seen := map[string]bool{}
	for i, p := range s.Parts {
		switch {
		case !isFolderName(p.Name):
			return fmt.Errorf("parts[%d]: name %q is not that of a folder in this one", i, p.Name)
		case seen[p.Name]:
			return fmt.Errorf("parts[%d]: name %q again", i, p.Name)
		}
		seen[p.Name] = true
	}
	if len(seen) == 0 {
		return errors.New("there are no parts")
	}
	return nil
}

type plainStudy Study

// MarshalJSON implements [json.Marshaler] as that of [Manifest].
func (s Study) MarshalJSON() ([]byte, error) { return rundir.MarshalWithChecksum(plainStudy(s)) }

// UnmarshalJSON implements [json.Unmarshaler] as that of [Manifest].
func (s *Study) UnmarshalJSON(data []byte) error {
	return rundir.UnmarshalWithChecksum(data, (*plainStudy)(s))
}

// IsSweep says whether dir is a sweep's folder.
func IsSweep(dir string) bool { return exists(filepath.Join(dir, ManifestFile)) }

// IsStudy says whether dir is a study's folder.
func IsStudy(dir string) bool { return exists(filepath.Join(dir, StudyFile)) }

// exists says whether there is anything at path. What is not a regular file is
// refused when it is read.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Path is the folder of a part of the study in dir. A link is an error, because
// its files would lie outside the study.
func (p Part) Path(dir string) (string, error) {
	path := filepath.Join(dir, p.Name)
	return path, regular.Folder(path)
}

// OpenPart is [Open] for a part of the study in dir; it returns nil for a part
// that has not begun.
func OpenPart(dir string, p Part) (*Sweep, error) {
	path, err := p.Path(dir)
	if err != nil {
		return nil, fmt.Errorf("open part %s: %w", p.Name, err)
	}
	if !IsSweep(path) {
		return nil, nil
	}
	return Open(path)
}
