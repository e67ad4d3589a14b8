package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
	"grpo/internal/hubcache"
	"grpo/internal/hubtest"
	"grpo/pkg/model/hf"
)

// weights is the path of the tiny model's weights on the other host.
const weights = "/org/tiny/model.safetensors"

// puller returns a server with a tiny model, and a client of it that does not wait. waits gets the times
// to wait in seconds.
func puller(t *testing.T) (s *hubtest.Server, c *Client, waits *[]float64) {
	t.Helper()
	s, waits = hubtest.New(t), new([]float64)
	s.AddFolder(t, "org/tiny", decodertest.Folder(t))
	s.Files["org/tiny/README.md"] = []byte("not needed")
	s.Files["org/tiny/pytorch_model.bin"] = []byte("not needed")
	return s, &Client{Endpoint: s.URL, Sleep: func(ctx context.Context, d time.Duration) error {
		*waits = append(*waits, d.Seconds())
		return ctx.Err()
	}}, waits
}

func request(t *testing.T, cache, name string) ModelRequest {
	t.Helper()
	n, ok := hubcache.Parse(name)
	if !ok {
		t.Fatalf("%s is not a name", name)
	}
	return ModelRequest{Name: n, Cache: cache}
}

// files maps the files below a folder to their contents; a link to its target.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if e.Type()&os.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			out[name] = "-> " + target
			return err
		}
		data, err := os.ReadFile(path)
		out[name] = string(data)
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return out
}

func TestPullModel(t *testing.T) {
	s, c, _ := puller(t)
	cache := t.TempDir()
	m, err := c.PullModel(t.Context(), request(t, cache, "org/tiny"))
	expect.OK(t, err)
	got, want := files(t, filepath.Join(cache, "models--org--tiny")), map[string]string{"refs/main": hubtest.Commit}
	for _, name := range []string{"config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"} {
		data := s.Files["org/tiny/"+name]
		etag := hubtest.ETag(name, data)
		want["blobs/"+etag] = string(data)
		want["snapshots/"+hubtest.Commit+"/"+name] = "-> ../../blobs/" + etag
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the cache has other files: %.3000v", got)
	}
	opened, err := hf.Open(m.Path)
	expect.OK(t, err)
	defer opened.Close()
	if _, err := opened.Read("model.embed_tokens.weight"); err != nil {
		t.Error(err)
	}
	if folder, err := opened.Folder(); err != nil || len(folder["tokenizer.json"]) == 0 {
		t.Errorf("the other files: %v", err)
	}
	if len(m.Files) != 4 || m.Files[0].Present || !strings.HasPrefix(m.Files[0].Sum, "git-sha1:") || m.Commit != hubtest.Commit {
		t.Errorf("%+v", m)
	}
	// Again: nothing is downloaded. A damaged blob is.
	before := len(s.Requests())
	m, err = c.PullModel(t.Context(), request(t, cache, "org/tiny@v1"))
	expect.OK(t, err)
	for _, r := range s.Requests()[before:] {
		if strings.HasPrefix(r, "GET") && !strings.Contains(r, "/api/") || !m.Files[3].Present {
			t.Errorf("downloaded again: %s, %+v", r, m.Files)
		}
	}
	if _, _, err := hubcache.Find(hubcache.Name{Owner: "org", Repo: "tiny", Revision: "v1"}, func(string) string { return cache }); err != nil {
		t.Error(err)
	}
	blob := filepath.Join(cache, "models--org--tiny", "blobs", hubtest.ETag("config.json", s.Files["org/tiny/config.json"]))
	expect.OK(t, os.WriteFile(blob, bytes.Repeat([]byte(" "), len(s.Files["org/tiny/config.json"])), 0o644))
	if m, err = c.PullModel(t.Context(), request(t, cache, "org/tiny")); err != nil || m.Files[0].Present {
		t.Errorf("a damaged blob stayed: %v", err)
	}
	if again, _ := os.ReadFile(blob); !bytes.Equal(again, s.Files["org/tiny/config.json"]) {
		t.Error("the blob was not downloaded again")
	}
}

