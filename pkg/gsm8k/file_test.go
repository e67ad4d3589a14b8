package gsm8k

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/golden"
)

func TestReadFileChooses(t *testing.T) {
	for _, c := range []struct{ name, file, content, gold string }{
		{"jsonl by name", "a.jsonl", good, "12"},
		{"jsonl by content", "a.json", good, "12"},
		{"array by content", "a.json", "\xef\xbb\xbf \n[" + svampOne + "]", "51"},
		{"no extension", "a", good, "12"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), c.file)
			expect.OK(t, os.WriteFile(path, []byte(c.content), 0o644))
			ps, _, err := ReadFile(path, ReadOptions{})
			if err != nil || len(ps) != 1 || ps[0].Gold != c.gold {
				t.Errorf("problems %+v, error %v", ps, err)
			}
		})
	}
}

func TestReadFileFails(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := ReadFile(filepath.Join(dir, "none.jsonl"), ReadOptions{}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "none.jsonl") {
		t.Errorf("missing file: %v", err)
	}
	if _, _, err := ReadFile(dir, ReadOptions{}); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("folder: %v", err)
	}
	path := filepath.Join(dir, "a.jsonl")
	expect.OK(t, os.WriteFile(path, []byte("["+svampOne+"]"), 0o644))
	if _, _, err := ReadFile(path, ReadOptions{}); err == nil || !strings.Contains(err.Error(), path+": line 1: an array, want an object") {
		t.Errorf("array in .jsonl: %v", err)
	}
}

func TestRealFiles(t *testing.T) {
	for _, c := range []struct {
		path        string
		n           int
		annotations int // in kept answers
		types       int
	}{
		{"data/gsm8k/train.jsonl", 7473, 23716, 1},
		{"data/gsm8k/test.jsonl", 1319, 4282, 1},
		{"data/svamp/SVAMP.json", 1000, 999, 4}, // one "equation" is the bare number 8.0
	} {
		t.Run(c.path, func(t *testing.T) {
			path := golden.Path(t, c.path)
			for _, mode := range annotationModes {
				ps, rep, err := ReadFile(path, ReadOptions{Annotations: mode})
				if err != nil {
					t.Fatalf("%s: %v", mode, err)
				}
				if rep != (ReadReport{Lines: c.n, Problems: c.n}) || len(ps) != c.n {
					t.Fatalf("%s: report %+v, %d problems, want %d", mode, rep, len(ps), c.n)
				}
				annotations, lines := 0, 0
				for _, p := range ps {
					annotations += strings.Count(p.Answer, "<<")
					lines += strings.Count(p.Answer, "\n")
					if !(Answers{}).Grade(p.Answer, true, p).Right {
						t.Errorf("%s: %s: the worked answer does not earn its own reward: %q", mode, p.ID, p.Answer)
					}
				}
				if want := map[AnnotationMode]int{"keep": c.annotations}[mode]; annotations != want {
					t.Errorf("%s: %d annotations, want %d", mode, annotations, want)
				}
				if mode == "equation" && lines != c.annotations {
					t.Errorf("%d equations, want %d", lines, c.annotations)
				}
				if s := (Answers{}).ComputeStats(ps, inVocabulary); len(s.Types) != c.types || s.Problems != c.n || s.DuplicateQuestions > 2 {
					t.Errorf("%s: stats %+v", mode, s)
				}
			}
		})
	}
}
