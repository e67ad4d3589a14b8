package sweep

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// TestPrepareExtends: whatever seeds are added in whatever order, the runs that
// were there keep index and folder, and the whole is the sweep that was asked.
func TestPrepareExtends(t *testing.T) {
	long(t)
	root := t.TempDir()
	all := realManifest(t, []string{"0.001", "0.003"}, 5)
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(root, "x")
		if err != nil {
			rt.Fatal(err)
		}
		order := rapid.Permutation(all.Seeds).Draw(rt, "seeds")
		n := rapid.IntRange(1, 4).Draw(rt, "first")
		first := sorted(withSeeds(all, order[:n]), order[:n])
		if err := Prepare(dir, &Plan{Manifest: first}); err != nil {
			rt.Fatal(err)
		}
		finished := rapid.IntRange(0, len(first.Runs)).Draw(rt, "finished")
		for _, e := range first.Runs[:finished] {
			if err := os.MkdirAll(e.Path(dir), 0o755); err != nil {
				rt.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(e.Path(dir), rundir.ResultFile), []byte(`{"status": "done"}`), 0o644); err != nil {
				rt.Fatal(err)
			}
		}
		asked := rapid.Permutation(order).Draw(rt, "asked")
		plan := &Plan{Manifest: sorted(all, asked), Request: []byte("more\n")}
		plan.Manifest.Argv = []string{"grpo", "sweep", "more"}
		found, err := Find(dir, plan, nil)
		if err != nil {
			rt.Fatal(err)
		}
		for range 2 { // a second time changes nothing
			if err := Prepare(dir, plan); err != nil {
				rt.Fatal(err)
			}
		}
		got, err := sweepdir.ReadManifest(dir)
		if err != nil {
			rt.Fatal(err)
		}
		if !reflect.DeepEqual(got.Runs, found.Manifest.Runs) || !reflect.DeepEqual(got.Added, found.Manifest.Added) {
			rt.Error("Find and Prepare differ")
		}
		if got.Hash != all.Hash || !slices.Equal(got.Runs[:len(first.Runs)], first.Runs) || len(got.Runs) != 10 || got.Argv[2] != "more" {
			rt.Errorf("hash %s, want %s; runs %+v", got.Hash, all.Hash, got.Runs)
		}
		switch {
		case finished == 0 && got.Added != nil:
			rt.Errorf("added %+v to a sweep without results", got.Added)
		case finished > 0 && (len(got.Added) != 1 || got.Added[0].Finished != finished || got.Added[0].Runs != 2*n || len(got.Added[0].Seeds) != 5-n):
			rt.Errorf("added %+v after %d runs of %d seeds", got.Added, finished, n)
		}
		if text, _ := os.ReadFile(filepath.Join(dir, sweepdir.RequestFile)); string(text) != "more\n" {
			rt.Errorf("request %q", text)
		}
	})
}

// sorted is a manifest with its runs in the order of these seeds.
func sorted(m sweepdir.Manifest, seeds []uint64) sweepdir.Manifest {
	runs := m.Runs
	m.Seeds, m.Runs = seeds, nil
	for _, s := range seeds {
		for _, e := range runs {
			if e.Seed == s {
				e.Index = len(m.Runs)
				m.Runs = append(m.Runs, e)
			}
		}
	}
	m.Hash = m.Identity()
	return m
}

// TestSiblings: sweeps and the parts of studies next to a folder count, if they
// have a run in common; links, files and the folder itself do not.
func TestSiblings(t *testing.T) {
	root := t.TempDir()
	p := &Plan{Manifest: realManifest(t, []string{"0.001", "0.003"}, 2)}
	prepare := func(name string, p *Plan) {
		t.Helper()
		if err := Prepare(filepath.Join(root, name), p); err != nil {
			t.Fatal(err)
		}
	}
	prepare("own", p)
	prepare("b", p)
	prepare("a", &Plan{Manifest: realManifest(t, []string{"0.001", "0.1"}, 1)})
	prepare("other", &Plan{Manifest: realManifest(t, []string{"0.5"}, 1)})
	prepare("study/part", p)
	prepare("study/deeper/part", p)
	if err := sweepdir.WriteStudy(filepath.Join(root, "study"), sweepdir.Study{Format: sweepdir.FormatVersion, Name: "s", Parts: []sweepdir.Part{{Name: "part"}, {Name: "missing"}}}); err != nil {
		t.Fatal(err)
	}
	prepare("elsewhere/x", p)
	for link, to := range map[string]string{"link": "b", "linked": "elsewhere/x"} {
		if err := os.Symlink(filepath.Join(root, to), filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "linkfile"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(root, "b", sweepdir.ManifestFile), filepath.Join(root, "linkfile", sweepdir.ManifestFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, dir := range Siblings(filepath.Join(root, "own")+"/", p) {
		rel, err := filepath.Rel(root, dir)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, filepath.ToSlash(rel))
	}
	if want := []string{"a", "b", "study/part"}; !slices.Equal(got, want) {
		t.Errorf("siblings %v, want %v", got, want)
	}
	if got := Siblings(filepath.Join(root, "nowhere", "x"), p); got != nil {
		t.Errorf("siblings in a folder that is not there: %v", got)
	}
	// Nothing there is finished.
	opts := Options{Siblings: []string{filepath.Join(root, "b")}}
	if got := findReusable(filepath.Join(root, "own"), p.Manifest.Runs, opts, t.Logf); len(got) != 0 {
		t.Errorf("reused %v", got)
	}
}
