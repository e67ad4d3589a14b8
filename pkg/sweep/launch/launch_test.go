package launch

import (
	"slices"
	"testing"

	"grpo/pkg/config"
)

// Every type of the configuration has a launcher, and every flag sets a key of the section.
func TestKinds(t *testing.T) {
	var names []string
	for _, k := range Kinds {
		names = append(names, k.Name)
		for _, f := range k.Flags {
			if key, err := config.FindKey(f.Key); err != nil || !config.OfLauncher(key.Path) {
				t.Errorf("--%s of %s: %v", f.Name, k.Name, err)
			}
		}
	}
	if !slices.Equal(names, config.LauncherTypes()) {
		t.Errorf("launchers %v, types %v", names, config.LauncherTypes())
	}
}
