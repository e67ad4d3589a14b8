package sweep

import (
	"fmt"

	"grpo/pkg/config"
	"grpo/pkg/sweepdir"
)

// frozen reads the configuration that a manifest holds for a run. It is what
// config.Marshal wrote, every key in it, so environment and flags have no
// effect; its hash shows that it reads back to the same configuration.
func frozen(e sweepdir.Entry) (config.Config, error) {
	r, err := config.LoadText(fmt.Sprintf("%s, run %d", sweepdir.ManifestFile, e.Index), []byte(e.Config))
	if err != nil {
		return config.Config{}, fmt.Errorf("its frozen configuration can't be read: %w", err)
	}
	cfg := r.Config
	if hash := config.Hash(cfg); hash != e.Hash {
		return cfg, fmt.Errorf("%w: %s: run %d: its frozen configuration has the hash %s, not %s: the file was edited, or is of another version of grpo (start over with --fresh)",
			config.ErrConfig, sweepdir.ManifestFile, e.Index, hash, e.Hash)
	}
	return cfg, nil
}
