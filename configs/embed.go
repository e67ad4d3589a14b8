// Package configs holds the configurations that come with the program, so that `-c smoke` works by
// name in any folder. default.yaml and base.yaml are also the documentation of the keys: `grpo
// config show --docs` prints their comments. presets/ has published methods, one per file,
// ablations/ the arms of `grpo ablate NAME`, and tasks/ the built-in tasks.
package configs

import (
	"embed"
	"path/filepath"
	"strings"
)

// FS has NAME.yaml for each embedded configuration, presets/NAME.yaml for each preset,
// ablations/NAME.yaml for each ablation, and tasks/NAME.yaml and tasks/NAME-base.yaml for each built-in task.
//
//go:embed *.yaml presets/*.yaml ablations/*.yaml tasks/*.yaml
var FS embed.FS

// Names lists the files of an embedded folder ("." is the top), sorted, without
// their ending.
func Names(folder string) []string {
	entries, err := FS.ReadDir(folder)
	if err != nil {
		panic("configs: " + err.Error()) // cannot happen with go:embed
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".yaml"); ok {
			names = append(names, name)
		}
	}
	return names
}

// IsPath reports whether an argument is a path rather than an embedded name.
func IsPath(s string) bool {
	return strings.ContainsAny(s, `/\`) || strings.HasSuffix(s, ".yaml") || strings.HasSuffix(s, ".yml")
}

// NameOf returns the name that an embedded file would have for a path.
func NameOf(file string) string {
	return strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
}
