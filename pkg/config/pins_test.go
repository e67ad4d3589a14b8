package config

import (
	"maps"
	"slices"
	"testing"
)

// hashes of the embedded configurations: they are part of folder names, so a change of one makes
// every finished run of it a stranger. A new key is neutral at its default.
var hashes = map[string]string{
	"a5-2025":             "3160f2a2",
	"a5-2026":             "38acda8e",
	"aligned":             "b235db0c",
	"cispo":               "580d2da1",
	"dapo":                "f86e3708",
	"default":             "38acda8e",
	"dpo":                 "b87a0225",
	"dpo-smollm2":         "c5ce15e6",
	"dr-grpo":             "3d86af05",
	"grpo-original":       "9f1b63c1",
	"gspo":                "7c263268",
	"learned-reward":      "7fcb94b4",
	"lite-ppo":            "3606210b",
	"maxrl":               "e74b9f90",
	"minillm":             "92c76485",
	"ppo":                 "2faf64cd",
	"reinforce-plus-plus": "388574a8",
	"rft":                 "5486beb3",
	"rloo":                "48f864a4",
	"smoke":               "6f0b2bb7",
	"smollm2":             "5e28647f",
}

func TestHashesKeepTheirValue(t *testing.T) {
	if got, want := slices.Sorted(maps.Keys(hashes)), Names(); !slices.Equal(got, want) {
		t.Errorf("pinned %v, embedded %v", got, want)
	}
	for name, want := range hashes {
		r, err := Load(LoadOptions{Path: name})
		if err != nil {
			t.Fatal(err)
		}
		if got := Hash(r.Config); got != want {
			t.Errorf("the hash of %s is %s, want %s", name, got, want)
		}
	}
}
