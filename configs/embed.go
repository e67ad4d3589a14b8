// Package configs holds the configurations that come with the program, so that
// `-c smoke` works by name in any folder. default.yaml and base.yaml are also
// the documentation of the keys: `grpo config show` takes its words from the
// comments beside them. presets/ holds published methods, one a file, and
// ablations/ the arms of `grpo ablate NAME`.
package configs

import "embed"

// FS holds NAME.yaml for each embedded configuration, presets/NAME.yaml for each
// preset, and ablations/NAME.yaml for each ablation.
//
//go:embed *.yaml presets/*.yaml ablations/*.yaml
var FS embed.FS
