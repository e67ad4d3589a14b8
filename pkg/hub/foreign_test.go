package hub

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/hubcache"
	"grpo/internal/hubtest"
	"grpo/pkg/model/hf"
)

// python runs a program with huggingface_hub on a cache; without it the test is skipped.
func python(t *testing.T, cache, script string, env ...string) string {
	t.Helper()
	if out, err := exec.Command("python3", "-c", "import huggingface_hub").CombinedOutput(); err != nil {
		t.Skipf("python3 with huggingface_hub is not here: %v %.100s", err, out)
	}
	cmd := exec.Command("python3", "-c", script)
	cmd.Env = append(os.Environ(), append(env, "HF_HOME="+filepath.Dir(cache), "HF_HUB_CACHE="+cache, "HF_TOKEN=", "HF_HUB_DISABLE_TELEMETRY=1")...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

// huggingface_hub finds our snapshot offline, as transformers does.
func TestHuggingFaceReadsOurs(t *testing.T) {
	_, c, _ := puller(t)
	cache := filepath.Join(t.TempDir(), "hub")
	m, err := c.PullModel(t.Context(), request(t, cache, "org/tiny"))
	expect.OK(t, err)
	const script = `
from huggingface_hub import snapshot_download, scan_cache_dir
info = scan_cache_dir()
assert not info.warnings and [r.repo_id for r in info.repos] == ["org/tiny"], info
print(snapshot_download("org/tiny"))`
	if got := python(t, cache, script, "HF_HUB_OFFLINE=1"); got != m.Path {
		t.Errorf("snapshot_download: %s, want %s", got, m.Path)
	}
}

// We find what huggingface_hub downloaded, and download nothing again.
func TestWeReadHuggingFaces(t *testing.T) {
	s, c, _ := puller(t)
	cache := filepath.Join(t.TempDir(), "hub")
	const script = `
from huggingface_hub import hf_hub_download
for name in ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"]:
    print(hf_hub_download("org/tiny", name))`
	got := python(t, cache, script, "HF_ENDPOINT="+s.URL, "HF_HUB_OFFLINE=0")
	path, pinned, err := hubcache.Find(hubcache.Name{Owner: "org", Repo: "tiny"}, func(name string) string {
		return map[string]string{"HF_HUB_CACHE": cache}[name]
	})
	if err != nil || path != filepath.Dir(got) || pinned.Revision != hubtest.Commit {
		t.Fatalf("%s, %s, %v, want %s", path, pinned, err, filepath.Dir(got))
	}
	opened, err := hf.Open(path)
	expect.OK(t, err)
	defer opened.Close()
	if _, err := opened.Read("model.embed_tokens.weight"); err != nil {
		t.Error(err)
	}
	m, err := c.PullModel(t.Context(), request(t, cache, "org/tiny"))
	if err != nil || !m.Files[0].Present || !m.Files[3].Present {
		t.Errorf("%+v, %v", m, err)
	}
}
