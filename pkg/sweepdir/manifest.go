package sweepdir

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"grpo/internal/regular"
	"grpo/pkg/rundir"
)

// ReadManifest reads and checks the manifest of the sweep in dir. A missing
// file is an error for which errors.Is(err, fs.ErrNotExist) holds.
func ReadManifest(dir string) (Manifest, error) {
	file := filepath.Join(dir, ManifestFile)
	data, err := regular.Read(file, regular.MaxDocument)
	if err != nil {
		return Manifest{}, fmt.Errorf("read %w", err)
	}
	m, err := decodeManifest(data)
	if err != nil {
		return Manifest{}, fmt.Errorf("read %s: %w", file, err)
	}
	return m, nil
}

// WriteManifest checks the manifest and writes it into dir, which must exist.
func WriteManifest(dir string, m Manifest) error {
	file := filepath.Join(dir, ManifestFile)
	if err := m.Check(); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return rundir.WriteJSON(file, m)
}

func decodeManifest(data []byte) (Manifest, error) {
	var m Manifest
	if err := checkFormat(data); err != nil {
		return m, err
	}
	if err := rundir.Unmarshal(data, &m); err != nil {
		return m, withLine(data, err)
	}
	return m, m.Check()
}

// checkFormat checks only the version: a file of a later version should not be
// reported as broken because of its new keys.
func checkFormat(data []byte) error {
	var head struct {
		Format *int `json:"format"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return withLine(data, err)
	}
	switch {
	case head.Format == nil:
		return errors.New("it has no \"format\"")
	case *head.Format != FormatVersion:
		return fmt.Errorf("it is of format %d, this program knows %d (use the version of grpo that wrote it)", *head.Format, FormatVersion)
	}
	return nil
}

// withLine puts the line before an error of the JSON decoder that has an offset.
func withLine(data []byte, err error) error {
	offset := int64(-1)
	var syntax *json.SyntaxError
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &wrongType):
		offset = wrongType.Offset
	}
	if offset < 0 || offset > int64(len(data)) {
		return err
	}
	return fmt.Errorf("line %d: %w", 1+strings.Count(string(data[:offset]), "\n"), err)
}

// Check returns an error unless the manifest is whole: names are there and
// unique, each arm has each seed once, every run has a configuration or the
// reason why not, and folders stay below [RunsDir].
func (m Manifest) Check() error {
	if m.Format != FormatVersion {
		return fmt.Errorf("format %d, want %d", m.Format, FormatVersion)
	}
	if m.Command == "" || m.Name == "" {
		return errors.New("command and name must not be empty")
	}
	if err := m.checkAxes(); err != nil {
		return err
	}
	if err := m.checkArms(); err != nil {
		return err
	}
	seeds := map[uint64]bool{}
	for i, s := range m.Seeds {
		if seeds[s] {
			return fmt.Errorf("seeds[%d]: seed %d again", i, s)
		}
		seeds[s] = true
	}
	if len(seeds) == 0 {
		return errors.New("there are no seeds")
	}
	for i, a := range m.Added {
		if len(a.Seeds) == 0 || a.Finished < 1 || a.Finished > a.Runs {
			return fmt.Errorf("added[%d]: %d seeds after %d of %d runs", i, len(a.Seeds), a.Finished, a.Runs)
		}
		for _, s := range a.Seeds {
			if !seeds[s] {
				return fmt.Errorf("added[%d]: seed %d is not among the seeds", i, s)
			}
		}
	}
	if err := m.checkRuns(seeds); err != nil {
		return err
	}
	if id := m.Identity(); m.Hash != id {
		return fmt.Errorf("hash %q is not that of its runs (%s): the file was edited", m.Hash, id)
	}
	return nil
}

type plainManifest Manifest

// MarshalJSON implements [json.Marshaler]: it adds the checksum of
// [rundir.MarshalWithChecksum].
func (m Manifest) MarshalJSON() ([]byte, error) { return rundir.MarshalWithChecksum(plainManifest(m)) }

// UnmarshalJSON implements [json.Unmarshaler]: it is strict and verifies the
// checksum, if there is one.
func (m *Manifest) UnmarshalJSON(data []byte) error {
	return rundir.UnmarshalWithChecksum(data, (*plainManifest)(m))
}

func (m Manifest) checkAxes() error {
	seen := map[string]bool{}
	for i, a := range m.Axes {
		if a.Key == "" || len(a.Values) == 0 {
			return fmt.Errorf("axes[%d]: an axis needs a key and values", i)
		}
		if seen[a.Key] {
			return fmt.Errorf("axes[%d]: key %q again", i, a.Key)
		}
		seen[a.Key] = true
	}
	if m.BestOver != "" && !seen[m.BestOver] {
		return fmt.Errorf("best_over: %q is no axis", m.BestOver)
	}
	return nil
}

func (m Manifest) checkArms() error {
	seen := map[string]bool{}
	for i, a := range m.Arms {
		if a.Name == "" {
			return fmt.Errorf("arms[%d]: it has no name", i)
		}
		if seen[a.Name] {
			return fmt.Errorf("arms[%d]: name %q again", i, a.Name)
		}
		seen[a.Name] = true
		if len(a.Point) != 0 && len(a.Point) != len(m.Axes) {
			return fmt.Errorf("arms[%d] (%s): a point of %d values on %d axes", i, a.Name, len(a.Point), len(m.Axes))
		}
	}
	if len(seen) == 0 {
		return errors.New("there are no arms")
	}
	if m.Reference != "" && !seen[m.Reference] {
		return fmt.Errorf("reference %q is no arm", m.Reference)
	}
	return nil
}

func (m Manifest) checkRuns(seeds map[uint64]bool) error {
	type pair struct {
		arm  int
		seed uint64
	}
	pairs, dirs := map[pair]bool{}, map[string]bool{}
	for i, e := range m.Runs {
		fail := func(format string, args ...any) error {
			return fmt.Errorf("runs[%d]: "+format, append([]any{i}, args...)...)
		}
		switch p := (pair{e.Arm, e.Seed}); {
		case e.Index != i:
			return fail("index %d", e.Index)
		case e.Arm < 0 || e.Arm >= len(m.Arms):
			return fail("arm %d of %d", e.Arm, len(m.Arms))
		case !seeds[e.Seed]:
			return fail("seed %d is not among the seeds", e.Seed)
		case pairs[p]:
			return fail("arm %q with seed %d again", m.Arms[e.Arm].Name, e.Seed)
		case !belowRuns(e.Dir):
			return fail("dir %q is not a folder directly below %s/", e.Dir, RunsDir)
		case dirs[e.Dir]:
			return fail("dir %q again", e.Dir)
		case (e.Config == "") == (e.Error == ""):
			return fail("it must have either a configuration or the error that prevents one")
		case e.Config != "" && !isHash(e.Hash):
			return fail("hash %q is not 8 hex digits", e.Hash)
		default:
			pairs[p], dirs[e.Dir] = true, true
		}
	}
	if want := len(m.Arms) * len(m.Seeds); len(m.Runs) != want {
		return fmt.Errorf("%d runs, want %d: each of %d arms with each of %d seeds", len(m.Runs), want, len(m.Arms), len(m.Seeds))
	}
	return nil
}

// belowRuns says whether dir is "runs/NAME" on every system: a manifest may
// come from elsewhere, and must not make this program write elsewhere.
func belowRuns(dir string) bool {
	name, ok := strings.CutPrefix(dir, RunsDir+"/")
	return ok && isFolderName(name)
}

// isFolderName says whether name is one element of a path, here and elsewhere.
func isFolderName(name string) bool {
	return name != "" && !strings.ContainsAny(name, "/\\:\x00") && name == path.Clean(name) &&
		name != "." && name != ".." && filepath.IsLocal(name)
}

func isHash(s string) bool {
	return len(s) == 8 && strings.Trim(s, "0123456789abcdef") == ""
}
