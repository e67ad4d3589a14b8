package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"grpo/cmd"
)

// TestShells: the shells that are installed load their completions.
func TestShells(t *testing.T) {
	files, err := completions(cmd.Root())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		for _, shell := range []string{"bash", "zsh", "fish"} {
			if !strings.Contains(f.name, shell) {
				continue
			}
			t.Run(shell, func(t *testing.T) {
				program, err := exec.LookPath(shell)
				if err != nil {
					t.Skipf("%s is not installed", shell)
				}
				path := filepath.Join(t.TempDir(), filepath.Base(f.name))
				if err := os.WriteFile(path, f.data, 0o644); err != nil {
					t.Fatal(err)
				}
				load := ". '" + path + "'"
				if shell == "zsh" { // compdef is of its completion system
					load = "autoload -Uz compinit && compinit -D && " + load
				}
				out, err := exec.Command(program, "-c", load).CombinedOutput()
				if err != nil || len(out) > 0 {
					t.Errorf("%s: %v: %s", load, err, out)
				}
			})
		}
	}
}
