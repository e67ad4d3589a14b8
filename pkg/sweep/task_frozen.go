package sweep

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"

	"grpo/pkg/config"
	"grpo/pkg/sweepdir"
)

// frozen reads the configuration that a manifest holds for a run. It is what
// config.Marshal wrote, every key in it, so neither environment nor flags have
// a say; that it reads back to the same configuration is checked by its hash.
func frozen(e sweepdir.Entry) (config.Config, error) {
	cfg := config.Default()
	d := yaml.NewDecoder(bytes.NewReader([]byte(e.Config)))
	d.KnownFields(true)
	if err := d.Decode(&cfg); err != nil {
		return cfg, fmt.Errorf("%w: %s: run %d: its frozen configuration can't be read: %w", config.ErrConfig, sweepdir.ManifestFile, e.Index, err)
	}
	cfg = config.Resolve(cfg)
	if err := config.Validate(&cfg); err != nil {
		return cfg, fmt.Errorf("%s: run %d: %w", sweepdir.ManifestFile, e.Index, err)
	}
	if hash := config.Hash(cfg); hash != e.Hash {
		return cfg, fmt.Errorf("%w: %s: run %d: its frozen configuration has the hash %s, not %s: the file was edited, or is of another version of grpo (begin anew with --fresh)",
			config.ErrConfig, sweepdir.ManifestFile, e.Index, hash, e.Hash)
	}
	return cfg, nil
}
