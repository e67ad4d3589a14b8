//go:build unix

package hf

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/regular"
)

// A file that is cut while it is mapped is an error, not a crash; other panics stay.
func TestMappedFileIsCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	expect.OK(t, os.WriteFile(path, bytes.Repeat([]byte{1}, 1<<16), 0o644))
	data, unmap, err := mapFile(path, regular.Open)
	expect.OK(t, err)
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
	expect.OK(t, os.Truncate(path, 1<<13))
	expect.Error(t, guarded(read), "shorter")
	defer func() {
		if p := recover(); p != "mine" {
			t.Errorf("panic %v", p)
		}
	}()
	_ = guarded(func() error { panic("mine") })
}
