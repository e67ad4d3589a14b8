//go:build unix

package hf_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
	"grpo/pkg/model/hf"
)

// Weights that are cut between two reads are an error, not a crash.
func TestFolderIsCut(t *testing.T) {
	dir := decodertest.Folder(t)
	c, err := hf.Open(dir)
	expect.OK(t, err)
	defer c.Close()
	expect.OK(t, expect.Err(c.Read("model.embed_tokens.weight")))
	expect.OK(t, os.Truncate(filepath.Join(dir, "model.safetensors"), 0))
	if _, err := c.Read("model.layers.1.mlp.up_proj.weight"); err == nil || !strings.Contains(err.Error(), "tensor model.layers.1.mlp.up_proj.weight: the file became shorter") {
		t.Errorf("error %v", err)
	}
}
