package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLayers: later files override earlier ones key by key, the origin names the file and line, the hash
// is that of the result, and a mistake in any file is an error.
func TestLayers(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a := file("a.yaml", "seed: 3\ntrain:\n  learning_rate: 2e-3\n  num_iterations: 4\n")
	b := file("b.yaml", "train:\n  learning_rate: 3e-3\n  epochs_per_rollout_batch: 1\n")
	r, err := Load(LoadOptions{Path: "smoke", Over: []string{a, b}})
	if err != nil {
		t.Fatal(err)
	}
	c := r.Config
	if c.Seed != 3 || c.Train.LearningRate != 3e-3 || c.Train.EpochsPerRolloutBatch != 1 || c.Train.NGRPOSteps != 20 {
		t.Errorf("%+v", c.Train)
	}
	for key, want := range map[string]string{
		"train.learning_rate": b + ": line 2", "seed": a + ": line 1", "train.n_grpo_steps": "smoke (embedded): line",
	} {
		if got := r.Origin(key).String(); !strings.HasPrefix(got, want) {
			t.Errorf("%s: origin %q, want %q", key, got, want)
		}
	}
	same, err := Load(LoadOptions{Path: "smoke", Set: []string{"seed=3", "lr=3e-3"}})
	if err != nil || Hash(same.Config) != Hash(c) {
		t.Errorf("hash %s, want %s (%v)", Hash(c), Hash(same.Config), err)
	}
	bad := file("bad.yaml", "train:\n  lrr: 1\n")
	for _, opts := range []LoadOptions{{Path: bad, Over: []string{a}}, {Path: a, Over: []string{bad}}, {Over: []string{bad}}} {
		if _, err := Load(opts); err == nil || !strings.Contains(err.Error(), bad+`: line 2: unknown key "lrr"`) {
			t.Errorf("%+v: %v", opts, err)
		}
	}
}
