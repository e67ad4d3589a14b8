package cmd

import (
	"os"
	"testing"

	"grpo/pkg/config"
	"grpo/pkg/sweep"
)

// TestRewardExamples: the examples are valid, also by their schemas, as they are and resolved.
func TestRewardExamples(t *testing.T) {
	s, err := compile("config")
	if err != nil {
		t.Fatal(err)
	}
	const dir = "../examples/rewards/"
	for _, name := range []string{"brevity", "short", "steps"} {
		text, err := os.ReadFile(dir + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		r, err := config.LoadText(name, text)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range [][]byte{text, config.Marshal(r.Config)} {
			if err := validYAML(t, s, text); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for _, bad := range []string{"{name: a, wieght: 1}", "{expr: '1'}", "3"} {
		if validYAML(t, s, []byte("reward: {functions: ["+bad+"]}")) == nil {
			t.Errorf("%s is valid", bad)
		}
	}
	if err := validYAML(t, s, []byte("reward: {functions: [{model: judge}]}")); err != nil {
		t.Error(err)
	}
	if s, err = compile("sweep"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"study.yaml"} {
		text, err := os.ReadFile(dir + name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sweep.ParseRequest(name, text); err != nil {
			t.Error(err)
		}
		if err := validYAML(t, s, text); err != nil {
			t.Error(err)
		}
	}
}
