package hubcache

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grpo/internal/expect"
)

const (
	commit = "0123456789abcdef0123456789abcdef01234567"
	etag   = "89abcdef0123456789abcdef0123456789abcdef"
)

func environment(vars ...string) func(string) string {
	return func(name string) string {
		for _, v := range vars {
			if value, ok := strings.CutPrefix(v, name+"="); ok {
				return value
			}
		}
		return ""
	}
}

func TestDir(t *testing.T) {
	t.Setenv("HOME", filepath.FromSlash("/home/u"))
	t.Setenv("USERPROFILE", filepath.FromSlash("/home/u"))
	for _, c := range []struct {
		want string
		vars []string
	}{
		{"/home/u/.cache/huggingface/hub", nil},
		{"/x/huggingface/hub", []string{"XDG_CACHE_HOME=/x"}},
		{"/h/hub", []string{"HF_HOME=/h", "XDG_CACHE_HOME=/x"}},
		{"/home/u/h/hub", []string{"HF_HOME=~/h"}},
		{"/c", []string{"HF_HUB_CACHE=/c", "HF_HOME=/h"}},
		{"/old", []string{"HUGGINGFACE_HUB_CACHE=/old", "HF_HOME=/h"}},
	} {
		if got, err := Dir(environment(c.vars...)); filepath.ToSlash(got) != c.want || err != nil {
			t.Errorf("%v: %s, %v, want %s", c.vars, got, err, c.want)
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]Name{
		"HuggingFaceTB/SmolLM2-135M-Instruct": {"HuggingFaceTB", "SmolLM2-135M-Instruct", "", ""},
		"a/b@v1.0":                            {"a", "b", "v1.0", ""},
		"a/b@" + commit + "/x-Q4_0.gguf":      {"a", "b", commit, "x-Q4_0.gguf"},
		"a/b/x.GGUF":                          {"a", "b", "", "x.GGUF"},
	} {
		got, ok := Parse(text)
		if got != want || !ok || got.String() != text {
			t.Errorf("%s: %+v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "base", "./a/b", "/a/b", "a/b/", "a/../b", "../b", "a/b/c", "a//b", "a/b/../x.gguf", "a/b@", "a/b@..",
		"a/b c", "a/b\n", "a--b/c", "models/x.gguf", "run/x.safetensors", "a/b/.gguf", `a\b`, "a/..", strings.Repeat("a", 300) + "/b"} {
		if got, ok := Parse(text); ok {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// cache writes a model with these files, each a link into blobs, and returns the cache's folder.
func cache(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	model := filepath.Join(dir, "models--a--b")
	snapshot := filepath.Join(model, Snapshots, commit)
	for _, d := range []string{filepath.Join(model, Refs), filepath.Join(model, Blobs), snapshot} {
		expect.OK(t, os.MkdirAll(d, 0o755))
	}
	expect.OK(t, os.WriteFile(filepath.Join(model, Refs, "main"), []byte(commit), 0o644))
	expect.OK(t, os.WriteFile(filepath.Join(model, Blobs, etag), []byte("content"), 0o644))
	for _, f := range files {
		expect.OK(t, os.Symlink("../../blobs/"+etag, filepath.Join(snapshot, f)))
	}
	return dir
}

func TestFind(t *testing.T) {
	for _, c := range []struct {
		name  string
		files []string
		want  string // below the cache, or part of the error
		file  string
	}{
		{"a/b", []string{"config.json"}, "models--a--b/snapshots/" + commit, ""},
		{"a/b@main", []string{"config.json"}, "models--a--b/snapshots/" + commit, ""},
		{"a/b@" + commit, []string{"config.json"}, "models--a--b/snapshots/" + commit, ""},
		{"a/b", []string{"config.json", "x.gguf"}, "models--a--b/snapshots/" + commit, ""},
		{"a/b", []string{"x.gguf"}, "models--a--b/snapshots/" + commit + "/x.gguf", "x.gguf"},
		{"a/b/x.gguf", []string{"config.json", "x.gguf"}, "models--a--b/snapshots/" + commit + "/x.gguf", "x.gguf"},
		{"a/b/y.gguf", []string{"x.gguf"}, "not in the Hugging Face cache", ""},
		{"a/b", []string{"x.gguf", "y.gguf"}, "several GGUF files: name one of x.gguf, y.gguf", ""},
		{"a/c", nil, "not in the Hugging Face cache", ""},
		{"a/b@v2", nil, "not in the Hugging Face cache", ""},
		{"a/b@" + strings.Repeat("0", 40), nil, "not in the Hugging Face cache", ""},
	} {
		dir := cache(t, c.files...)
		n, _ := Parse(c.name)
		path, pinned, err := Find(n, environment("HF_HUB_CACHE="+dir))
		if err != nil {
			if !strings.Contains(err.Error(), c.want) || strings.Contains(c.want, "not in") != errors.Is(err, ErrNotCached) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if path != filepath.Join(dir, filepath.FromSlash(c.want)) || pinned.Revision != commit || pinned.File != c.file {
			t.Errorf("%s: %s, %s", c.name, path, pinned)
		}
	}
	dir := cache(t)
	for _, bad := range []string{"", "../../x", "main", strings.Repeat("x", 5000)} {
		expect.OK(t, os.WriteFile(filepath.Join(dir, "models--a--b", Refs, "main"), []byte(bad), 0o644))
		if path, _, err := Find(Name{Owner: "a", Repo: "b"}, environment("HF_HUB_CACHE="+dir)); err == nil {
			t.Errorf("refs/main %.20q: %s", bad, path)
		}
	}
}

// Only a link of the cache's form to a blob of the same model is followed.
func TestFile(t *testing.T) {
	dir := cache(t, "config.json")
	model := filepath.Join(dir, "models--a--b")
	snapshot := filepath.Join(model, Snapshots, commit)
	if got := File(filepath.Join(snapshot, "config.json")); got != filepath.Join(model, Blobs, etag) {
		t.Errorf("a link of the cache: %s", got)
	}
	link := func(folder, name, target string) string {
		path := filepath.Join(folder, name)
		expect.OK(t, os.MkdirAll(folder, 0o755))
		expect.OK(t, os.Symlink(target, path))
		return path
	}
	other := filepath.Join(dir, "models--x--y")
	for _, path := range []string{
		link(snapshot, "1", "/etc/passwd"),
		link(snapshot, "2", "../../blobs/../refs/main"),
		link(snapshot, "3", "../../blobs/passwd"),
		link(snapshot, "4", "../../../models--x--y/blobs/"+etag),
		link(snapshot, "5", "../../blobs/"+etag+"/"),
		link(snapshot, "6", filepath.Join(model, Blobs, etag)),
		link(filepath.Join(model, Snapshots, "main"), "7", "../../blobs/"+etag),
		link(filepath.Join(dir, "run", Snapshots, commit), "8", "../../blobs/"+etag),
		link(filepath.Join(snapshot, "deep"), "9", "../../../blobs/"+etag),
		filepath.Join(snapshot, "missing"),
		filepath.Join(dir, "x"),
		"config.json",
	} {
		if got := File(path); got != path {
			t.Errorf("%s: %s", path, got)
		}
	}
	// A blobs folder that is a link leads elsewhere.
	path := link(filepath.Join(other, Snapshots, commit), "config.json", "../../blobs/"+etag)
	expect.OK(t, os.Symlink(filepath.Join(model, Blobs), filepath.Join(other, Blobs)))
	if got := File(path); got != path {
		t.Errorf("blobs is a link: %s", got)
	}
}
