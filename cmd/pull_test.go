package cmd

import (
	"os"
	"path/filepath"
	"testing"

	"grpo/internal/hubtest"
	"grpo/pkg/hub"
)

// pullServer starts a server with the model org/tiny, a model of another network, and the data sets
// that are below shared. It returns its address.
func pullServer(t *testing.T, tiny, shared string) string {
	s := hubtest.New(t)
	s.AddFolder(t, "org/tiny", tiny)
	s.Files["org/mamba/config.json"] = []byte(`{"model_type":"mamba"}`)
	s.Files["org/mamba/model.safetensors"] = []byte("x")
	for _, d := range hub.DataSets() {
		for _, f := range d.Files {
			if data, err := os.ReadFile(filepath.Join(shared, "data", d.Name, f.Name)); err == nil {
				s.Files[f.Path] = data
			}
		}
	}
	return s.URL
}
