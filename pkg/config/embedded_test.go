package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestDefaultFile: default.yaml is the documentation of the defaults, so it says
// the same as [Default], of every key.
func TestDefaultFile(t *testing.T) {
	src, err := open("default", Names())
	if err != nil {
		t.Fatal(err)
	}
	doc := readDocument(src, reflect.TypeFor[Config](), nil)
	if len(doc.problems) > 0 {
		t.Fatal(doc.problems)
	}
	merged, mergeErr := merge(Config{}, doc.settings) // over zeros, not over the defaults
	if mergeErr != nil {
		t.Fatal(mergeErr)
	}
	want := leaves(Default())
	for i, f := range leaves(merged) {
		if !reflect.DeepEqual(f.value.Interface(), want[i].value.Interface()) {
			t.Errorf("%s is %v in default.yaml and %v in Default()", f.path, f.value, want[i].value)
		}
	}
	var listed []string
	for _, s := range doc.settings {
		listed = append(listed, s.path)
	}
	if keys := leafPaths(Default()); !slices.Equal(listed, keys) {
		t.Errorf("default.yaml lists\n%v\nwant every key in the order of the structs\n%v", listed, keys)
	}
}

// TestBaseFile: the recipe leaves nothing to defaults, and makes a model for the
// default experiment, from the same problems.
func TestBaseFile(t *testing.T) {
	src, err := open("base", NamesSFT())
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, s := range readDocument(src, reflect.TypeFor[SFT](), nil).settings {
		listed = append(listed, s.path)
	}
	r, loadErr := LoadSFT(LoadOptions{})
	if loadErr != nil {
		t.Fatal(loadErr)
	}
	if keys := leafPaths(r.Config); !slices.Equal(listed, keys) {
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

func TestEmbeddedLoad(t *testing.T) {
	want := []string{"default", "smoke"}
	for _, p := range Presets() {
		want = append(want, p.Name)
	}
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

// TestAssignmentFile holds a5-2025 to the assignment's own numbers.
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

// TestSmokeIsSmall keeps smoke within a few seconds: its sampled completions,
// in training and evaluation, are few.
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
	for name, keys := range map[string][]Key{"Config": Keys(), "SFT": keysOfSFT()} {
		env := map[string]string{}
		for _, k := range keys {
			if len(k.Doc) < 5 || strings.HasPrefix(k.Doc, ".") {
				t.Errorf("%s: %s has the doc %q", name, k.Path, k.Doc)
			}
			if other, ok := env[k.Env]; ok {
				t.Errorf("%s: %s and %s share the variable %s", name, k.Path, other, k.Env)
			}
			env[k.Env] = k.Path
			for _, v := range k.Values {
				if !strings.Contains(k.Doc, `"`+v+`"`) && len(k.Values) > 1 {
					t.Errorf("%s: the doc of %s does not say what %q is", name, k.Path, v)
				}
			}
		}
	}
	i := slices.IndexFunc(Keys(), func(k Key) bool { return k.Path == "train.learning_rate" })
	want := Key{Path: "train.learning_rate", Type: "a number", Default: "0.001", Env: "GRPO_TRAIN_LEARNING_RATE", Alias: "lr",
		Doc: "learning rate of AdamW, constant; lr for short"}
	if got := Keys()[i]; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestRulesNameKeys: a rule about a key that does not exist would never run.
func TestRulesNameKeys(t *testing.T) {
	check := func(rules []rule, keys []Key) {
		ruled := map[string]bool{}
		for _, r := range rules {
			for _, key := range r.keys {
				ruled[key] = true
				if !slices.ContainsFunc(keys, func(k Key) bool { return k.Path == key }) {
					t.Errorf("a rule names the key %q, which does not exist", key)
				}
			}
		}
		for _, k := range keys {
			if !ruled[k.Path] && k.Type != "true or false" && k.Type != "an integer of 0 or more" {
				t.Errorf("no rule is about %s", k.Path)
			}
		}
	}
	check(rulesConfig, Keys())
	check(rulesSFT, keysOfSFT())
	for name, key := range synonyms {
		if !slices.Contains(leafPaths(Default()), key) {
			t.Errorf("the synonym %q stands for %q, which does not exist", name, key)
		}
	}
	for _, key := range append(slices.Collect(maps.Values(aliases)), outsideHash...) {
		if !slices.Contains(leafPaths(Default()), key) {
			t.Errorf("%q does not exist", key)
		}
	}
}
