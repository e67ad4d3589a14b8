// Package configs holds the configurations that come with the program, so that
// `-c smoke` works by name in any folder. default.yaml and base.yaml are also
// the documentation of the keys: `grpo config show` takes its words from the
// comments beside them. presets/ holds published methods, one a file.
package configs

import "embed"

// FS holds NAME.yaml for each embedded configuration, and presets/NAME.yaml for
// each preset.
//
//go:embed *.yaml presets/*.yaml
var FS embed.FS
