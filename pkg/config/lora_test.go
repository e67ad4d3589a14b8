package config

import (
	"strings"
	"testing"
)

// Under LoRA the default learning rate, and that of an embedded configuration, is ten times
// as high. A rate that the user gives is taken as it is.
func TestLoRARate(t *testing.T) {
	load := func(path string, set ...string) *Resolved {
		t.Helper()
		r, err := Load(LoadOptions{Path: path, Set: set})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	const lora = "train.lora.rank=16"
	for _, c := range []struct {
		r    *Resolved
		want float64
	}{
		{load("smollm2"), 1e-5},
		{load("smollm2", lora), 1e-4},
		{load("smollm2", lora, "lr=3e-5"), 3e-5},
		{load("", lora, "init=./x"), 1e-2},
		{load(write(t, "model: {init: ./x}\ntrain: {learning_rate: 1e-4, lora: {rank: 8}}")), 1e-4},
		{load(write(t, "model: {init: ./x}\ntrain: {learning_rate: 1e-4}"), lora), 1e-4},
		{load(write(t, "model: {init: ./x}\ntrain: {lora: {rank: 8}}")), 1e-2},
	} {
		if got := c.r.Config.Train.LearningRate; got != c.want {
			t.Errorf("learning rate %v, want %v (%v)", got, c.want, c.r.Origin("train.learning_rate"))
		}
		again, err := LoadText("x.yaml", Marshal(c.r.Config))
		if err != nil || again.Config.Train.LearningRate != c.want || Hash(again.Config) != Hash(c.r.Config) {
			t.Errorf("the resolved configuration has the learning rate %v, want %v: %v", again.Config.Train.LearningRate, c.want, err)
		}
	}
	o := load("smollm2", lora).Origin("train.learning_rate").String()
	if !strings.HasPrefix(o, "smollm2 (embedded): line ") || !strings.HasSuffix(o, ", as train.lora.rank asks") {
		t.Errorf("the origin is %q", o)
	}
}
