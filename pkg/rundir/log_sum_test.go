package rundir

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/expect"
)

// After any sequence of appending, cutting and reopening, the running sum is that of the file.
func TestLogSumIsTheFiles(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		path := filepath.Join(dir, "m.jsonl")
		os.Remove(path)
		l, err := OpenLog(path)
		expect.OK(t, err)
		ends := []int64{0}
		for range rapid.IntRange(1, 12).Draw(t, "moves") {
			switch rapid.IntRange(0, 3).Draw(t, "move") {
			case 0:
				expect.OK(t, l.Close())
				l, err = OpenLog(path)
				expect.OK(t, err)
			case 1:
				k := rapid.IntRange(0, len(ends)-1).Draw(t, "cut")
				expect.OK(t, l.TruncateTo(ends[k]))
				ends = ends[:k+1]
			default:
				expect.OK(t, l.Append(line{Step: len(ends), Text: rapid.String().Draw(t, "text")}))
				ends = append(ends, l.Size())
			}
			data, err := os.ReadFile(path)
			expect.OK(t, err)
			sum := sha256.Sum256(data)
			if l.Sum() != hex.EncodeToString(sum[:]) || l.Size() != int64(len(data)) {
				t.Fatalf("sum and size are not those of the file of %d bytes", len(data))
			}
			if p := (Prefix{Bytes: l.Size(), SHA256: l.Sum()}); p != PrefixOf(data) {
				t.Fatalf("%+v is not %+v", p, PrefixOf(data))
			}
		}
		expect.OK(t, l.Close())
	})
}

// If its file was removed, or its folder replaced, a log returns an error at Sync, and otherwise
// continues.
func TestLogDetectsAReplacedFile(t *testing.T) {
	for _, tt := range []struct {
		name string
		harm func(t *testing.T, dir string)
		want string
	}{
		{"removed", func(t *testing.T, dir string) { expect.OK(t, os.RemoveAll(dir)) }, "removed or renamed"},
		{"renamed", func(t *testing.T, dir string) { expect.OK(t, os.Rename(dir, dir+"-elsewhere")) }, "removed or renamed"},
		{"replaced", func(t *testing.T, dir string) {
			expect.OK(t, os.RemoveAll(dir))
			expect.OK(t, os.MkdirAll(dir, 0o755))
			write(t, filepath.Join(dir, "m.jsonl"), "")
			write(t, filepath.Join(dir, "other"), "")
		}, "replaced"},
		{"nothing", func(*testing.T, string) {}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			expect.OK(t, os.MkdirAll(dir, 0o755))
			l := mustOpen(t, filepath.Join(dir, "m.jsonl"))
			mustAppend(t, l, line{Step: 1})
			tt.harm(t, dir)
			err := l.Sync()
			if tt.want == "" {
				expect.OK(t, err)
				return
			}
			expect.Error(t, err, tt.want, dir)
		})
	}
}
