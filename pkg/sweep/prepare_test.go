package sweep

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// tiny is a run of the base model that takes about half a second and saves at
// every second step.
var tiny = []string{
	"train.n_grpo_steps=8", "eval.every_n_steps=2", "rollout_batch_size=32", "data.val_size=24", "data.test_size=16", "data.unseen_size=16", "eval.save_samples=1",
}

// realManifest has an arm for each learning rate, with real configurations.
func realManifest(t *testing.T, rates []string, seeds int, set ...string) sweepdir.Manifest {
	t.Helper()
	m := sweepdir.Manifest{Format: sweepdir.FormatVersion, Command: "sweep", Name: "lr"}
	for _, r := range rates {
		m.Arms = append(m.Arms, sweepdir.Arm{Name: "lr=" + r, Set: []sweepdir.Override{{Key: "train.learning_rate", Value: r}}})
	}
	for s := range seeds {
		seed := uint64(s + 1)
		m.Seeds = append(m.Seeds, seed)
		for a, rate := range rates {
			e := sweepdir.Entry{Index: len(m.Runs), Arm: a, Seed: seed}
			all := append(append(append([]string{}, tiny...), set...), "train.learning_rate="+rate, fmt.Sprintf("seed=%d", seed))
			r, err := config.Load(config.LoadOptions{Path: "smoke", Set: all})
			expect.OK(t, err)
			e.Config, e.Hash = string(config.Marshal(r.Config)), config.Hash(r.Config)
			e.Dir = fmt.Sprintf("runs/lr=%s,seed=%d", rate, seed)
			m.Runs = append(m.Runs, e)
		}
	}
	m.Hash = m.Identity()
	return m
}

func TestPrepare(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "results", "x")
	p := &Plan{Manifest: realManifest(t, []string{"0.001", "0.003"}, 2), Request: []byte("name: lr\n")}
	p.Manifest.Argv = []string{"grpo", "sweep", "first"}
	expect.OK(t, Prepare(dir, p))
	again := *p
	again.Manifest.Argv = []string{"grpo", "sweep", "second"}
	if err := Prepare(dir, &again); err != nil {
		t.Fatalf("the same again: %v", err)
	}
	m, err := sweepdir.ReadManifest(dir)
	if err != nil || m.Argv[2] != "first" {
		t.Errorf("argv %v, error %v: the frozen manifest was replaced", m.Argv, err)
	}
	if text, _ := os.ReadFile(filepath.Join(dir, sweepdir.RequestFile)); string(text) != "name: lr\n" {
		t.Errorf("request %q", text)
	}
	if held, known := rundir.Held(dir); held || !known {
		t.Error("the folder is still held")
	}
}

func TestPrepareNamesWhatDiffers(t *testing.T) {
	long(t)
	rates := []string{"0.001", "0.003"}
	tests := []struct {
		name string
		now  sweepdir.Manifest
		want []string
		not  string
	}{
		{"another arm", realManifest(t, []string{"0.001", "0.01"}, 2), []string{"arms: lr=0.001, lr=0.003, now lr=0.001, lr=0.01"}, "seeds"},
		{"one seed less", realManifest(t, rates, 1), []string{"seeds: 1, 2, now 1)", "it has more seeds: give --seeds 2"}, "arms"},
		{"one seed more and a key", realManifest(t, rates, 3, "train.n_grpo_steps=9"), []string{"seeds: 1, 2, now 1, 2, 3; train.n_grpo_steps: 8, now 9"}, "more seeds"},
		{"a key of all runs", realManifest(t, rates, 2, "train.n_grpo_steps=9"), []string{"(train.n_grpo_steps: 8, now 9)"}, "arm"},
		{"a key of one arm", func() sweepdir.Manifest {
			m, o := realManifest(t, rates, 2), realManifest(t, rates, 2, "rollout.sampling_temperature=0.9")
			m.Runs[1], m.Runs[3] = o.Runs[1], o.Runs[3]
			m.Hash = m.Identity()
			return m
		}(), []string{"arm lr=0.003: rollout.sampling_temperature: 1, now 0.9"}, "lr=0.001"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			expect.OK(t, Prepare(dir, &Plan{Manifest: realManifest(t, rates, 2)}))
			err := Prepare(dir, &Plan{Manifest: tt.now})
			invalid(t, "prepare", err, append(tt.want, dir, "--out", "--fresh")...)
			if strings.Contains(err.Error(), tt.not) {
				t.Errorf("error %q mentions %q", err, tt.not)
			}
		})
	}
}