func TestPullShardsAdaptersAndGGUF(t *testing.T) {
	s, c, _ := puller(t)
	s.Files["org/shards/config.json"] = s.Files["org/tiny/config.json"]
	s.Files["org/shards/model.safetensors.index.json"] = []byte(`{"weight_map":{"a":"m-2.safetensors","b":"m-1.safetensors","c":"m-1.safetensors"}}`)
	for _, name := range []string{"m-1.safetensors", "m-2.safetensors", "m-3.safetensors"} {
		s.Files["org/shards/"+name] = []byte(name)
	}
	s.Files["org/both/model.safetensors"], s.Files["org/both/model.safetensors.index.json"] = []byte("x"), []byte("{}")
	s.Files["org/peft/adapter_config.json"], s.Files["org/peft/adapter_model.safetensors"] = []byte("{}"), []byte("x")
	s.Files["org/gguf/a.gguf"], s.Files["org/gguf/b.gguf"], s.Files["org/gguf/sub/c.gguf"] = []byte("a"), []byte("b"), []byte("c")
	for name, want := range map[string]string{
		"org/shards":      "config.json,m-1.safetensors,m-2.safetensors,model.safetensors.index.json",
		"org/both":        "model.safetensors",
		"org/peft":        "adapter_config.json,adapter_model.safetensors",
		"org/gguf/b.gguf": "b.gguf",
	} {
		m, err := c.PullModel(t.Context(), request(t, t.TempDir(), name))
		if err != nil {
			t.Error(err)
			continue
		}
		var got []string
		for _, f := range m.Files {
			got = append(got, f.Name)
		}
		if slices.Sort(got); strings.Join(got, ",") != want {
			t.Errorf("%s: %v, want %s", name, got, want)
		}
		if info, err := os.Stat(m.Path); err != nil || info.IsDir() != !strings.HasSuffix(name, ".gguf") {
			t.Errorf("%s: path %s, %v", name, m.Path, err)
		}
	}
}

