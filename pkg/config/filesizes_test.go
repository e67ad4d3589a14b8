package config

import "testing"

// The default sizes are for generated problems. Files for evaluation are used whole unless a source
// sets a size.
func TestSizesOfFiles(t *testing.T) {
	files := []string{"data.source=gsm8k", "train_file=t.jsonl", "val_file=v.jsonl", "test_file=u.jsonl"}
	for _, tt := range []struct {
		name, path string
		set        []string
		val, test  int
	}{
		{"generated", "", nil, 1024, 1024},
		{"files", "", files, 0, 0},
		{"files under an embedded configuration with the default sizes", "default", files, 0, 0},
		{"files with a configuration that sets sizes", "smoke", files, 128, 128},
		{"a size that was given", "", append([]string{"val_size=1024"}, files...), 1024, 0},
		{"sizes that were given", "", append([]string{"val_size=5", "test_size=7"}, files...), 5, 7},
	} {
		r, err := Load(LoadOptions{Path: tt.path, Set: tt.set})
		if err != nil {
			t.Fatal(err)
		}
		if d := r.Config.Data; d.ValSize != tt.val || d.TestSize != tt.test {
			t.Errorf("%s: val_size %d, test_size %d, want %d and %d", tt.name, d.ValSize, d.TestSize, tt.val, tt.test)
		}
		again, err := LoadText("config.yaml", Marshal(r.Config))
		if err != nil || Hash(again.Config) != Hash(r.Config) {
			t.Errorf("%s: the resolved configuration does not repeat: %v", tt.name, err)
		}
	}
	old, err := LoadText("config.yaml", []byte("data: {source: gsm8k, train_file: t.jsonl, val_file: v.jsonl, val_size: 1024, test_size: 1024}\n"))
	if err != nil || old.Config.Data.ValSize != 1024 {
		t.Errorf("the configuration of an older run keeps its size: %v, %v", old, err)
	}
}