func TestPrepareRefuses(t *testing.T) {
	plan := &Plan{Manifest: realManifest(t, []string{"0.001"}, 1)}
	for name, tt := range map[string]struct{ file, text, want string }{
		"the folder of a run":           {rundir.ConfigFile, "seed: 1\n", "has a training run"},
		"the folder of a study":         {sweepdir.StudyFile, "{}", "has a study"},
		"a broken manifest":             {sweepdir.ManifestFile, "{", sweepdir.ManifestFile},
		"a manifest of a later version": {sweepdir.ManifestFile, `{"format": 9}`, "format 9"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			expect.OK(t, os.WriteFile(filepath.Join(dir, tt.file), []byte(tt.text), 0o644))
			err := Prepare(dir, plan)
			invalid(t, "prepare", err, tt.want)
			if text, _ := os.ReadFile(filepath.Join(dir, tt.file)); string(text) != tt.text {
				t.Error("the file was changed")
			}
		})
	}
	t.Run("an invalid plan", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "x")
		if err := Prepare(dir, &Plan{}); err == nil {
			t.Error("it was written")
		}
		if _, err := os.Stat(dir); err == nil {
			t.Error("a folder is left")
		}
	})
}

// Several commands at the same time: one writes, the others find it.
func TestPrepareAtOnce(t *testing.T) {
	dir, p := t.TempDir(), &Plan{Manifest: realManifest(t, []string{"0.001"}, 1)}
	other := &Plan{Manifest: realManifest(t, []string{"0.002"}, 1)}
	var wg sync.WaitGroup
	var mu sync.Mutex
	failed := map[*Plan]int{}
	for i := range 8 {
		plan := []*Plan{p, other}[i%2]
		wg.Go(func() {
			if err := Prepare(dir, plan); err != nil {
				mu.Lock()
				failed[plan]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if a, b := failed[p], failed[other]; (a != 0 || b != 4) && (a != 4 || b != 0) {
		t.Errorf("%d of 4 and %d of 4 failed", a, b)
	}
}

// TestPrepareExtends: whatever seeds are added in whatever order, the runs that
// were there keep index and folder, and the whole is the sweep that was asked.
func TestPrepareExtends(t *testing.T) {
	long(t)
	root := t.TempDir()
	all := realManifest(t, []string{"0.001", "0.003"}, 5)
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(root, "x")
		expect.OK(rt, err)
		order := rapid.Permutation(all.Seeds).Draw(rt, "seeds")
		n := rapid.IntRange(1, 4).Draw(rt, "first")
		first := sorted(withSeeds(all, order[:n]), order[:n])
		expect.OK(rt, Prepare(dir, &Plan{Manifest: first}))
		finished := rapid.IntRange(0, len(first.Runs)).Draw(rt, "finished")
		for _, e := range first.Runs[:finished] {
			expect.OK(rt, os.MkdirAll(e.Path(dir), 0o755))
			expect.OK(rt, os.WriteFile(filepath.Join(e.Path(dir), rundir.ResultFile), []byte(`{"status": "done"}`), 0o644))
		}
		asked := rapid.Permutation(order).Draw(rt, "asked")
		plan := &Plan{Manifest: sorted(all, asked), Request: []byte("more\n")}
		plan.Manifest.Argv = []string{"grpo", "sweep", "more"}
		found, err := Find(dir, plan, nil)
		expect.OK(rt, err)
		beside, err := Find(filepath.Join(root, "new"), plan, []string{dir}) // copies the runs of dir
		expect.OK(rt, err)
		expect.OK(rt, beside.Manifest.Check())
		if finished > 0 && !sameSet(beside.Manifest.Seeds[:n], first.Seeds) {
			rt.Errorf("seeds %v in a new folder, after %v in another", beside.Manifest.Seeds, first.Seeds)
		}
		for range 2 { // a second time changes nothing
			expect.OK(rt, Prepare(dir, plan))
		}
		got, err := sweepdir.ReadManifest(dir)
		expect.OK(rt, err)
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
		expect.OK(t, Prepare(filepath.Join(root, name), p))
	}
	prepare("own", p)
	prepare("b", p)
	prepare("a", &Plan{Manifest: realManifest(t, []string{"0.001", "0.1"}, 1)})
	prepare("other", &Plan{Manifest: realManifest(t, []string{"0.5"}, 1)})
	prepare("study/part", p)
	prepare("study/deeper/part", p)
	expect.OK(t, sweepdir.WriteStudy(filepath.Join(root, "study"), sweepdir.Study{Format: sweepdir.FormatVersion, Name: "s", Parts: []sweepdir.Part{{Name: "part"}, {Name: "missing"}}}))
	prepare("elsewhere/x", p)
	for link, to := range map[string]string{"link": "b", "linked": "elsewhere/x"} {
		expect.OK(t, os.Symlink(filepath.Join(root, to), filepath.Join(root, link)))
	}
	expect.OK(t, os.MkdirAll(filepath.Join(root, "linkfile"), 0o755))
	expect.OK(t, os.Symlink(filepath.Join(root, "b", sweepdir.ManifestFile), filepath.Join(root, "linkfile", sweepdir.ManifestFile)))
	expect.OK(t, os.WriteFile(filepath.Join(root, "file"), nil, 0o644))
	var got []string
	for _, dir := range Siblings(filepath.Join(root, "own")+"/", p) {
		rel, err := filepath.Rel(root, dir)
		expect.OK(t, err)
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
