package explain

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed examples
var exampleFiles embed.FS

// The forms of an example, and the editions of the assignment that have one.
var (
	ExampleForms = []string{"json", "torch"}
	Editions     = []string{"2025", "2026"}
)

// Example is a file of calls to start from (json), or a Python script that calls a student's functions and prints
// such a file (torch), for an edition of the assignment.
func Example(form, edition string) (string, error) {
	if !slices.Contains(ExampleForms, form) {
		return "", fmt.Errorf("unknown form of an example %q (known: %s)", form, strings.Join(ExampleForms, ", "))
	}
	if !slices.Contains(Editions, edition) {
		return "", fmt.Errorf("unknown edition %q (known: %s)", edition, strings.Join(Editions, ", "))
	}
	names := []string{edition + ".json"}
	if form == "torch" {
		names = []string{"head.py", edition + ".py"}
	}
	var text strings.Builder
	for _, name := range names {
		part, err := exampleFiles.ReadFile("examples/" + name)
		if err != nil {
			return "", fmt.Errorf("read an example: %w", err)
		}
		text.Write(part)
	}
	return strings.ReplaceAll(text.String(), "EDITION", edition), nil
}
