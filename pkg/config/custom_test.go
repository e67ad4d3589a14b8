package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"grpo/internal/expect"
)

func loadYAML(t *testing.T, text string, set ...string) (*Resolved, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.yaml")
	expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
	r, err := Load(LoadOptions{Path: path, Set: set})
	if err != nil {
		err = &Error{Doing: "load", Problems: []string{strings.ReplaceAll(err.Error(), path, "x.yaml")}}
	}
	return r, err
}

const twoCustom = `
reward:
  functions:
    - answer
    - {name: judge, command: [python3, my judge.py], weight: 0.5, timeout: 5, workers: 4, on_error: null}
    - name: short
      expr: 1 - len(tokens) / max_tokens
`

func TestCustomRewards(t *testing.T) {
	r, err := loadYAML(t, twoCustom)
	expect.OK(t, err)
	got := r.Config.Reward
	if !reflect.DeepEqual(got.Functions, []string{"answer", "judge", "short"}) || !reflect.DeepEqual(got.RewardWeights, []float64{1, 0.5, 1}) {
		t.Errorf("%v, weights %v", got.Functions, got.RewardWeights)
	}
	want := []CustomReward{
		{Name: "judge", Command: []string{"python3", "my judge.py"}, OnError: "null", Timeout: 5, Workers: 4, Restarts: 1},
		{Name: "short", Command: []string{}, Expr: "1 - len(tokens) / max_tokens", OnError: "fail", Timeout: 60, Workers: 1, Restarts: 1},
	}
	if !reflect.DeepEqual(got.Custom, want) {
		t.Errorf("custom %+v", got.Custom)
	}
	if o := r.Origin("reward.custom.1.expr"); !strings.HasSuffix(o.String(), "x.yaml: line 7") {
		t.Errorf("origin %s", o)
	}

	// Written, it reads back as the same configuration.
	text := Marshal(r.Config)
	back, err := LoadText("config.yaml", text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if d := Diff(r.Config, back.Config); len(d) > 0 || Hash(back.Config) != Hash(r.Config) {
		t.Errorf("differences %v", d)
	}

	// What changes no reward is not part of the hash; what does, is.
	for set, same := range map[string]bool{
		"reward.custom.0.timeout=6": true, "reward.custom.0.workers=1": true, "reward.custom.0.restarts=0": true,
		"reward.custom.0.on_error=fail": false, "reward.custom.0.command=python3,other.py": false,
		"reward.custom.1.expr=1": false, "reward.custom.0.reuse=true": false, "reward.custom.0.reuse=false": true,
		"reward.reward_weights=1,1,1": false,
	} {
		other, err := loadYAML(t, twoCustom, set)
		if err != nil {
			t.Fatalf("%s: %v", set, err)
		}
		if (Hash(other.Config) == Hash(r.Config)) != same {
			t.Errorf("%s: hash %s and %s", set, Hash(other.Config), Hash(r.Config))
		}
	}
}

// TestUnusedCustomRewards: an arm without a custom reward is the run that it would be without its
// definition, and the order of definitions does not matter.
func TestUnusedCustomRewards(t *testing.T) {
	r, err := loadYAML(t, twoCustom, "reward.functions=answer", "reward.reward_weights=1")
	expect.OK(t, err)
	if Hash(r.Config) != Hash(Default()) || string(Marshal(r.Config)) != string(Marshal(Default())) {
		t.Errorf("it differs from the default: %v", Diff(Default(), r.Config))
	}
	if strings.Contains(string(Marshal(r.Config)), "custom") {
		t.Error("a configuration without custom rewards is written in another form")
	}
	a, err := loadYAML(t, twoCustom, "reward.functions=short,judge", "reward.reward_weights=1,2")
	expect.OK(t, err)
	if c := a.Config.Reward.Custom; len(c) != 2 || c[0].Name != "short" || c[1].Name != "judge" {
		t.Errorf("custom %+v", c)
	}
	if o := a.Origin("reward.custom.0.expr"); !strings.HasSuffix(o.String(), "x.yaml: line 7") {
		t.Errorf("origin %s", o)
	}
	alone, err := loadYAML(t, "reward: {functions: [{name: p, pattern: '#### \\d+$'}]}")
	if err != nil || !reflect.DeepEqual(alone.Config.Reward.RewardWeights, []float64{1}) {
		t.Errorf("alone: %v", err)
	}
}

// TestLearnedRewards: a reward model needs no name, and its path is part of the hash.
func TestLearnedRewards(t *testing.T) {
	r, err := loadYAML(t, "reward: {functions: [answer, {model: judge, weight: 2}, {name: other, model: b, on_error: null}]}")
	expect.OK(t, err)
	c := &r.Config.Reward
	if !reflect.DeepEqual(c.Functions, []string{"answer", "learned", "other"}) || !reflect.DeepEqual(c.RewardWeights, []float64{1, 2, 1}) ||
		len(c.Custom) != 2 || c.Custom[0].Model != "judge" || c.Custom[1].Model != "b" {
		t.Errorf("%+v", c)
	}
	again, err := LoadText("config.yaml", Marshal(r.Config))
	if err != nil || Hash(again.Config) != Hash(r.Config) {
		t.Errorf("read again: %v", err)
	}
	again.Config.Reward.Custom[0].Model = "elsewhere"
	if Hash(again.Config) == Hash(r.Config) {
		t.Error("another model has the same hash")
	}
}

func TestCustomRewardErrors(t *testing.T) {
	for text, want := range map[string]string{
		"[{command: [a]}]":                                                   "x.yaml: line 1: reward.functions: element 1 has no name (add name: to it",
		"[{name: a}]":                                                        "reward.custom.0.name (\"a\", x.yaml: line 1) must have one of command, pattern, expr and model, not 0 of them",
		"[{name: a, pattern: b, expr: c}]":                                   "one of command, pattern, expr and model, not 2 of them",
		"[{name: answer, pattern: b}]":                                       "is the name of a built-in reward function",
		"[{name: a b, pattern: b}]":                                          "must be a letter and up to 39 letters",
		"[{name: a, pattern: b}, {name: a, pattern: c}]":                     "two reward functions have this name",
		"[{name: a, pattern: (}]":                                            "not an RE2 pattern: error parsing regexp: missing closing )",
		"[{name: a, expr: toks}]":                                            "not an expression: unknown name toks",
		"[{name: a, command: sh -c x}]":                                      "reward.custom.0.command must be a list of strings, not",
		"[{name: a, command: [a], timeout: 0}]":                              "must be at least 0.001",
		"[{name: a, command: [a], workers: 0}]":                              "must be at least 1",
		"[{name: a, command: [a], on_error: zero}]":                          "must be one of fail, null",
		"[{name: a, command: [a], wieght: 1}]":                               `unknown key "wieght"`,
		"[{name: a, command: [a], weight: x}]":                               "reward.reward_weights element 1 must be a number",
		"[{name: a, pattern: b, timeout: 3}]":                                "reward.custom.0.timeout (3, x.yaml: line 1) has no effect",
		"[{name: a, pattern: b, on_error: null}]":                            "has no effect",
		"[answer, {name: a, pattern: b, weight: 2}], reward_weights: [1, 1]": "weight can't be combined with reward_weights",
		"[{model: a}, {model: b}]":                                           "two reward functions have this name",
		"[{model: a, pattern: b}]":                                           "one of command, pattern, expr and model, not 2 of them",
		"[{model: a, workers: 2}]":                                           "reward.custom.0.workers (2, x.yaml: line 1) has no effect",
		"[answr]":                                                            `"answr" must be one of answer, format`,
	} {
		_, err := loadYAML(t, "reward: {functions: "+text+"}\n")
		wantError(t, text, err, want)
	}
	_, err := loadYAML(t, "algorithm: {normalizer: group_mean}\nreward: {functions: [{name: a, expr: '1'}]}\n")
	wantError(t, "a negative reward", err, "rewards may be negative")
}

// Settings may define functions by their full keys, as the sweep.yaml of a sweep does.
func TestCustomRewardKeys(t *testing.T) {
	r, err := Load(LoadOptions{Set: []string{"reward.custom.0.name=short", "reward.custom.0.expr=1 / len(tokens)",
		"reward.functions=[answer, short]", "reward_weights=[1, 0.5]"}})
	expect.OK(t, err)
	want := CustomReward{Name: "short", Expr: "1 / len(tokens)", Command: []string{}, OnError: "fail", Timeout: 60, Workers: 1, Restarts: 1}
	if got := r.Config.Reward.Custom; len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Errorf("%+v", got)
	}
	if k, err := FindKey("reward.custom.3.timeout"); err != nil || k.Kind != reflect.Float64 || k.Default != "60" {
		t.Errorf("%+v, %v", k, err)
	}
	for _, name := range []string{"reward.custom.0.wieght", "reward.custom.-1.name", "reward.custom.00.name",
		"reward.custom.99999999999.name", "reward.custom.x.name", "reward.custom.0"} {
		if _, err := FindKey(name); err == nil {
			t.Errorf("%s is a key", name)
		}
		if _, err := Load(LoadOptions{Set: []string{name + "=1"}}); err == nil {
			t.Errorf("--set %s works", name)
		}
	}
	if _, err := Load(LoadOptions{Set: []string{"reward.custom.1.name=b"}}); err == nil {
		t.Error("a function without a name is accepted")
	}
}
