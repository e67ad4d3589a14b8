package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// write puts a string into a file of a new folder and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.yaml")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestOrder: defaults < file < environment < --set < flags, and the origin names the source.
func TestOrder(t *testing.T) {
	path := write(t, "# comment\ntrain:\n  learning_rate: 2e-3\n")
	opts := LoadOptions{}
	steps := []struct {
		name   string
		add    func()
		want   float64
		origin string
	}{
		{"defaults", func() {}, 1e-3, "default"},
		{"file", func() { opts.Path = path }, 2e-3, path + ": line 3"},
		{"env", func() { opts.Env = []string{"GRPO_TRAIN_LEARNING_RATE=3e-3", "HOME=/"} }, 3e-3, "GRPO_TRAIN_LEARNING_RATE"},
		{"set", func() { opts.Set = []string{"lr=9", "lr=4e-3"} }, 4e-3, "--set lr"},
		{"flag", func() { opts.Flags = []Flag{{Key: "train.learning_rate", Name: "--lr", Value: "5e-3"}} }, 5e-3, "--lr"},
	}
	for _, s := range steps {
		s.add()
		r, err := Load(opts)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		if got := r.Config.Train.LearningRate; got != s.want {
			t.Errorf("%s: learning rate %v, want %v", s.name, got, s.want)
		}
		if got := r.Origin("train.learning_rate").String(); got != s.origin {
			t.Errorf("%s: origin %q, want %q", s.name, got, s.origin)
		}
		if r.Config.Train.WeightDecay != 0 || r.Config.Rollout.GroupSize != 8 {
			t.Errorf("%s: neighbours changed: %+v", s.name, r.Config)
		}
	}
}

// TestResolvedZeros: zeros that mean another key's value are replaced after all sources are
// applied.
func TestResolvedZeros(t *testing.T) {
	r, err := Load(LoadOptions{Set: []string{"rollout_batch_size=64", "sampling_max_tokens=48"}})
	if err != nil {
		t.Fatal(err)
	}
	if r.Config.Train.TrainBatchSize != 64 || r.Config.Algorithm.NormalizeConstant != 48 {
		t.Errorf("got %d and %v, want 64 and 48", r.Config.Train.TrainBatchSize, r.Config.Algorithm.NormalizeConstant)
	}
	if got, want := r.Origin("train.train_batch_size").String(), "default, the same as rollout.rollout_batch_size"; got != want {
		t.Errorf("origin %q, want %q", got, want)
	}
	if !reflect.DeepEqual(Resolve(r.Config), r.Config) {
		t.Error("resolving twice changes the configuration")
	}
}

func TestDefaultsAreNotShared(t *testing.T) {
	r, err := Load(LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.Config.Reward.Functions[0] = "changed"
	r.Config.Reward.RewardWeights[0] = -1
	again, err := Load(LoadOptions{})
	if err != nil || !reflect.DeepEqual(again.Config, Resolve(Default())) {
		t.Errorf("a second load gives %+v, %v", again, err)
	}
}

func TestLoadFiles(t *testing.T) {
	dir := t.TempDir()
	big := filepath.Join(dir, "big.yaml")
	if err := os.WriteFile(big, []byte("# "+strings.Repeat("x", maxFileSize)), 0o666); err != nil {
		t.Fatal(err)
	}
	locked := filepath.Join(dir, "locked.yaml")
	if err := os.WriteFile(locked, []byte("seed: 1"), 0); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, path, want string }{
		{"unknown name", "smok", `load config: no configuration "smok" (did you mean "smoke"?): the embedded ones are a5-2025, a5-2026, aligned, `},
		{"unknown preset", "presets/dapoo", `load config: presets/dapoo: no such file`},
		{"no preset by that folder", "presets/smoke", `load config: presets/smoke: no such file (the embedded configuration is named "smoke")`},
		{"far name", "something", `no configuration "something": the embedded ones are`},
		{"name of the other command", "base", `"base" for this command (it belongs to grpo sft)`},
		{"missing file", "nowhere/x.yaml", "load config: nowhere/x.yaml: no such file"},
		{"embedded name as a file", "nowhere/smoke.yaml", `no such file (the embedded configuration is named "smoke")`},
		{"folder", dir, dir + ": this is a folder, not a YAML file"},
		{"too large", big, big + ": the file is larger than 1024 KiB"},
		{"unreadable", locked, locked + ": cannot read the file: permission denied"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.name == "unreadable" && os.Geteuid() == 0 {
				t.Skip("root reads every file")
			}
			_, err := Load(LoadOptions{Path: test.path})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v\nwant %s", err, test.want)
			}
			if !errors.Is(err, ErrConfig) {
				t.Errorf("%v does not wrap ErrConfig", err)
			}
		})
	}
	if _, err := Load(LoadOptions{Path: "nowhere/x.yaml"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v does not wrap fs.ErrNotExist", err)
	}
	t.Run("a file with the embedded name", func(t *testing.T) {
		t.Chdir(dir)
		if err := os.WriteFile("smoke", []byte("seed: 5\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		if r, err := Load(LoadOptions{Path: "smoke"}); err != nil || r.Config.Name != "smoke" {
			t.Errorf("smoke is not the embedded one: %v", err)
		}
		if r, err := Load(LoadOptions{Path: "./smoke"}); err != nil || r.Config.Seed != 5 {
			t.Errorf("./smoke is not the file: %v", err)
		}
	})
}

func TestLoadSFT(t *testing.T) {
	path := write(t, `
stages:
  - {name: one, corpus: capability, steps: 10}
  - name: two
    corpus: preference
    steps: 20
    adam_betas: [0.5, 0.6]
  - {name: three, corpus: answers, steps: 30, learning_rate: 1}
`)
	r, err := LoadSFT(LoadOptions{
		Path: path,
		Env:  []string{"GRPO_STAGES_1_STEPS=21", "GRPO_TRAIN_N_GRPO_STEPS=3", "GRPO_SEED=4"},
		Set:  []string{"stages.2.batch_size=8", "eval_size=5"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := DefaultSFT()
	want.Seed, want.EvalSize = 4, 5
	want.Stages = []Stage{DefaultStage(), DefaultStage(), DefaultStage()}
	for i, s := range []Stage{{Name: "one", Corpus: "capability", Steps: 10}, {Name: "two", Corpus: "preference", Steps: 21}, {Name: "three", Corpus: "answers", Steps: 30}} {
		want.Stages[i].Name, want.Stages[i].Corpus, want.Stages[i].Steps = s.Name, s.Corpus, s.Steps
	}
	want.Stages[1].AdamBetas = [2]float64{0.5, 0.6}
	want.Stages[2].LearningRate, want.Stages[2].BatchSize = 1, 8
	if !reflect.DeepEqual(r.Config, want) {
		t.Errorf("got\n%+v\nwant\n%+v", r.Config, want)
	}
	if got, want := r.Origin("stages.1.corpus").String(), path+": line 5"; got != want {
		t.Errorf("origin %q, want %q", got, want)
	}
	if got := r.Origin("stages.1.steps").String(); got != "GRPO_STAGES_1_STEPS" {
		t.Errorf("origin %q", got)
	}
}
