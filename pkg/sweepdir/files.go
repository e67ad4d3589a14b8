package sweepdir

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	jsonv1 "github.com/go-json-experiment/json/v1"

	"grpo/internal/regular"
	"grpo/pkg/rundir"
)

// document is a JSON file of a sweep or study folder, with a checksum.
type document interface {
	Manifest | Study
	Check() error
}

// ReadManifest reads and checks the manifest of the sweep in dir. For a missing file,
// errors.Is(err, fs.ErrNotExist) is true.
func ReadManifest(dir string) (Manifest, error) {
	return read[Manifest](filepath.Join(dir, ManifestFile))
}

// ReadStudy is [ReadManifest] for the study in dir.
func ReadStudy(dir string) (Study, error) { return read[Study](filepath.Join(dir, StudyFile)) }

// WriteManifest checks the manifest and writes it into dir, which must exist.
func WriteManifest(dir string, m Manifest) error { return write(filepath.Join(dir, ManifestFile), m) }

// WriteStudy checks the study and writes it into dir, which must exist.
func WriteStudy(dir string, s Study) error { return write(filepath.Join(dir, StudyFile), s) }

func read[T document](file string) (T, error) {
	var none T
	data, err := regular.Read(file, regular.MaxDocument)
	if err != nil {
		return none, err
	}
	v, err := decode[T](data)
	if err != nil {
		return none, fmt.Errorf("read %s: %w", file, err)
	}
	return v, nil
}

func write[T document](file string, v T) error {
	if err := v.Check(); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return rundir.WriteJSON(file, v)
}

// decode checks the version first: the new keys of a later version are not an error in the file.
func decode[T document](data []byte) (v T, err error) {
	var head struct {
		Format *int `json:"format"`
	}
	if err = jsonv1.Unmarshal(data, &head); err == nil {
		if head.Format == nil {
			return v, errors.New("it has no \"format\"")
		}
		if err = checkFormat(*head.Format); err != nil {
			return v, err
		}
		err = rundir.Unmarshal(data, &v)
	}
	if err != nil {
		return v, withLine(data, err)
	}
	return v, v.Check()
}

func checkFormat(format int) error {
	if format != FormatVersion {
		return fmt.Errorf("it has format %d, this program reads %d (use the version of grpo that wrote it)",
			format, FormatVersion)
	}
	return nil
}

// withLine adds the line to an error of the JSON decoder that has an offset.
func withLine(data []byte, err error) error {
	offset := int64(-1)
	var syntax *jsonv1.SyntaxError
	var wrongType *jsonv1.UnmarshalTypeError
	if errors.As(err, &syntax) {
		offset = syntax.Offset
	} else if errors.As(err, &wrongType) {
		offset = wrongType.Offset
	}
	if offset < 0 || offset > int64(len(data)) {
		return err
	}
	return fmt.Errorf("line %d: %w", 1+strings.Count(string(data[:offset]), "\n"), err)
}

// The types without their methods.
type (
	plainManifest Manifest
	plainStudy    Study
)

// MarshalJSON implements [json.Marshaler]: it adds the checksum.
func (m Manifest) MarshalJSON() ([]byte, error) { return rundir.MarshalWithChecksum(plainManifest(m)) }

// MarshalJSON implements [json.Marshaler]: it adds the checksum.
func (s Study) MarshalJSON() ([]byte, error) { return rundir.MarshalWithChecksum(plainStudy(s)) }

// UnmarshalJSON implements [json.Unmarshaler]: it is strict and verifies the
// checksum, if there is one.
func (m *Manifest) UnmarshalJSON(data []byte) error {
	return rundir.UnmarshalWithChecksum(data, (*plainManifest)(m))
}

// UnmarshalJSON implements [json.Unmarshaler] like that of [Manifest].
func (s *Study) UnmarshalJSON(data []byte) error {
	return rundir.UnmarshalWithChecksum(data, (*plainStudy)(s))
}

// IsSweep reports whether dir is the folder of a sweep.
func IsSweep(dir string) bool { return exists(filepath.Join(dir, ManifestFile)) }

// IsStudy reports whether dir is the folder of a study.
func IsStudy(dir string) bool { return exists(filepath.Join(dir, StudyFile)) }

// exists reports whether there is anything at path. Reading refuses anything but a regular file.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Path is the folder of a run of the sweep in dir.
func (e Entry) Path(dir string) string { return filepath.Join(dir, filepath.FromSlash(e.Dir)) }

// CheckFolder returns an error if the folder of a run, or the folder of all runs, is a link or a
// file: its files would be outside the sweep.
func (e Entry) CheckFolder(dir string) error {
	if e.Dir == "." {
		return nil // a single run: dir is the user's own argument
	}
	if err := regular.Folder(filepath.Join(dir, RunsDir)); err != nil {
		return err
	}
	return regular.Folder(e.Path(dir))
}

// Path is the folder of a part of the study in dir. A link is an error, because
// its files would be outside the study.
func (p Part) Path(dir string) (string, error) {
	path := filepath.Join(dir, p.Name)
	return path, regular.Folder(path)
}

// StartedParts returns the folders of the parts of the study in dir that have started.
func StartedParts(dir string) (paths []string, err error) {
	st, err := ReadStudy(dir)
	if err != nil {
		return nil, err
	}
	for _, p := range st.Parts {
		path, err := p.Path(dir)
		if err != nil {
			return nil, err
		}
		if IsSweep(path) {
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// isFolderName reports whether name is one element of a path on every system: a manifest from
// elsewhere must not make this program write outside its folder.
func isFolderName(name string) bool {
	return name != "" && !strings.ContainsAny(name, "/\\:\x00") && name == path.Clean(name) &&
		name != "." && name != ".." && filepath.IsLocal(name)
}
