// Package hubtest is a server for tests with the paths of the Hugging Face Hub and of GitHub's
// files. As on the Hub, large files come from another host, to which it redirects.
package hubtest

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Commit is the commit of every model.
const Commit = "0123456789abcdef0123456789abcdef01234567"

// Server has models and other files.
type Server struct {
	URL string // of the Hub
	CDN string // of the host that has the large files
	// Files are the content, by OWNER/NAME/FILE, or by the path of other files.
	Files map[string][]byte
	// Token, if there is one, is needed for every request to the Hub.
	Token string
	// Fault answers a request instead of the server, unless it returns false. n counts the requests
	// for this path, from 1 on.
	Fault func(n int, w http.ResponseWriter, r *http.Request) bool

	mu       sync.Mutex
	count    map[string]int
	requests []string
	leaked   bool
}

// New starts a server without files, until the end of the test.
func New(t testing.TB) *Server {
	s := &Server{Files: map[string][]byte{}, count: map[string]int{}}
	hub := httptest.NewServer(s.handler(s.hub))
	cdn := httptest.NewServer(s.handler(s.cdn))
	t.Cleanup(hub.Close)
	t.Cleanup(cdn.Close)
	s.URL, s.CDN = hub.URL, cdn.URL
	return s
}

// AddFolder adds the files of a folder as a model.
func (s *Server) AddFolder(t testing.TB, id, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		s.Files[id+"/"+e.Name()] = data
	}
}

// Requests lists the requests so far: method, path and, if there is one, the range.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Leaked reports whether the other host was sent a token.
func (s *Server) Leaked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leaked
}

func (s *Server) handler(f http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.count[r.Method+r.URL.Path]++
		n := s.count[r.Method+r.URL.Path]
		line := r.Method + " " + r.URL.Path
		if from := r.Header.Get("Range"); from != "" {
			line += " " + from
		}
		s.requests = append(s.requests, line)
		s.mu.Unlock()
		if s.Fault == nil || !s.Fault(n, w, r) {
			f(w, r)
		}
	}
}

// Large reports whether a file is stored by its SHA-256, on the other host.
func Large(name string) bool {
	return slices.Contains([]string{".safetensors", ".gguf"}, path.Ext(name))
}

// ETag is the hash that the Hub gives of a file.
func ETag(name string, data []byte) string {
	if Large(name) {
		return fmt.Sprintf("%x", sha256.Sum256(data))
	}
	return fmt.Sprintf("%x", sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(data), data)))
}

func (s *Server) hub(w http.ResponseWriter, r *http.Request) {
	fail := func(code int, hint string) {
		w.Header().Set("X-Error-Code", hint)
		http.Error(w, hint, code)
	}
	if s.Token != "" && r.Header.Get("Authorization") != "Bearer "+s.Token {
		fail(http.StatusUnauthorized, "RepoNotFound")
		return
	}
	if data, ok := s.Files[strings.TrimPrefix(r.URL.Path, "/")]; ok { // as GitHub
		s.content(w, r, data)
		return
	}
	if rest, ok := strings.CutPrefix(r.URL.Path, "/api/models/"); ok {
		id, revision, _ := strings.Cut(rest, "/revision/")
		list := map[string]any{"sha": Commit}
		var files []map[string]string
		for name := range s.Files {
			if file, ok := strings.CutPrefix(name, id+"/"); ok {
				files = append(files, map[string]string{"rfilename": file})
			}
		}
		switch {
		case files == nil:
			fail(http.StatusNotFound, "RepoNotFound")
		case revision != "main" && revision != "v1" && revision != Commit:
			fail(http.StatusNotFound, "RevisionNotFound")
		default:
			list["siblings"] = files
			json.NewEncoder(w).Encode(list)
		}
		return
	}
	id, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/resolve/")
	_, file, _ := strings.Cut(rest, "/")
	data, ok := s.Files[id+"/"+file]
	if !ok {
		fail(http.StatusNotFound, "EntryNotFound")
		return
	}
	etag := `"` + ETag(file, data) + `"`
	w.Header().Set("X-Repo-Commit", Commit)
	if !Large(file) {
		w.Header().Set("ETag", etag)
		s.content(w, r, data)
		return
	}
	w.Header().Set("X-Linked-Etag", etag)
	w.Header().Set("X-Linked-Size", fmt.Sprint(len(data)))
	http.Redirect(w, r, s.CDN+"/"+id+"/"+file+"?signature=secret", http.StatusFound)
}

func (s *Server) cdn(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "" {
		s.mu.Lock()
		s.leaked = true
		s.mu.Unlock()
	}
	data, ok := s.Files[strings.TrimPrefix(r.URL.Path, "/")]
	if !ok || r.URL.Query().Get("signature") != "secret" {
		http.Error(w, "no signature", http.StatusForbidden)
		return
	}
	s.content(w, r, data)
}

// content serves ranges too.
func (s *Server) content(w http.ResponseWriter, r *http.Request, data []byte) {
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}
