package sweep

import (
	"fmt"

	"grpo/pkg/config"
	"grpo/pkg/sweepdir"
)

// frozen reads the configuration that a manifest holds for a run. It is what
// config.Marshal wrote, every key in it, so neither environment nor flags have
// a say; that it reads back to the same configuration is checked by its hash.
func frozen(e sweepdir.Entry) (config.Config, error) {
	r, err := config.LoadText(fmt.Sprintf("%s, run %d", sweepdir.ManifestFile, e.Index), []byte(e.Config))
	if err != nil {
		return config.Config{}, fmt.Errorf("its frozen configuration can't be read: %w", err)
	}
	cfg := r.Config
	if hash := config.Hash(cfg); hash != e.Hash {
		return cfg, fmt.Errorf("%w: %s: run %d: its frozen configuration has the hash %s, not %s: the file was edited, or is of another version of grpo (begin anew with --fresh)",
			config.ErrConfig, sweepdir.ManifestFile, e.Index, hash, e.Hash)
	}
	return cfg, nil
}