// What a server may answer, and what the user is told. The cache then has no snapshot by the name
// main, and no blob of a wrong content.
func TestPullModelErrors(t *testing.T) {
	const token = "hf_verysecrettoken"
	for _, tt := range []struct {
		name, model, token string
		prepare            func(s *hubtest.Server, c *Client)
		want               string
	}{
		{name: "no such model", model: "org/none", want: `404 Not Found: there is no such model or file (see `},
		{name: "no such revision", model: "org/tiny@v9", want: `it has no revision "v9"`},
		{name: "no token", prepare: func(s *hubtest.Server, _ *Client) { s.Token = token },
			want: "401 Unauthorized: there is no such model, or it needs a token: check the name, or set HF_TOKEN"},
		{name: "wrong token", token: "hf_other", prepare: func(s *hubtest.Server, _ *Client) { s.Token = token }, want: "HF_TOKEN is not valid there"},
		{name: "gated", token: token, prepare: func(s *hubtest.Server, _ *Client) {
			s.Fault = func(_ int, w http.ResponseWriter, r *http.Request) bool {
				gated := strings.HasSuffix(r.URL.Path, "config.json")
				if gated {
					http.Error(w, "", http.StatusForbidden)
				}
				return gated
			}
		}, want: "config.json: the server answered 403 Forbidden: the owner of HF_TOKEN has no access: accept the terms at http"},
		{name: "unencrypted", token: token, prepare: func(_ *hubtest.Server, c *Client) { c.Endpoint = "http://hub.example" }, want: "HF_TOKEN would be sent unencrypted"},
		{name: "wrong content", prepare: func(s *hubtest.Server, _ *Client) {
			s.Fault = func(_ int, w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == weights && r.Method == http.MethodGet {
					_, _ = w.Write(make([]byte, len(s.Files["org/tiny/model.safetensors"])))
					return true
				}
				return false
			}
		}, want: "model.safetensors: its hash is "},
		{name: "too long", prepare: func(s *hubtest.Server, _ *Client) {
			s.Fault = func(_ int, w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == weights {
					for range 100 {
						_, _ = w.Write(make([]byte, 1<<10))
					}
				}
				return r.URL.Path == weights
			}
		}, want: "the server sends more than the"},
		{name: "always cut", prepare: func(s *hubtest.Server, _ *Client) {
			s.Fault = func(_ int, w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == weights {
					panic(http.ErrAbortHandler)
				}
				return false
			}
		}, want: "(5 attempts; give the same command again later, it continues)"},
		{name: "no hash", prepare: func(s *hubtest.Server, _ *Client) {
			s.Fault = func(_ int, w http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodHead {
					w.Header().Set("ETag", `"../../x"`)
				}
				return r.Method == http.MethodHead
			}
		}, want: "gives no hash of it (ETag \"../../x\")"},
		{name: "no list", prepare: func(s *hubtest.Server, _ *Client) {
			s.Fault = func(_ int, w http.ResponseWriter, _ *http.Request) bool { fmt.Fprint(w, "<html>"); return true }
		}, want: "not the Hub's list of files"},
		{name: "a commit that is a path", prepare: func(s *hubtest.Server, _ *Client) {
			s.Fault = func(_ int, w http.ResponseWriter, _ *http.Request) bool {
				fmt.Fprint(w, `{"sha":"../../../x","siblings":[{"rfilename":"config.json"},{"rfilename":"model.safetensors"}]}`)
				return true
			}
		}, want: "it names no commit"},
		{name: "a shard that is a path", prepare: func(s *hubtest.Server, _ *Client) {
			delete(s.Files, "org/tiny/model.safetensors")
			s.Files["org/tiny/model.safetensors.index.json"] = []byte(`{"weight_map":{"a":"../../x.safetensors"}}`)
		}, want: "../../x.safetensors is not the name of a safetensors file"},
		{name: "another network", prepare: func(s *hubtest.Server, _ *Client) {
			s.Files["org/tiny/config.json"] = []byte(`{"model_type":"mamba"}`)
		}, want: "no weights were downloaded, because this model is not supported"},
		{name: "no safetensors", prepare: func(s *hubtest.Server, _ *Client) { delete(s.Files, "org/tiny/model.safetensors") }, want: "only pytorch_model.bin"},
		{name: "a choice of GGUF", prepare: func(s *hubtest.Server, _ *Client) {
			delete(s.Files, "org/tiny/model.safetensors")
			s.Files["org/tiny/b.gguf"] = []byte("b")
		}, want: "choose one of its GGUF files with --gguf: b.gguf"},
		{name: "no such GGUF", model: "org/tiny/c.gguf", prepare: func(s *hubtest.Server, _ *Client) { s.Files["org/tiny/b.gguf"] = []byte("b") },
			want: `it has no file "c.gguf" (did you mean "b.gguf"?); its GGUF files are b.gguf`},
		{name: "no server", prepare: func(_ *hubtest.Server, c *Client) { c.Endpoint = "http://127.0.0.1:1" }, want: "connection refused (5 attempts"},
		{name: "a loop", prepare: func(s *hubtest.Server, _ *Client) {
			s.Fault = func(_ int, w http.ResponseWriter, r *http.Request) bool {
				http.Redirect(w, r, r.URL.Path, http.StatusFound)
				return true
			}
		}, want: "more than 10 redirects"},
		{name: "no room", want: "no room", prepare: func(*hubtest.Server, *Client) {}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, c, _ := puller(t)
			c.Token = tt.token
			if tt.prepare != nil {
				tt.prepare(s, c)
			}
			cache, notes := t.TempDir(), ""
			c.Note = func(text string) { notes += text + "\n" }
			q := request(t, cache, "org/tiny")
			if tt.model != "" {
				q = request(t, cache, tt.model)
			}
			if tt.name == "no room" {
				q.Room = func(_ string, bytes int64) error {
					if bytes > 10000 {
						return errors.New("no room")
					}
					return nil
				}
			}
			_, err := c.PullModel(t.Context(), q)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.ContainsAny(err.Error(), "\n") {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			for _, secret := range []string{token, "hf_other", "signature"} {
				if strings.Contains(fmt.Sprint(err)+notes, secret) {
					t.Errorf("the error has %s: %v %s", secret, err, notes)
				}
			}
			for name, data := range files(t, cache) {
				if strings.Contains(name, "refs") {
					t.Errorf("%s was written", name)
				}
				if etag, ok := strings.CutPrefix(name, filepath.Join("models--org--tiny", "blobs")+string(filepath.Separator)); ok {
					kind := map[bool]string{true: "x.gguf", false: "x"}[len(etag) == 64]
					if hubtest.ETag(kind, []byte(data)) != etag && !strings.HasSuffix(name, unfinished) {
						t.Errorf("%s has other content", name)
					}
				}
			}
			if s.Leaked() {
				t.Error("the token was sent to another host")
			}
		})
	}
}

func TestTokenStaysWithTheHub(t *testing.T) {
	s, c, _ := puller(t)
	s.Token, c.Token = "hf_secret", "hf_secret"
	expect.OK(t, expect.Err(c.PullModel(t.Context(), request(t, t.TempDir(), "org/tiny"))))
	if s.Leaked() {
		t.Error("the token was sent to another host")
	}
}
