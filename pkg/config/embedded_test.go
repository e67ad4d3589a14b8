package config

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"grpo/configs"
	"grpo/internal/yamldoc"
)

// TestDefaultFile: default.yaml documents the defaults, so it equals [Default] in every key.
func TestDefaultFile(t *testing.T) {
	src, err := open("default", Names())
	if err != nil {
		t.Fatal(err)
	}
	var c Config
	doc := formOf(c).Decode(src.label, src.text, &c)
	if len(doc.Problems) > 0 {
		t.Fatal(doc.Problems)
	}
	if !reflect.DeepEqual(c, Default()) {
		t.Errorf("default.yaml has\n%+v\nand Default() is\n%+v", c, Default())
	}
	if listed, keys := listed(doc, c), keysOf(Default()).paths(); !slices.Equal(listed, keys) {
		t.Errorf("default.yaml lists\n%v\nwant every key in the order of the structs\n%v", listed, keys)
	}
}

// listed lists the keys that a file gives, in the order of their lines.
func listed(doc *yamldoc.Document, root any) []string {
	keys := slices.DeleteFunc(keysOf(root).paths(), func(key string) bool { return doc.Lines[key] == 0 })
	slices.SortStableFunc(keys, func(a, b string) int { return doc.Lines[a] - doc.Lines[b] })
	return keys
}

// TestBaseFile: the recipe relies on no default, and makes a model for the default experiment, from
// the same problems.
func TestBaseFile(t *testing.T) {
	src, err := open("base", NamesSFT())
	if err != nil {
		t.Fatal(err)
	}
	var recipe SFT
	listed := listed(formOf(recipe).Decode(src.label, src.text, &recipe), recipe)
	r, loadErr := LoadSFT(LoadOptions{})
	if loadErr != nil {
		t.Fatal(loadErr)
	}
	if keys := keysOf(r.Config).paths(); !slices.Equal(listed, keys) {
		t.Errorf("base.yaml lists\n%v\nwant every key\n%v", listed, keys)
	}
	c := Default()
	if r.Config.Data != c.Data {
		t.Errorf("base.yaml has the data %+v, default.yaml %+v", r.Config.Data, c.Data)
	}
	if m := r.Config.Model; m.HiddenSize != c.Model.HiddenSize || m.NumLayers != c.Model.NumLayers || m.Init != "random" {
		t.Errorf("base.yaml has the model %+v", m)
	}
	stages := r.Config.Stages
	if len(stages) != 2 || stages[0].Corpus != "capability" || stages[1].Corpus != "preference" {
		t.Errorf("want a stage of capability and one of preference, got %+v", stages)
	}
}

// TestRewardModelFile: the file lists every key, and its settings of the model are those of a run.
func TestRewardModelFile(t *testing.T) {
	src, err := open(rewardModelName, NamesRewardModel())
	if err != nil {
		t.Fatal(err)
	}
	var c RewardModel
	doc := formOf(c).Decode(src.label, src.text, &c)
	if keys := keysOf(c).paths(); !slices.Equal(listed(doc, c), keys) {
		t.Errorf("it lists\n%v\nwant every key\n%v", listed(doc, c), keys)
	}
	if c.Model != Default().Model || c.Name != rewardModelName {
		t.Errorf("%+v", c)
	}
	load := func(set ...string) error {
		_, err := LoadRewardModel(LoadOptions{Set: set})
		return err
	}
	if err := load("pairs=x.jsonl"); err != nil {
		t.Error(err)
	}
	// The environment may name keys of several commands.
	r, err := LoadRewardModel(LoadOptions{Env: []string{"GRPO_PAIRS=x", "GRPO_LEARNING_RATE=0.5", "GRPO_TRAIN_LEARNING_RATE=1"}})
	if err != nil || r.Config.Pairs != "x" || r.Config.LearningRate != 0.5 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := Load(LoadOptions{Env: []string{"GRPO_EVAL_SHARE=0.2"}}); err != nil {
		t.Error(err)
	}
	for says, set := range map[string][]string{
		"pairs (\"\", reward-model (embedded): line":       {"seed=2"},
		"eval_share (0.3, --set eval_share) has no effect": {"pairs=x", "eval_pairs=y", "eval_share=0.3"},
		"eval_share (1, --set eval_share) must be":         {"pairs=x", "eval_share=1"},
		"did you mean \"batch_size\"":                      {"pairs=x", "batchsize=3"},
	} {
		if err := load(set...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, want %q", set, err, says)
		}
	}
}

