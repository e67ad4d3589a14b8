package sweepdir

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
	"grpo/pkg/rundir"
)

// small is a manifest of two arms with two seeds.
func small() Manifest {
	m := Manifest{
		Format: FormatVersion, Command: "sweep", Name: "lr", Title: "Learning rate", Question: "Which?",
		Notes: []string{}, Fixed: []Override{}, Varied: []string{"train.learning_rate"},
		Axes: []Axis{{Key: "train.learning_rate", Label: "learning rate", Short: "lr", Values: []string{"0.001", "0.003"}}},
		Arms: []Arm{
			{Name: "lr=0.001", Set: []Override{{"train.learning_rate", "0.001"}}, Point: []string{"0.001"}},
			{Name: "lr=0.003", Set: []Override{{"train.learning_rate", "0.003"}}, Point: []string{"0.003"}},
		},
		Seeds: []uint64{1, 2}, Argv: []string{"grpo", "sweep", "lr"}, Base: "name: default\n",
	}
	for _, seed := range m.Seeds {
		for arm := range m.Arms {
			i := len(m.Runs)
			m.Runs = append(m.Runs, Entry{
				Index: i, Arm: arm, Seed: seed, Hash: fmt.Sprintf("0000000%d", i), Config: "seed: 1\n",
				Dir: fmt.Sprintf("runs/%s,seed=%d-0000000%d", m.Arms[arm].Name, seed, i),
			})
		}
	}
	m.Hash = m.Identity()
	return m
}

func TestManifestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	if IsSweep(dir) {
		t.Error("an empty folder passes for a sweep")
	}
	if _, err := ReadManifest(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want one of a missing file", err)
	}
	m := small()
	expect.OK(t, WriteManifest(dir, m))
	got, err := ReadManifest(dir)
	expect.OK(t, err)
	if !reflect.DeepEqual(got, m) {
		t.Errorf("read %+v\nwrote %+v", got, m)
	}
	if !IsSweep(dir) || IsStudy(dir) {
		t.Error("the folder is not taken for a sweep alone")
	}
}

func TestManifestCheck(t *testing.T) {
	tests := []struct {
		name   string
		damage func(m *Manifest)
		want   string
	}{
		{"later format", func(m *Manifest) { m.Format = 2 }, "format 2"},
		{"no name", func(m *Manifest) { m.Name = "" }, "name"},
		{"edited hash", func(m *Manifest) { m.Hash = "12345678" }, `hash "12345678" is not that of its runs`},
		{"no arms", func(m *Manifest) { m.Arms = nil }, "no arms"},
		{"an added seed that is not there", func(m *Manifest) { m.Added = []Addition{{Seeds: []uint64{99}, Finished: 1, Runs: 2}} }, "added[0]: seed 99"},
		{"added to nothing", func(m *Manifest) { m.Added = []Addition{{Seeds: m.Seeds[:1], Runs: 2}} }, "added[0]: 1 seeds after 0 of 2 runs"},
		{"no seeds", func(m *Manifest) { m.Seeds = nil }, "no seeds"},
		{"seed twice", func(m *Manifest) { m.Seeds[1] = 1 }, "seeds[1]: seed 1 again"},
		{"arm without name", func(m *Manifest) { m.Arms[1].Name = "" }, "arms[1]: it has no name"},
		{"arm twice", func(m *Manifest) { m.Arms[1].Name = m.Arms[0].Name }, `arms[1]: name "lr=0.001" again`},
		{"point of other axes", func(m *Manifest) { m.Arms[0].Point = []string{"1", "2"} }, "a point of 2 values on 1 axes"},
		{"axis without values", func(m *Manifest) { m.Axes[0].Values = nil }, "axes[0]"},
		{"axis twice", func(m *Manifest) { m.Axes = append(m.Axes, m.Axes[0]) }, "axes[1]"},
		{"tuned over no axis", func(m *Manifest) { m.BestOver = "rollout.group_size" }, `best_over: "rollout.group_size" is not an axis`},
		{"unknown reference", func(m *Manifest) { m.Reference = "x" }, `reference "x" is not an arm`},
		{"wrong index", func(m *Manifest) { m.Runs[2].Index = 3 }, "runs[2]: index 3"},
		{"arm out of range", func(m *Manifest) { m.Runs[2].Arm = 2 }, "runs[2]: arm 2 of 2"},
		{"negative arm", func(m *Manifest) { m.Runs[2].Arm = -1 }, "runs[2]: arm -1"},
		{"foreign seed", func(m *Manifest) { m.Runs[2].Seed = 7 }, "runs[2]: seed 7"},
		{"pair twice", func(m *Manifest) { m.Runs[2].Seed = 1 }, `arm "lr=0.001" with seed 1 again`},
		{"run missing", func(m *Manifest) { m.Runs = m.Runs[:3] }, "3 runs, want 4"},
		{"folder outside", func(m *Manifest) { m.Runs[0].Dir = "runs/../../x" }, "directly below runs/"},
		{"absolute folder", func(m *Manifest) { m.Runs[0].Dir = "/tmp/x" }, "directly below runs/"},
		{"nested folder", func(m *Manifest) { m.Runs[0].Dir = "runs/a/b" }, "directly below runs/"},
		{"folder twice", func(m *Manifest) { m.Runs[1].Dir = m.Runs[0].Dir }, "again"},
		{"no configuration", func(m *Manifest) { m.Runs[1].Config = "" }, "runs[1]: it has no configuration"},
		{"hash of a run", func(m *Manifest) { m.Runs[1].Hash = "ABCDEF01" }, "runs[1]: hash"},
	}
	for _, tt := range tests {
		m := small()
		tt.damage(&m)
		err := m.Check()
		expect.Error(t, err, tt.want)
		if err := WriteManifest(t.TempDir(), m); err == nil {
			t.Errorf("%s: it was written", tt.name)
		}
	}
}

