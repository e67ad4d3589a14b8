package config

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/yamldoc"
)

// TestDefaultFile: default.yaml documents the defaults, so it equals [Default] in every key.
func TestDefaultFile(t *testing.T) {
	src, err := open("default", Names())
	expect.OK(t, err)
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
	expect.OK(t, err)
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
	if !reflect.DeepEqual(r.Config.Data, c.Data) {
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
	expect.OK(t, err)
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
	expect.OK(t, load("pairs=x.jsonl"))
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
		wantError(t, strings.Join(set, " "), load(set...), says)
	}
}

func TestEmbeddedLoad(t *testing.T) {
	for _, name := range NamesSFT() {
		if _, err := LoadSFT(LoadOptions{Path: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSmokeIsSmall limits smoke to a few seconds: few sampled completions, in training and
// evaluation.
func TestSmokeIsSmall(t *testing.T) {
	r, err := Load(LoadOptions{Path: "smoke"})
	expect.OK(t, err)
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
		expect.OK(t, err)
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
	want := Key{Path: "train.learning_rate", Kind: reflect.Float64, Default: "0.001", typ: reflect.TypeFor[float64](),
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
	want, loaded := Marshal(Default()), loadSet(t, "")
	for _, c := range []Config{Default(), loaded.Config} {
		for _, f := range keysOf(&c) {
			if f.value.Kind() == reflect.Slice && f.value.Len() > 0 {
				f.value.Index(0).SetZero()
			}
		}
		if got := Marshal(Default()); !bytes.Equal(got, want) || !bytes.Equal(Marshal(loadSet(t, "").Config), want) {
			t.Errorf("the defaults are now\n%s", got)
		}
	}
}