func TestEmbeddedLoad(t *testing.T) {
	want := append(configs.Names(presetFolder), "default", "dpo", "dpo-smollm2", "learned-reward", "smoke", "smollm2")
	slices.Sort(want)
	if !slices.Equal(Names(), want) {
		t.Errorf("Names() = %v, want %v", Names(), want)
	}
	for _, name := range Names() {
		r, err := Load(LoadOptions{Path: name})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if r.Config.Name != name {
			t.Errorf("%s names itself %q", name, r.Config.Name)
		}
	}
	for _, name := range NamesSFT() {
		if _, err := LoadSFT(LoadOptions{Path: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAssignmentFile compares a5-2025 with the assignment's own numbers.
func TestAssignmentFile(t *testing.T) {
	r, err := Load(LoadOptions{Path: "a5-2025"})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"n_grpo_steps": "200", "learning_rate": "1e-5", "advantage_eps": "1e-6", "rollout_batch_size": "256",
		"group_size": "8", "sampling_temperature": "1", "sampling_min_tokens": "4", "epochs_per_rollout_batch": "1",
		"train_batch_size": "256", "gradient_accumulation_steps": "128", "loss_type": "reinforce_with_baseline",
		"use_std_normalization": "true", "adam_betas": "[0.9, 0.95]", "weight_decay": "0", "max_grad_norm": "1",
		"sampling_max_tokens": "64",
	} {
		if got, err := Get(r.Config, key); err != nil || got != want {
			t.Errorf("%s is %s (%v), want %s", key, got, err, want)
		}
	}
}

// TestSmokeIsSmall limits smoke to a few seconds: few sampled completions, in training and
// evaluation.
func TestSmokeIsSmall(t *testing.T) {
	r, err := Load(LoadOptions{Path: "smoke"})
	if err != nil {
		t.Fatal(err)
	}
	c := r.Config
	completions := c.Train.NGRPOSteps * c.Rollout.RolloutBatchSize
	evaluations := 2 + c.Train.NGRPOSteps/c.Eval.EveryNSteps
	completions += 2*evaluations*c.Data.ValSize + 2*(c.Data.TestSize+c.Data.UnseenSize)
	if completions > 5000 || c.Model.Init != "base" {
		t.Errorf("smoke samples %d completions from %q: more than a few seconds", completions, c.Model.Init)
	}
}

func TestKeysAreDocumented(t *testing.T) {
	env := map[string]string{}
	check := func(file string, keys []string, values map[string][]string) {
		text, err := readEmbedded(file)
		if err != nil {
			t.Fatal(err)
		}
		docs := formOf(SFT{}).Decode(file, text, &SFT{}).Comments
		if file == "default" {
			docs = formOf(Config{}).Decode(file, text, &Config{}).Comments
		}
		for _, key := range keys {
			if len(docs[key]) < 5 || strings.HasPrefix(docs[key], ".") {
				t.Errorf("%s: %s has the doc %q", file, key, docs[key])
			}
			if other, ok := env[EnvName(key)]; ok && other != key {
				t.Errorf("%s and %s share the variable %s", key, other, EnvName(key))
			}
			env[EnvName(key)] = key
			for _, v := range values[key] {
				if !strings.Contains(docs[key], `"`+v+`"`) {
					t.Errorf("%s: the doc of %s does not explain %q", file, key, v)
				}
			}
		}
	}
	check("default", keysOf(Default()).paths(), validValues(&Config{}))
	sft := SFT{Stages: make([]Stage, 1)}
	check("base", keysOf(sft).paths(), validValues(&sft))
	got, err := FindKey(" lr")
	want := Key{Path: "train.learning_rate", Kind: reflect.Float64, Default: "0.001",
		Doc: "learning rate of AdamW, the highest of a schedule; lr for short. A Llama or Qwen checkpoint has a default of 1e-5, and LoRA one that is ten times as high."}
	if err != nil || !reflect.DeepEqual(got, want) || !slices.Contains(Keys(), want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// validValues lists the values of keys that have a list of them.
func validValues[T Root](c *T) map[string][]string {
	values := map[string][]string{}
	for _, k := range keysOf(c) {
		values[k.path] = k.of
	}
	return values
}

// TestNamesOfKeys: other names map to keys that exist.
func TestNamesOfKeys(t *testing.T) {
	keys := append(keysOf(Default()).paths(), keysOf(SFT{Stages: make([]Stage, 1)}).paths()...)
	for _, names := range []map[string]string{synonyms, aliases, secondNames} {
		for name, key := range names {
			if !slices.Contains(keys, key) {
				t.Errorf("%q means %q, which does not exist", name, key)
			}
		}
	}
	for _, key := range slices.Collect(maps.Keys(secondValues)) {
		if !slices.Contains(keys, key) {
			t.Errorf("%q does not exist", key)
		}
	}
}

// TestDefaultsAreSeparate: who changes an element of a list changes no other configuration.
func TestDefaultsAreSeparate(t *testing.T) {
	want, c := Marshal(Default()), Default()
	for _, f := range keysOf(&c) {
		if f.value.Kind() == reflect.Slice && f.value.Len() > 0 {
			f.value.Index(0).SetZero()
		}
	}
	if got := Marshal(Default()); !bytes.Equal(got, want) {
		t.Errorf("the defaults are now\n%s", got)
	}
}