func TestReadManifestRefuses(t *testing.T) {
	whole, err := rundir.Marshal(small())
	expect.OK(t, err)
	unsealed, err := rundir.Marshal(plainManifest(small()))
	expect.OK(t, err)
	tests := []struct{ name, text, want string }{
		{"empty", "", "unexpected end"},
		{"null", "null", `no "format"`},
		{"a list", "[1]", "line 1"},
		{"of another program", `{"seed": 1}`, `no "format"`},
		{"later format with new keys", `{"format": 9, "new": 1}`, "format 9, this program reads 1"},
		{"unknown key", strings.Replace(string(unsealed), `"seeds"`, `"sedes"`, 1), `unknown field "sedes"`},
		{"edited", strings.Replace(string(whole), `"seeds"`, `"sedes"`, 1), "does not match its checksum"},
		{"broken in line 3", "{\n\"format\": 1,\n\"hash\": 1\n}", "line 3"},
		{"something after it", string(whole) + "{}", "after top-level value"},
	}
	for _, tt := range tests {
		dir := t.TempDir()
		file := filepath.Join(dir, ManifestFile)
		expect.OK(t, os.WriteFile(file, []byte(tt.text), 0o644))
		_, err := ReadManifest(dir)
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: error %v, want one with %q and the file", tt.name, err, tt.want)
		}
	}
}

// The identity depends on the runs, not on their order or on titles.
func TestIdentity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := small()
		want := m.Identity()
		m.Runs = rapid.Permutation(m.Runs).Draw(t, "runs")
		m.Title, m.Question, m.Argv = rapid.String().Draw(t, "title"), rapid.String().Draw(t, "question"), nil
		for i := range m.Runs {
			m.Runs[i].Index = i
		}
		if got := m.Identity(); got != want {
			t.Fatalf("identity %s, before %s", got, want)
		}
		r := rapid.IntRange(0, len(m.Runs)-1).Draw(t, "run")
		switch rapid.IntRange(0, 2).Draw(t, "change") {
		case 0:
			m.Runs[r].Hash = "ffffffff"
		case 1:
			m.Runs[r].Seed = 9
		case 2:
			m.Arms[m.Runs[r].Arm].Name = "other"
		}
		if m.Identity() == want {
			t.Fatal("the change is not seen")
		}
	})
}

func TestStudy(t *testing.T) {
	dir := t.TempDir()
	s := Study{Format: FormatVersion, Hash: "12345678", Name: "assignment", Title: "A", Argv: []string{"grpo"}, Parts: []Part{
		{Name: "lr", Question: "Which rate?"}, {Name: "baseline", Question: "Does it help?", Chosen: "learning rate 1e-3"},
	}}
	expect.OK(t, WriteStudy(dir, s))
	got, err := ReadStudy(dir)
	if err != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("read %+v, %v", got, err)
	}
	if !IsStudy(dir) || IsSweep(dir) {
		t.Error("the folder is not taken for a study alone")
	}
	for name, damage := range map[string]func(*Study){
		"no parts":      func(s *Study) { s.Parts = nil },
		"no name":       func(s *Study) { s.Name = "" },
		"later format":  func(s *Study) { s.Format = 2 },
		"part twice":    func(s *Study) { s.Parts[1].Name = "lr" },
		"part above":    func(s *Study) { s.Parts[1].Name = ".." },
		"part below":    func(s *Study) { s.Parts[1].Name = "a/b" },
		"nameless part": func(s *Study) { s.Parts[1].Name = "" },
	} {
		s := s
		s.Parts = append([]Part(nil), s.Parts...)
		damage(&s)
		if err := WriteStudy(t.TempDir(), s); err == nil {
			t.Errorf("%s: it was written", name)
		}
	}
}

// A manifest with any byte changed, or cut at any byte, is refused by name or reads as before.
func TestEveryByteOfAManifestIsChecked(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short")
	}
	dir := t.TempDir()
	want := small()
	study := Study{Format: FormatVersion, Name: "assignment", Parts: []Part{{Name: "lr"}, {Name: "baseline"}}}
	expect.OK(t, errors.Join(WriteManifest(dir, want), WriteStudy(dir, study)))
	for name, read := range map[string]func() (any, error){
		ManifestFile: func() (any, error) { return ReadManifest(dir) },
		StudyFile:    func() (any, error) { return ReadStudy(dir) },
	} {
		file := filepath.Join(dir, name)
		whole, err := os.ReadFile(file)
		expect.OK(t, err)
		before, err := read()
		expect.OK(t, err)
		refused := 0
		try := func(what string, at int, data []byte) {
			expect.OK(t, os.WriteFile(file, data, 0o644))
			got, err := read()
			switch {
			case err == nil && !reflect.DeepEqual(got, before):
				t.Errorf("%s %s at byte %d: %+v", name, what, at, got)
			case err != nil && !strings.Contains(err.Error(), file):
				t.Errorf("%s %s at byte %d: error %q does not name the file", name, what, at, err)
			case err != nil:
				refused++
			}
		}
		for i := range whole {
			try("cut", i, whole[:i])
			changed := bytes.Clone(whole)
			changed[i] ^= 1 << (i % 8)
			try("changed", i, changed)
		}
		// Only white space may differ.
		if least := 2 * len(whole) * 3 / 4; refused < least {
			t.Errorf("%s: %d of %d refused", name, refused, 2*len(whole))
		}
	}
}
