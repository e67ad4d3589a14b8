package sweep

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

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
			if err != nil {
				t.Fatal(err)
			}
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
	if err := Prepare(dir, p); err != nil {
		t.Fatal(err)
	}
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
			if err := Prepare(dir, &Plan{Manifest: realManifest(t, rates, 2)}); err != nil {
				t.Fatal(err)
			}
			err := Prepare(dir, &Plan{Manifest: tt.now})
			if !errors.Is(err, config.ErrConfig) {
				t.Fatalf("error %v", err)
			}
			for _, want := range append(tt.want, dir, "--out", "--fresh") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q, want one with %q", err, want)
				}
			}
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
			if err := os.WriteFile(filepath.Join(dir, tt.file), []byte(tt.text), 0o644); err != nil {
				t.Fatal(err)
			}
			err := Prepare(dir, plan)
			if !errors.Is(err, config.ErrConfig) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
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
