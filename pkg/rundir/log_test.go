package rundir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/regular"
)

type line struct {
	Step int     `json:"step"`
	Text string  `json:"text"`
	X    float64 `json:"x"`
}

// readLines decodes a JSONL file as [Open] does.
func readLines[T any](path string) ([]T, error) {
	data, err := regular.Read(path, regular.MaxLog)
	if err != nil {
		return nil, err
	}
	return decodeLines[T](path, data)
}

func mustAppend(t *testing.T, l *Log, lines ...line) {
	t.Helper()
	for _, v := range lines {
		expect.OK(t, l.Append(v))
	}
}

func mustOpen(t *testing.T, path string) *Log {
	t.Helper()
	l, err := OpenLog(path)
	expect.OK(t, err)
	t.Cleanup(func() { l.f.Close() })
	return l
}

func TestLogAppendsAndResumes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.jsonl")
	l := mustOpen(t, path)
	mustAppend(t, l, line{Step: 1, Text: "a\u2028b <<7+5=12>>\n"}, line{Step: 2})
	mark := l.Size()
	mustAppend(t, l, line{Step: 3}, line{Step: 4})
	expect.OK(t, l.Close())

	// As after a crash: the checkpoint is at step 2, the file has lines up to 4.
	l = mustOpen(t, path)
	expect.OK(t, l.TruncateTo(mark))
	mustAppend(t, l, line{Step: 3, Text: "again"})
	if got := l.Size(); got != int64(len(read(t, path))) {
		t.Errorf("size %d, the file has %d", got, len(read(t, path)))
	}
	expect.OK(t, l.Sync())
	expect.OK(t, l.Close())
	got, err := readLines[line](path)
	expect.OK(t, err)
	if len(got) != 3 || got[0].Text != "a\u2028b <<7+5=12>>\n" || got[2].Text != "again" {
		t.Errorf("read %+v", got)
	}
}

func TestLogTruncateRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.jsonl")
	l := mustOpen(t, path)
	mustAppend(t, l, line{Step: 1}, line{Step: 2})
	before := read(t, path)
	for name, tt := range map[string]struct {
		n    int64
		want string
	}{
		"beyond the end": {l.Size() + 1, "lost"},
		"inside a line":  {l.Size() - 3, "inside a line"},
		"negative":       {-1, "truncate"},
	} {
		t.Run(name, func(t *testing.T) {
			err := l.TruncateTo(tt.n)
			expect.Error(t, err, tt.want, path)
			if read(t, path) != before {
				t.Error("the file was changed")
			}
		})
	}
	if err := l.TruncateTo(0); err != nil || read(t, path) != "" {
		t.Errorf("truncate to nothing: %v, left %q", err, read(t, path))
	}
}

func TestLogRefusesToAppendToAPartialLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.jsonl")
	whole := `{"step":1,"text":"","x":0}` + "\n"
	write(t, path, whole+`{"step":2,"te`)
	l := mustOpen(t, path)
	expect.Error(t, l.Append(line{Step: 2}), "partial")
	expect.OK(t, l.TruncateTo(int64(len(whole))))
	mustAppend(t, l, line{Step: 2})
	if got, err := readLines[line](path); err != nil || len(got) != 2 {
		t.Errorf("read %+v, %v", got, err)
	}
}

func TestLogCutsAFailedWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.jsonl")
	l := mustOpen(t, path)
	mustAppend(t, l, line{Step: 1})
	size := l.Size()
	if err := l.Append(map[string]any{"f": func() {}}); err == nil {
		t.Fatal("a function was encoded")
	}
	if l.Size() != size || int64(len(read(t, path))) != size {
		t.Errorf("size %d, file %d, want %d", l.Size(), len(read(t, path)), size)
	}
	l.f.Close()
	if err := l.Append(line{Step: 2}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("append to a closed file: %v", err)
	}
}

func TestOpenLogFails(t *testing.T) {
	_, err := OpenLog(filepath.Join(t.TempDir(), "none", "m.jsonl"))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// A file cut at any byte gives the complete lines before the cut, and reports the cut unless it is
// between two lines.
func TestReadLinesOfEveryPrefix(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.jsonl")
	l := mustOpen(t, path)
	mustAppend(t, l, line{Step: 1, Text: "one"}, line{Step: 2, Text: "zwei ä"}, line{Step: 3})
	full := read(t, path)
	for n := range len(full) + 1 {
		r := &Run{Dir: dir}
		got, err := decodeLog[line](r, map[string][]byte{"m.jsonl": []byte(full[:n])}, "m.jsonl")
		whole := strings.Count(full[:n], "\n")
		if err != nil || len(got) != whole {
			t.Fatalf("cut at %d: %d lines, want %d: %v", n, len(got), whole, err)
		}
		var want []PartialLine
		if inside := n > 0 && full[n-1] != '\n'; inside {
			want = []PartialLine{{path, whole + 1}}
		}
		if !slices.Equal(r.Partial, want) {
			t.Fatalf("cut at %d: partial %+v, want %+v", n, r.Partial, want)
		}
	}
}

func TestReadLinesRefuses(t *testing.T) {
	good := `{"step":1,"text":"","x":0}` + "\n"
	tests := []struct {
		name, content, want string
	}{
		{"unknown key", good + `{"step":2,"stop":1}` + "\n", `line 2: json: unknown field "stop"`},
		{"broken in the middle", good + "{\"ste\n" + good, "line 2: "},
		{"blank line", good + "\n" + good, "line 2: it is blank"},
		{"two objects in a line", strings.TrimSuffix(good, "\n") + good, "line 1: invalid character '{' after top-level value"},
		{"a fraction for an integer", `{"step":1.5}` + "\n", "line 1: "},
		{"null line", "null\n", "line 1: it is null"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "m.jsonl")
			write(t, path, tt.content)
			got, err := readLines[line](path)
			if err == nil || got != nil {
				t.Fatalf("lines %v, error %v", got, err)
			}
			if !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %q, want one with %q and the path", err, tt.want)
			}
		})
	}
}
