package sweep

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
)

const wholeRequest = `# every key
name: clip
title: Clipping
question: Does a clip help?
config: smoke
set:
  epochs_per_rollout_batch: 4
  algorithm.use_std_normalization: false
arms:
  - name: symmetric
    label: symmetric clip
    set: {loss_type: grpo_clip}
  - name: none
    set: {loss_type: grpo_no_clip, reward.functions: [answer, format], reward_weights: [1, 0.5]}
    control: true
axes:
  - key: lr
    label: learning rate
    values: [3e-4, 1e-3]
reference: symmetric,lr=0.001
best_over: lr
fixed: [learning_rate, group_size]
notes:
  - One rate for all arms.
  - >
    A note that is folded
    over two lines.
seeds: [1, 2, 5]
`

func TestParseRequest(t *testing.T) {
	got, err := ParseRequest("x.yaml", []byte(wholeRequest))
	expect.OK(t, err)
	want := Request{
		Name: "clip", Title: "Clipping", Question: "Does a clip help?", Config: "smoke",
		Set: []Setting{
			{"epochs_per_rollout_batch", "4", "x.yaml: line 7"},
			{"algorithm.use_std_normalization", "false", "x.yaml: line 8"},
		},
		Arms: []ArmRequest{
			{Name: "symmetric", Label: "symmetric clip", Set: []Setting{{"loss_type", "grpo_clip", "x.yaml: line 12"}}},
			{Name: "none", Control: true, Set: []Setting{
				{"loss_type", "grpo_no_clip", "x.yaml: line 14"},
				{"reward.functions", "[answer, format]", "x.yaml: line 14"},
				{"reward_weights", "[1, 0.5]", "x.yaml: line 14"},
			}},
		},
		Axes:      []AxisRequest{{Key: "lr", Label: "learning rate", Values: []string{"3e-4", "1e-3"}, From: "x.yaml: line 17"}},
		Reference: "symmetric,lr=0.001", BestOver: "lr", Fixed: []string{"learning_rate", "group_size"},
		Notes: []string{"One rate for all arms.", "A note that is folded over two lines."},
		Seeds: []uint64{1, 2, 5},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

// TestParseRequestProblems: each mistake is reported with its line and its fix.
func TestParseRequestProblems(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"empty", "", "x.yaml: the file is empty"},
		{"not a section", "- a\n", "x.yaml: line 1: want keys"},
		{"syntax", "name: a\narms: [\n", "x.yaml: line"},
		{"unknown key", "name: a\nsed: 4\narms: [{name: a}]", `x.yaml: line 2: unknown key "sed" (did you mean "set"?)`},
		{"duplicate key", "name: a\nname: b\narms: [{name: a}]", `x.yaml: line 2: duplicate key "name": it is already in line 1`},
		{"no name", "arms: [{name: a}]", "it has no name"},
		{"nothing to compare", "name: a", "neither arms nor axes"},
		{"empty arms", "name: a\narms: []", "x.yaml: line 2: arms must not be an empty list"},
		{"arm no section", "name: a\narms: [a]", "arms.0 must be a section with keys, not the value a"},
		{"arm without name", "name: a\narms:\n  - label: b\n", "x.yaml: line 3: the arm has no name"},
		{"duplicate arm", "name: a\narms: [{name: a}, {name: a}]", `duplicate arm "a"`},
		{"arm key", "name: a\narms: [{name: a, lable: x}]", `unknown key "lable" (did you mean "label"?)`},
		{"control", "name: a\narms: [{name: a, control: yes}]", "control must be true or false"},
		{"set no section", "name: a\narms: [{name: a, set: [lr]}]", "set must be a section with keys, not a list"},
		{"set nested", "name: a\nset: {algorithm: {loss_type: x}}\narms: [{name: a}]", "write the key with dots: algorithm.KEY"},
		{"set nothing", "name: a\nset:\n  lr:\narms: [{name: a}]", "x.yaml: line 3: lr must be a value, not nothing"},
		{"set twice", "name: a\nset:\n  lr: 1\n  lr: 2\narms: [{name: a}]", `duplicate key "lr": it is already in line 3`},
		{"merge", "name: a\nset: {<<: {lr: 1}}\narms: [{name: a}]", "line 2: merge keys"},
		{"list of lists", "name: a\nset: {lr: [[1], [2]]}\narms: [{name: a}]", "must be a single value, not "},
		{"axis without values", "name: a\naxes: [{key: lr}]", "an axis needs a key and its values"},
		{"axis with empty values", "name: a\naxes: [{key: lr, values: []}]", "values must not be an empty list"},
		{"question", "name: a\nquestion: Tell me.\narms: [{name: a}]", "question must end with a question mark"},
		{"choice without best_over", "name: a\nchoice_seeds: 2\narms: [{name: a}]", "line 2: choice_seeds must be 1 or more, and is for best_over"},
		{"reuse without best_over", "name: a\nreuse_choice: true\narms: [{name: a}]", "line 2: reuse_choice is for best_over"},
		{"choice on more seeds", "name: a\nbest_over: lr\nchoice_seeds: 6\nseeds: 4\narms: [{name: a}]", "line 3: choice_seeds (6) must not be more than"},
		{"choice on more seeds than by default", "name: a\nbest_over: lr\nchoice_seeds: 5\narms: [{name: a}]", "compared (4)"},
		{"choice and looks", "name: a\nbest_over: lr\nchoice_seeds: 2\nseeds: 4..16\narms: [{name: a}]", "line 3: choice_seeds does not go with planned looks"},
		{"same note", "name: a\nnotes: [b, b]\narms: [{name: a}]", `notes: "b" appears twice`},
		{"seeds of none", "name: a\nseeds: 0\narms: [{name: a}]", "seeds must be a count of 1 to 10000"},
		{"seeds in quotes", "name: a\nseeds: \"4\"\narms: [{name: a}]", "seeds must be a count"},
		{"seed twice", "name: a\nseeds: [1, 2, 1]\narms: [{name: a}]", "seeds: seed 1 appears twice"},
		{"seed below 0", "name: a\nseeds: [-1]\narms: [{name: a}]", "want an integer of 0 or more"},
		{"two documents", "name: a\narms: [{name: a}]\n---\nname: b\n", "a second YAML document begins"},
	}
	for _, test := range tests {
		_, err := ParseRequest("x.yaml", []byte(test.text))
		invalid(t, test.name, err, test.want)
	}
}

