//go:build unix

package hub

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"grpo/internal/expect"
	"grpo/internal/hubtest"
	"grpo/internal/regular"
)

// unsized answers requests for a file as the Hub does, without its length, and sends bytes for ever.
func unsized(s *hubtest.Server, name string) {
	sum := hubtest.ETag(name, s.Files["org/tiny/"+name])
	s.Fault = func(_ int, w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/"+name) {
			return false
		}
		w.Header().Set("ETag", `"`+sum+`"`)
		w.(http.Flusher).Flush() // chunked
		block := make([]byte, 1<<20)
		for r.Method == http.MethodGet {
			if _, err := w.Write(block); err != nil {
				break
			}
		}
		return true
	}
}

// A server that does not say how large a file is can't fill the disk: weights are refused, and other
// files have a limit, which counts in the check of the disk.
func TestUnknownSize(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"model.safetensors", "model.safetensors: the server does not say its size"},
		{"config.json", "config.json: it has more than 64 MiB"},
		{"tokenizer.json", "tokenizer.json: it has more than 64 MiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, c, waits := puller(t)
			unsized(s, tt.name)
			cache := t.TempDir()
			q := request(t, cache, "org/tiny")
			var most int64
			q.Room = func(_ string, bytes int64) error { most = max(most, bytes); return nil }
			_, err := c.PullModel(t.Context(), q)
			if err == nil || !strings.Contains(err.Error(), tt.want) || len(*waits) > 0 {
				t.Errorf("%v, waits %v", err, *waits)
			}
			for _, data := range files(t, cache) {
				if len(data) > regular.MaxDocument {
					t.Errorf("%d bytes were written", len(data))
				}
			}
			if tt.name != "model.safetensors" && most < regular.MaxDocument {
				t.Errorf("the disk was asked for %d bytes", most)
			}
		})
	}
	t.Run("a size above the limit", func(t *testing.T) {
		s, c, _ := puller(t)
		s.Fault = func(_ int, w http.ResponseWriter, r *http.Request) bool {
			large := strings.HasSuffix(r.URL.Path, "/tokenizer.json")
			if large {
				w.Header().Set("ETag", `"`+strings.Repeat("0", 40)+`"`)
				w.Header().Set("Content-Length", fmt.Sprint(regular.MaxDocument+1))
			}
			return large
		}
		expect.Error(t, expect.Err(c.PullModel(t.Context(), request(t, t.TempDir(), "org/tiny"))), "64 MiB")
	})
}

// A server that sends a few bytes, or fewer than before, makes no progress: it is given up.
func TestNoProgress(t *testing.T) {
	content := bytes.Repeat([]byte("x"), 1<<20)
	for name, sent := range map[string]func(n int) int{
		"3, 1, 3, 1 bytes": func(n int) int { return 1 + 2*(n%2) },
		"one byte":         func(int) int { return 1 },
	} {
		t.Run(name, func(t *testing.T) {
			s, c, _ := puller(t)
			s.Files["x.gguf"] = content
			s.Fault = func(n int, w http.ResponseWriter, r *http.Request) bool {
				w.Header().Set("Content-Length", fmt.Sprint(len(content)))
				if from := r.Header.Get("Range"); name == "one byte" && from != "" {
					var at int
					fmt.Sscanf(from, "bytes=%d-", &at)
					w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", at, len(content)-1, len(content)))
					w.Header().Set("Content-Length", fmt.Sprint(len(content)-at))
					w.WriteHeader(http.StatusPartialContent)
				}
				_, _ = w.Write(content[:sent(n)])
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
			if _, err := fetched(t, s, c, nil); err == nil || len(s.Requests()) > 2*maxAttempts {
				t.Errorf("%v after %d requests", err, len(s.Requests()))
			}
		})
	}
}

// An answer that can't get better is not asked for again.
func TestNotTriedAgain(t *testing.T) {
	hijack := func(text string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = conn.Write([]byte(text))
				conn.Close()
			}
		}
	}
	for name, answer := range map[string]func(http.ResponseWriter){
		"a file":         hijack("HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n"),
		"no address":     hijack("HTTP/1.1 302 Found\r\nLocation: http://[::1\r\n\r\n"),
		"not HTTP":       hijack("SSH-2.0-OpenSSH_9.9\r\n"),
		"a bad header":   hijack("HTTP/1.1 200 OK\r\nno colon\r\n\r\n"),
		"a bad length":   hijack("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"),
		"a bad encoding": hijack("HTTP/1.1 200 OK\r\nTransfer-Encoding: rot13\r\n\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			s, c, waits := puller(t)
			s.Files["x.gguf"] = []byte("content")
			s.Fault = func(_ int, w http.ResponseWriter, _ *http.Request) bool { answer(w); return true }
			if _, err := fetched(t, s, c, nil); err == nil || len(*waits) > 0 {
				t.Errorf("%v, waits %v", err, *waits)
			}
		})
	}
}

// A link in the cache is refused before anything is written through it.
func TestLinksInTheCache(t *testing.T) {
	for _, name := range []string{
		"models--org--tiny/blobs", "models--org--tiny/refs", "models--org--tiny/snapshots",
		"models--org--tiny/snapshots/" + hubtest.Commit, ".locks", ".locks/models--org--tiny",
	} {
		t.Run(name, func(t *testing.T) {
			_, c, _ := puller(t)
			cache, outside := t.TempDir(), t.TempDir()
			link := filepath.Join(cache, filepath.FromSlash(name))
			expect.OK(t, os.MkdirAll(filepath.Dir(link), 0o755))
			if err := os.Symlink(outside, link); err != nil {
				t.Skip(err)
			}
			expect.Error(t, expect.Err(c.PullModel(t.Context(), request(t, cache, "org/tiny"))), "symbolic link")
			if n := len(files(t, outside)); n > 0 {
				t.Errorf("%d files outside the cache", n)
			}
		})
	}
}

// A second process waits for the first, with a note, and finds what that has downloaded.
func TestSecondDownloadWaits(t *testing.T) {
	s, c, _ := puller(t)
	set := DataSet{Name: "x", Files: []DataFile{{"x.jsonl", "x.jsonl", 7, hubtest.ETag("x.gguf", []byte("content"))}}}
	s.Files["x.jsonl"] = []byte("content")
	dir, cache := t.TempDir(), t.TempDir()
	pulls := map[string]func(*Client) (bool, error){
		"data": func(c *Client) (bool, error) {
			out, err := c.PullData(t.Context(), set, dir)
			return err == nil && out[0].Present, err
		},
		"model": func(c *Client) (bool, error) {
			m, err := c.PullModel(t.Context(), request(t, cache, "org/tiny"))
			return err == nil && m.Files[len(m.Files)-1].Present, err
		},
	}
	for name, pull := range pulls {
		waiting, done := make(chan bool, 9), make(chan error, 1)
		second := &Client{Endpoint: s.URL, Note: func(text string) {
			if strings.Contains(text, "waiting until it ends") {
				waiting <- true
			}
		}, Sleep: func(ctx context.Context, _ time.Duration) error { time.Sleep(time.Millisecond); return ctx.Err() }}
		started := false
		c.Progress = func(file string, _, _ int64) {
			if !started && (file == "x.jsonl" || file == "model.safetensors") {
				started = true
				go func() {
					present, err := pull(second)
					if err == nil && !present {
						err = fmt.Errorf("%s: it was downloaded twice", name)
					}
					done <- err
				}()
				<-waiting
			}
		}
		expect.OK(t, expect.Err(pull(c)))
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if left := files(t, dir); len(left) != 1 {
		t.Errorf("files %v", left)
	}
}
