//go:build unix

package hf

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file that is cut while it is mapped is an error, not a crash; other panics stay.
func TestMappedFileIsCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, bytes.Repeat([]byte{1}, 1<<16), 0o644); err != nil {
		t.Fatal(err)
	}
	data, unmap, err := mapFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer unmap()
	sum := 0
	read := func() error {
		for _, b := range data {
			sum += int(b)
		}
		return nil
	}
	if err := guarded(read); err != nil || sum != 1<<16 {
		t.Fatalf("sum %d, %v", sum, err)
	}
	if err := os.Truncate(path, 1<<13); err != nil {
		t.Fatal(err)
	}
	if err := guarded(read); err == nil || !strings.Contains(err.Error(), "shorter") {
		t.Errorf("error %v", err)
	}
	defer func() {
		if p := recover(); p != "mine" {
			t.Errorf("panic %v", p)
		}
	}()
	_ = guarded(func() error { panic("mine") })
}
