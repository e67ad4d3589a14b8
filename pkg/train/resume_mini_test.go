package train

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
)

// The tests here damage every byte of every file of a run, so the run is as small as possible: a
// few problems, a network of width 4.

// mini returns a configuration whose files are of a few kilobytes.
func mini(t testing.TB, set ...string) config.Config {
	t.Helper()
	dir := t.TempDir()
	problems := func(name string, from, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `{"question": "Tom has %d pens?", "answer": "%d\n#### %d"}`+"\n", from+i, from+i, from+i)
		}
		path := filepath.Join(dir, name)
		expect.OK(t, os.WriteFile(path, []byte(b.String()), 0o644))
		return path
	}
	return mustLoad(t, config.LoadOptions{Set: append([]string{
		"data.source=gsm8k", "data.train_file=" + problems("train.jsonl", 1, 4), "data.val_file=" + problems("val.jsonl", 5, 2),
		"data.test_file=" + problems("test.jsonl", 7, 2), "model.init=random", "model.hidden_size=4", "model.num_layers=1",
		"rollout_batch_size=4", "group_size=2", "sampling_max_tokens=4", "reward.functions=random",
		"train.n_grpo_steps=4", "eval.every_n_steps=2", "eval.save_samples=1", "eval.greedy=false",
	}, set...)})
}

func slurp(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	expect.OK(t, err)
	return data
}

func put(t testing.TB, path string, data []byte) {
	t.Helper()
	expect.OK(t, os.WriteFile(path, data, 0o644))
}

// filesOf lists the files of a folder with its subfolders, except run.log, which no code reads, and
// the claims, of which each process makes one.
func filesOf(t testing.TB, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == rundir.ClaimsDir {
			return filepath.SkipDir
		}
		if err == nil && !d.IsDir() && d.Name() != rundir.LogFile {
			out = append(out, path)
		}
		return err
	})
	expect.OK(t, err)
	return out
}

// damages calls try with damaged forms of the file at path, written in its place: cut at every
// stride-th byte, and with one bit of that byte changed. Unless GRPO_LONG is set, as in CI, it does
// only a part, starting at a different offset in each file.
func damages(t *testing.T, path string, stride int, try func(what string)) {
	t.Helper()
	whole := slurp(t, path)
	// In place: some file systems wait for the disk when a file is truncated and written again.
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	expect.OK(t, err)
	defer f.Close()
	write := func(data []byte, at int) {
		_, err := f.WriteAt(data, int64(at))
		expect.OK(t, err)
	}
	first := 0
	switch {
	case testing.Short():
		stride *= 389
		first = len(whole) % stride
	case os.Getenv("GRPO_LONG") == "":
		stride *= 97
		first = len(whole) % stride
	}
	for i := first; i < len(whole); i += stride {
		expect.OK(t, f.Truncate(int64(i)))
		try(fmt.Sprintf("%s cut at byte %d of %d", filepath.Base(path), i, len(whole)))
		write(whole[i:], i)
		damaged := whole[i] ^ 1<<(i%8)
		write([]byte{damaged}, i)
		try(fmt.Sprintf("%s with byte %d (%q) made %q", filepath.Base(path), i, whole[i], damaged))
		write(whole[i:i+1], i)
	}
}

// isTensors reports whether only a resume reads the file. Such files are many times larger than the
// others.
func isTensors(path string) bool { return filepath.Ext(path) == ".safetensors" }

// flip changes one byte of a file; a negative offset counts from the end.
func flip(t testing.TB, path string, at int) {
	t.Helper()
	data := slurp(t, path)
	if at < 0 {
		at += len(data)
	}
	data[at] ^= 1
	put(t, path, data)
}

func remove(t testing.TB, path string) {
	t.Helper()
	expect.OK(t, os.RemoveAll(path))
}

func cutOff(t testing.TB, path string, n int) {
	t.Helper()
	data := slurp(t, path)
	put(t, path, data[:len(data)-n])
}