// TestParseRequestAll: all problems of a file are reported at once.
func TestParseRequestAll(t *testing.T) {
	_, err := ParseRequest("x.yaml", []byte("nam: a\nseeds: x\narms: []\n"))
	if err == nil || strings.Count(err.Error(), "x.yaml: line") != 4 {
		t.Errorf("want the unknown key, the seeds, the empty list and the missing name, got %v", err)
	}
}

func TestLoadRequest(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "my.yaml")
	expect.OK(t, os.WriteFile(file, []byte("name: mine\naxes: [{key: lr, values: [1e-3]}]"), 0o666))
	if req, err := LoadRequest(file); err != nil || req.Name != "mine" {
		t.Errorf("%+v, %v", req, err)
	}
	if req, err := LoadRequest("baseline"); err != nil || req.Name != "baseline" {
		t.Errorf("%+v, %v", req, err)
	}
	for name, want := range map[string]string{
		"baselin":       `no ablation "baselin" (did you mean "baseline"?)`,
		"./clip.yaml":   `no such file (the embedded ablation is named "clip")`,
		dir:             "this is a folder",
		"../smoke":      "no such file",
		"no/such/x.yml": "no such file",
	} {
		_, err := LoadRequest(name)
		invalid(t, name, err, want)
	}
}

func TestParseSeeds(t *testing.T) {
	for text, want := range map[string][]uint64{
		"4": {1, 2, 3, 4}, "1": {1}, "1,2,5": {1, 2, 5}, "[7]": {7}, " 0, 18446744073709551615 ": {0, 18446744073709551615}, "[3, 1]": {3, 1},
	} {
		if got, err := ParseSeeds(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"": "element 1", "0": "want 1 to 10000", "-3": "want 1 to 10000", "10001": "want 1 to 10000", "x": "element 1", "1,,2": "element 2",
		"1,2,1": "seed 1 appears twice", "[1": "bracket", "1.5": "element 1", "1,-2": "element 2",
	} {
		_, err := ParseSeeds(text)
		invalid(t, text, err, want)
	}
}
