package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// write puts a text into a file of a fresh folder and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.yaml")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// sample is a valid value of each key that differs from the default, so that a
// source that does not reach a key shows.
var sample = map[string]string{
	"name": "other", "seed": "18446744073709551615",
	"data.source": "gsm8k", "data.train_file": "a.jsonl", "data.val_file": "B.jsonl", "data.test_file": "c d.jsonl",
	"data.skip_bad": "true", "data.annotations": "strip", "data.prompt_template": "r1_zero",
	"data.generator_seed": "0", "data.weight_add": "0.1", "data.weight_sub": "2", "data.weight_mul": "0",
	"data.val_size": "10", "data.test_size": "0", "data.unseen_size": "11", "data.train_size": "12",
	"model.hidden_size": "128", "model.num_layers": "1", "model.init": "Runs/x.safetensors", "model.device": "cpu",
	"rollout.rollout_batch_size": "512", "rollout.group_size": "16", "rollout.sampling_temperature": "0.7",
	"rollout.sampling_top_p": "0.95", "rollout.sampling_top_k": "20", "rollout.sampling_min_tokens": "4",
	"rollout.sampling_max_tokens": "32",
	"reward.functions":            "[format, answer]", "reward.reward_weights": "[0.25, -1]",
	"algorithm.loss_type": "grpo_clip", "algorithm.use_std_normalization": "false", "algorithm.advantage_eps": "1e-4",
	"algorithm.cliprange": "0.3", "algorithm.length_normalization": "masked_normalize", "algorithm.normalize_constant": "100.5",
	"train.n_grpo_steps": "7", "train.epochs_per_rollout_batch": "2", "train.train_batch_size": "128",
	"train.gradient_accumulation_steps": "4", "train.learning_rate": "3e-4", "train.adam_betas": "[0.8, 0.99]",
	"train.adam_eps": "1e-9", "train.weight_decay": "0.01", "train.max_grad_norm": "0",
	"eval.every_n_steps": "5", "eval.greedy": "false", "eval.save_samples": "0",
	"output.checkpoint_every_n_steps": "50", "output.keep_checkpoints": "3",
}

// sampleConfig is what those values make.
func sampleConfig() Config {
	return Config{
		Name: "other", Seed: 1<<64 - 1,
		Data: Data{Source: "gsm8k", TrainFile: "a.jsonl", ValFile: "B.jsonl", TestFile: "c d.jsonl", SkipBad: true,
			Annotations: "strip", PromptTemplate: "r1_zero", WeightAdd: 0.1, WeightSub: 2,
			ValSize: 10, UnseenSize: 11, TrainSize: 12},
		Model: Model{HiddenSize: 128, NumLayers: 1, Init: "Runs/x.safetensors", Device: "cpu"},
		Rollout: Rollout{RolloutBatchSize: 512, GroupSize: 16, SamplingTemperature: 0.7, SamplingTopP: 0.95,
			SamplingTopK: 20, SamplingMinTokens: 4, SamplingMaxTokens: 32},
		Reward: Reward{Functions: []string{"format", "answer"}, RewardWeights: []float64{0.25, -1}},
		Algorithm: Algorithm{LossType: "grpo_clip", AdvantageEps: 1e-4, Cliprange: 0.3,
			LengthNormalization: "masked_normalize", NormalizeConstant: 100.5},
		Train: Train{NGRPOSteps: 7, EpochsPerRolloutBatch: 2, TrainBatchSize: 128, GradientAccumulationSteps: 4,
			LearningRate: 3e-4, AdamBetas: [2]float64{0.8, 0.99}, AdamEps: 1e-9, WeightDecay: 0.01},
		Eval:   Eval{EveryNSteps: 5},
		Output: Output{CheckpointEveryNSteps: 50, KeepCheckpoints: 3},
	}
}

// TestEverySourceReachesEveryKey: viper drops environment values of keys that
// it does not know and lower-cases what it does; nothing of that may show.
func TestEverySourceReachesEveryKey(t *testing.T) {
	var file strings.Builder
	var env, set []string
	var flags []Flag
	section := ""
	for _, key := range leafPaths(Default()) {
		value, ok := sample[key]
		if !ok {
			t.Fatalf("the sample has no %s", key)
		}
		head, rest, nested := strings.Cut(key, ".")
		if nested && head != section {
			section = head
			fmt.Fprintf(&file, "%s:\n", head)
		}
		if nested {
			fmt.Fprintf(&file, "  %s: %s\n", rest, value)
		} else {
			fmt.Fprintf(&file, "%s: %s\n", key, value)
		}
		env = append(env, EnvName(key)+"="+value)
		set = append(set, key+"="+value)
		flags = append(flags, Flag{Key: key, Name: "--x", Value: value})
	}
	for name, opts := range map[string]LoadOptions{
		"file": {Path: write(t, file.String())}, "env": {Env: env}, "set": {Set: set}, "flags": {Flags: flags},
	} {
		r, err := Load(opts)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !reflect.DeepEqual(r.Config, sampleConfig()) {
			t.Errorf("%s: got\n%+v\nwant\n%+v", name, r.Config, sampleConfig())
		}
		for _, row := range r.Rows() {
			if row.Origin.Source == SourceDefault {
				t.Errorf("%s: %s comes from the %v", name, row.Key, row.Origin)
			}
		}
	}
}

// TestOrder: defaults < file < environment < --set < flags, and the origin says
// which one it was.
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
		{"flag", func() { opts.Flags = []Flag{{"train.learning_rate", "--lr", "5e-3"}} }, 5e-3, "--lr"},
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

// TestResolvedZeros: what stands for another key's value is written out, after
// all sources have spoken.
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
		{"unknown name", "smok", `load config: no configuration "smok" (did you mean "smoke"?): the embedded ones are a5-2025, default, smoke; the path of a YAML file works too`},
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
	t.Run("a file beside the embedded name", func(t *testing.T) {
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

// TestMergeIsExact: the strictness of the readers does not rest on itself; the
// decoding refuses what they might let through.
func TestMergeIsExact(t *testing.T) {
	tests := []struct {
		name string
		s    setting
	}{
		{"unknown key", setting{path: "train.unknown", value: 1}},
		{"unknown section", setting{path: "unknown.lr", value: 1}},
		{"text for a number", setting{path: "train.learning_rate", value: "1"}},
		{"number for a truth value", setting{path: "eval.greedy", value: 1}},
		{"scalar for a list", setting{path: "reward.functions", value: "answer"}},
	}
	for _, test := range tests {
		if got, err := merge(Default(), []setting{test.s}); err == nil {
			t.Errorf("%s: accepted as %+v", test.name, got)
		}
	}
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
