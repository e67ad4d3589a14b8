package sweepdir

import (
	"bytes"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/untrusted"
	"grpo/pkg/rundir"
)

// FuzzManifest: a manifest is refused with a printable error, or it is consistent: every run has an
// arm, and a folder directly below runs/. It may be malicious, and must not make this program write
// elsewhere.
func FuzzManifest(f *testing.F) {
	add := func(change func(m *Manifest)) {
		m := small()
		change(&m)
		data, err := rundir.Marshal(m)
		expect.OK(f, err)
		f.Add(data)
	}
	add(func(*Manifest) {})
	for _, dir := range []string{"runs/../../x", "/x", "runs/", "runs/a/b", `runs\..\x`, "runs/..", "../runs/x", "runs/C:x", "runs/\x00", "runs/\x1b[31m"} {
		add(func(m *Manifest) { m.Runs[0].Dir = dir })
	}
	add(func(m *Manifest) { m.Runs[0].Arm = 1 << 40 })
	add(func(m *Manifest) { m.Arms[0].Name = "\x1b[31m" })
	add(func(m *Manifest) { m.Arms, m.Runs = nil, nil })
	add(func(m *Manifest) { m.Axes[0].Values = nil })
	for _, s := range []string{"", "{}", "null", `{"format":1}`, `{"format":2}`, `{"format":"\u001b"}`, `{"format":1,"\u001b[31m":1}`, `{"format":1,"runs":[{"arm":-1}]}`, strings.Repeat("[", 11000), "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		untrusted.Reader.Check(t, len(data), func() {
			m, err := decode[Manifest](data)
			if err != nil {
				untrusted.CheckError(t, err)
				return
			}
			root := filepath.Join("some", "sweep")
			for _, e := range m.Runs {
				if path := e.Path(root); filepath.Dir(path) != filepath.Join(root, RunsDir) || e.Arm < 0 || e.Arm >= len(m.Arms) {
					t.Fatalf("run %+v is at %s", e, path)
				}
			}
			checkAgain(t, m)
		})
	})
}

// FuzzStudy is [FuzzManifest] for the list of a study's sweeps.
func FuzzStudy(f *testing.F) {
	for _, s := range []string{
		`{"format":1,"name":"a","parts":[{"name":"lr"},{"name":"std"}]}`, `{"format":1,"name":"a","parts":[{"name":"../x"}]}`, `{"format":1,"name":"a","parts":[{"name":"/x"}]}`,
		`{"format":1,"name":"a","parts":[{"name":"."}]}`, `{"format":1,"name":"a","parts":[{"name":"a\\b"}]}`, `{"format":1}`, "", "null", "\xff", `{"format":1,"\u001b":1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		untrusted.Reader.Check(t, len(data), func() {
			s, err := decode[Study](data)
			if err != nil {
				untrusted.CheckError(t, err)
				return
			}
			for _, p := range s.Parts {
				if path := filepath.Join("study", p.Name); filepath.Dir(path) != "study" {
					t.Fatalf("part %q is at %s", p.Name, path)
				}
			}
			checkAgain(t, s)
		})
	})
}

// checkAgain writes a value and reads it again.
func checkAgain[T document](t *testing.T, v T) {
	t.Helper()
	data, err := rundir.Marshal(v)
	expect.OK(t, err)
	again, err := decode[T](data)
	expect.OK(t, err)
	second, err := rundir.Marshal(again)
	if err != nil || !bytes.Equal(data, second) {
		t.Fatalf("read back as\n%s\nnot\n%s", second, data)
	}
	if !reflect.DeepEqual(again, v) {
		t.Fatalf("read back as %+v, not %+v", again, v)
	}
}
