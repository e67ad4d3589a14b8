package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"grpo/internal/expect"
)

// loadSet loads a configuration by --set.
func loadSet(t testing.TB, set string) *Resolved {
	t.Helper()
	r, err := Load(LoadOptions{Set: strings.Fields(set)})
	if err != nil {
		t.Fatalf("%s: %v", set, err)
	}
	return r
}

// has checks the value of a key.
func has(t *testing.T, what string, r *Resolved, key, want string) {
	t.Helper()
	if got, err := Get(r.Config, key); err != nil || strings.ReplaceAll(got, ", ", ",") != strings.ReplaceAll(want, ", ", ",") {
		t.Errorf("%s: %s is %s (%v), want %s", what, key, got, err, want)
	}
}

// wantError checks that an error is one of the configuration with these words.
func wantError(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	for _, want := range words {
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v\nwant %s", what, err, want)
		}
	}
}

// write puts a string into a file of a new folder and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.yaml")
	expect.OK(t, os.WriteFile(path, []byte(text), 0o666))
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

func TestLoadFiles(t *testing.T) {
	dir := t.TempDir()
	big := filepath.Join(dir, "big.yaml")
	expect.OK(t, os.WriteFile(big, []byte("# "+strings.Repeat("x", maxFileSize)), 0o666))
	locked := filepath.Join(dir, "locked.yaml")
	expect.OK(t, os.WriteFile(locked, []byte("seed: 1"), 0))
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
			wantError(t, test.path, err, test.want)
		})
	}
	if _, err := Load(LoadOptions{Path: "nowhere/x.yaml"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v does not wrap fs.ErrNotExist", err)
	}
	t.Run("a file with the embedded name", func(t *testing.T) {
		t.Chdir(dir)
		expect.OK(t, os.WriteFile("smoke", []byte("seed: 5\n"), 0o666))
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
	expect.OK(t, err)
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

// TestLayers: later files override earlier ones key by key, the origin names the file and line, the hash
// is that of the result, and a mistake in any file is an error.
func TestLayers(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		expect.OK(t, os.WriteFile(path, []byte(text), 0o666))
		return path
	}
	a := file("a.yaml", "seed: 3\ntrain:\n  learning_rate: 2e-3\n  num_iterations: 4\n")
	b := file("b.yaml", "train:\n  learning_rate: 3e-3\n  epochs_per_rollout_batch: 1\n")
	r, err := Load(LoadOptions{Path: "smoke", Over: []string{a, b}})
	expect.OK(t, err)
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
		expect.Error(t, expect.Err(Load(opts)), bad+`: line 2: unknown key "lrr"`)
	}
}

// Only what the user gave is chosen: not the values of presets, of defaults, or of a configuration that
// the program wrote.
func TestChosen(t *testing.T) {
	dir := t.TempDir()
	own, resolved := filepath.Join(dir, "own.yaml"), filepath.Join(dir, "config.yaml")
	c := Default()
	c.Data.Annotations = "strip"
	for path, text := range map[string][]byte{own: []byte("data: {annotations: strip}\n"), resolved: Marshal(c)} {
		expect.OK(t, os.WriteFile(path, text, 0o600))
	}
	for _, tt := range []struct {
		options LoadOptions
		key     string
		want    bool
	}{
		{LoadOptions{}, "data.annotations", false},
		{LoadOptions{Path: "smoke"}, "train.n_grpo_steps", false},
		{LoadOptions{Path: own}, "data.annotations", true},
		{LoadOptions{Path: resolved}, "data.annotations", false},
		{LoadOptions{Path: resolved, Set: []string{"data.annotations=equation"}}, "data.annotations", true},
		{LoadOptions{Set: []string{"data.annotations=strip"}}, "data.annotations", true},
	} {
		r, err := Load(tt.options)
		expect.OK(t, err)
		if got := r.Chosen(tt.key); got != tt.want {
			t.Errorf("%+v: %s chosen %v, want %v", tt.options, tt.key, got, tt.want)
		}
	}
}

// The default sizes are for generated problems. Files for evaluation are used whole unless a source
// sets a size.
func TestSizesOfFiles(t *testing.T) {
	files := []string{"data.source=gsm8k", "train_file=t.jsonl", "val_file=v.jsonl", "test_file=u.jsonl"}
	for _, tt := range []struct {
		name, path string
		set        []string
		val, test  int
	}{
		{"generated", "", nil, 1024, 1024},
		{"files", "", files, 0, 0},
		{"files under an embedded configuration with the default sizes", "default", files, 0, 0},
		{"files with a configuration that sets sizes", "smoke", files, 128, 128},
		{"a size that was given", "", append([]string{"val_size=1024"}, files...), 1024, 0},
		{"sizes that were given", "", append([]string{"val_size=5", "test_size=7"}, files...), 5, 7},
	} {
		r, err := Load(LoadOptions{Path: tt.path, Set: tt.set})
		expect.OK(t, err)
		if d := r.Config.Data; d.ValSize != tt.val || d.TestSize != tt.test {
			t.Errorf("%s: val_size %d, test_size %d, want %d and %d", tt.name, d.ValSize, d.TestSize, tt.val, tt.test)
		}
		again, err := LoadText("config.yaml", Marshal(r.Config))
		if err != nil || Hash(again.Config) != Hash(r.Config) {
			t.Errorf("%s: the resolved configuration does not repeat: %v", tt.name, err)
		}
	}
	old, err := LoadText("config.yaml", []byte("data: {source: gsm8k, train_file: t.jsonl, val_file: v.jsonl, val_size: 1024, test_size: 1024}\n"))
	if err != nil || old.Config.Data.ValSize != 1024 {
		t.Errorf("the configuration of an older run keeps its size: %v, %v", old, err)
	}
}
