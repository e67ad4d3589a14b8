package config

import (
	"os"
	"path/filepath"
	"testing"
)

// Only what the user gave is chosen: not the values of presets, of defaults, or of a configuration that
// the program wrote.
func TestChosen(t *testing.T) {
	dir := t.TempDir()
	own, resolved := filepath.Join(dir, "own.yaml"), filepath.Join(dir, "config.yaml")
	c := Default()
	c.Data.Annotations = "strip"
	for path, text := range map[string][]byte{own: []byte("data: {annotations: strip}\n"), resolved: Marshal(c)} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
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
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Chosen(tt.key); got != tt.want {
			t.Errorf("%+v: %s chosen %v, want %v", tt.options, tt.key, got, tt.want)
		}
	}
}
