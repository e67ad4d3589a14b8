//go:build unix

package hf_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grpo/internal/decodertest"
	"grpo/pkg/model/hf"
)

// Weights that are cut between two reads are an error, not a crash.
func TestFolderIsCut(t *testing.T) {
	dir := decodertest.Folder(t)
	c, err := hf.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Read("model.embed_tokens.weight"); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "model.safetensors"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read("model.layers.1.mlp.up_proj.weight"); err == nil || !strings.Contains(err.Error(), "tensor model.layers.1.mlp.up_proj.weight: the file became shorter") {
		t.Errorf("error %v", err)
	}
}
