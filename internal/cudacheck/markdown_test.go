package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grpo/internal/expect"
)

// The document has a place for every part.
func TestDocumentHasTheMarkers(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "gpu.md"))
	expect.OK(t, err)
	path := filepath.Join(t.TempDir(), "gpu.md")
	expect.OK(t, os.WriteFile(path, doc, 0o644))
	for _, p := range parts {
		if err := replace(path, "cuda-"+p.name, "a table\n"); err != nil {
			t.Errorf("docs/gpu.md: %v", err)
		}
	}
	before, err := os.ReadFile(path)
	if want := "<!-- cuda-leak:begin -->\na table\n<!-- cuda-leak:end -->\n"; err != nil || !strings.Contains(string(before), want) {
		t.Errorf("the document has no %q: %v", want, err)
	}
	expect.Error(t, replace(path, "other", "x"), "<!-- other:begin -->")
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the document changed: %v", err)
	}
}

func TestTable(t *testing.T) {
	x := table{Holds: true, Head: []string{"a", "b"}}
	x.row("1", "2")
	x.fails("%d is not %d", 1, 2)
	if want := "| a | b |\n|---|---|\n| 1 | 2 |\n\ndoes not hold: 1 is not 2\n"; x.markdown() != want || x.Holds {
		t.Errorf("%q, want %q", x.markdown(), want)
	}
}

// The floors grow with the work; the operations are those of bench step.
func TestFloors(t *testing.T) {
	a, b := floors(64, 256, 64, 1, 1)
	inputs, predictions := 32*64+256*63.0, 256*64.0
	if want := 4 * (inputs*18*64*64 + predictions*2*64*100); a != want {
		t.Errorf("%v operations, want %v", a, want)
	}
	if a2, b2 := floors(128, 256, 64, 1, 1); a2 < 3*a || b2 < 1.5*b {
		t.Errorf("twice the width: %v and %v, from %v and %v", a2, b2, a, b)
	}
}
