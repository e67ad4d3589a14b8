package hub

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"grpo/internal/expect"
	"grpo/internal/hubtest"
)

// fetched downloads the content of a file named x.gguf, of which part is there already, and
// returns the error and the requests.
func fetched(t *testing.T, s *hubtest.Server, c *Client, part []byte) (path string, err error) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "x")
	if part != nil {
		expect.OK(t, os.WriteFile(path+unfinished, part, 0o644))
	}
	data := s.Files["x.gguf"]
	err = c.fetch(t.Context(), file{name: "x.gguf", url: s.URL + "/x.gguf", size: int64(len(data)), sum: hubtest.ETag("x.gguf", data)}, path)
	return path, err
}

func TestFetch(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), 10000)
	cut := func(n int, w http.ResponseWriter, _ *http.Request) bool {
		if n > 2 {
			return false
		}
		w.Header().Set("Content-Length", "100000")
		if n == 2 {
			w.Header().Set("Content-Range", "bytes 100-99999/100000")
			w.Header().Set("Content-Length", "99900")
			w.WriteHeader(http.StatusPartialContent)
		}
		_, _ = w.Write(content[100*(n-1) : 100*n])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	status := func(code int, header ...string) func(int, http.ResponseWriter, *http.Request) bool {
		return func(n int, w http.ResponseWriter, _ *http.Request) bool {
			if n < 3 {
				if header != nil {
					w.Header().Set(header[0], header[1])
				}
				http.Error(w, "", code)
			}
			return n < 3
		}
	}
	whole := func(_ int, w http.ResponseWriter, _ *http.Request) bool { _, _ = w.Write(content); return true }
	for _, tt := range []struct {
		name     string
		part     []byte
		fault    func(int, http.ResponseWriter, *http.Request) bool
		requests string
		waits    []float64
	}{
		{"at once", nil, nil, "-", nil},
		{"truncated twice", nil, cut, "-,100,200", []float64{1, 1}},
		{"continued", content[:777], nil, "777", nil},
		{"continued at a server without ranges", content[:777], whole, "777", nil},
		{"all bytes are there", content, nil, "", nil},
		{"too many bytes are there", append(slices.Clone(content), 0), nil, "-", nil},
		{"another file's part", make([]byte, 777), nil, "777,-", nil},
		{"another file's bytes", make([]byte, 100000), nil, "-", nil},
		{"busy", nil, status(503), "-,-,-", []float64{1, 2}},
		{"too many requests", nil, status(429, "Retry-After", "7"), "-,-,-", []float64{7, 7}},
		{"a very long time to wait", nil, status(429, "Retry-After", "99999"), "-,-,-", []float64{60, 60}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, c, waits := puller(t)
			s.Files["x.gguf"], s.Fault = content, tt.fault
			var last int64
			c.Progress = func(_ string, done, _ int64) { last = done }
			path, err := fetched(t, s, c, tt.part)
			expect.OK(t, err)
			if got, _ := os.ReadFile(path); !bytes.Equal(got, content) || last != int64(len(content)) {
				t.Errorf("other content; progress %d", last)
			}
			if _, err := os.Stat(path + unfinished); err == nil {
				t.Error("the unfinished file stayed")
			}
			var got []string
			for _, r := range s.Requests() {
				from, _ := strings.CutPrefix(r, "GET /x.gguf")
				got = append(got, map[bool]string{true: "-", false: strings.TrimSuffix(strings.TrimPrefix(from, " bytes="), "-")}[from == ""])
			}
			if strings.Join(got, ",") != tt.requests || !slices.Equal(*waits, tt.waits) {
				t.Errorf("requests %q, want %s; waits %v, want %v", got, tt.requests, *waits, tt.waits)
			}
		})
	}
}

// An interrupted download keeps its bytes, and the next one asks for the rest.
func TestFetchInterrupted(t *testing.T) {
	s, c, _ := puller(t)
	s.Files["x.gguf"] = bytes.Repeat([]byte("x"), 1<<20)
	ctx, cancel := context.WithCancel(t.Context())
	s.Fault = func(n int, w http.ResponseWriter, r *http.Request) bool {
		if n > 1 {
			return false
		}
		w.Header().Set("Content-Length", "1048576")
		_, _ = w.Write(s.Files["x.gguf"][:1000])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return true
	}
	c.Progress = func(_ string, done, _ int64) {
		if done >= 1000 {
			cancel()
		}
	}
	path := filepath.Join(t.TempDir(), "x")
	f := file{name: "x.gguf", url: s.URL + "/x.gguf", size: 1 << 20, sum: hubtest.ETag("x.gguf", s.Files["x.gguf"])}
	if err := c.fetch(ctx, f, path); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if err := c.fetch(t.Context(), f, path); err != nil {
		t.Error(err)
	}
	if last := s.Requests()[1]; last != "GET /x.gguf bytes=1000-" {
		t.Errorf("the second request is %s", last)
	}
}

// A server that sends nothing is given up, and asked again.
func TestFetchStalled(t *testing.T) {
	for _, headers := range []bool{false, true} {
		s, c, waits := puller(t)
		s.Files["x.gguf"], c.Stall = []byte("content"), 300*time.Millisecond
		s.Fault = func(n int, w http.ResponseWriter, r *http.Request) bool {
			if n == 1 {
				if headers {
					w.WriteHeader(http.StatusOK)
					w.(http.Flusher).Flush()
				}
				<-r.Context().Done()
			}
			return n == 1
		}
		var notes string
		c.Note = func(text string) { notes += text }
		if _, err := fetched(t, s, c, nil); err != nil || len(*waits) == 0 || !strings.Contains(notes, "the server sent nothing for too long; trying again in 1s") {
			t.Errorf("%v, waits %v, notes %s", err, *waits, notes)
		}
	}
}

func TestNoRedirectFromHTTPS(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	secure := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	defer secure.Close()
	c := &Client{Endpoint: secure.URL, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}}}
	err := c.fetch(t.Context(), file{name: "x", url: secure.URL, size: 1, sum: strings.Repeat("0", 64)}, filepath.Join(t.TempDir(), "x"))
	expect.Error(t, err, "without encryption")
}

// full is a disk without space.
type full struct{}

func (full) Write(p []byte) (int, error) { return len(p) / 2, syscall.ENOSPC }

// A write that fails is not tried again.
func TestCopyToFullDisk(t *testing.T) {
	have := int64(0)
	err := (&Client{}).copy(file{name: "x"}, full{}, strings.NewReader("content"), &have, 7)
	if bad := (permanent{}); !errors.As(err, &bad) || !errors.Is(err, syscall.ENOSPC) || have != 3 {
		t.Errorf("%v after %d bytes", err, have)
	}
}

func TestCheckEndpoint(t *testing.T) {
	for endpoint, want := range map[string]string{
		"https://huggingface.co/": "https://huggingface.co", "http://127.0.0.1:80/hf": "http://127.0.0.1:80/hf",
	} {
		if got, err := CheckEndpoint(endpoint); got != want || err != nil {
			t.Errorf("%s: %s, %v", endpoint, got, err)
		}
	}
	for _, endpoint := range []string{"", "huggingface.co", "ftp://x", "https://", "https://u:secret@x", "https://x?q", "https://x#f", "https://x\n", ":"} {
		if got, err := CheckEndpoint(endpoint); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %s, %v", endpoint, got, err)
		}
	}
}

func TestPullData(t *testing.T) {
	s, c, _ := puller(t)
	content := []byte("problems\n")
	d := DataSet{Name: "d", Files: []DataFile{{"a.jsonl", "o/r/a.jsonl", int64(len(content)), hubtest.ETag("a.gguf", content)}}}
	s.Files["o/r/a.jsonl"] = content
	dir := filepath.Join(t.TempDir(), "d")
	for _, present := range []bool{false, true} {
		files, err := c.PullData(t.Context(), d, dir)
		if err != nil || len(files) != 1 || files[0].Present != present {
			t.Fatalf("%v, %+v", err, files)
		}
	}
	expect.OK(t, os.WriteFile(filepath.Join(dir, "a.jsonl"), []byte("mine"), 0o644))
	expect.Error(t, expect.Err(c.PullData(t.Context(), d, dir)), "exists with other content")
	s.Files["o/r/a.jsonl"] = []byte("replaced\n")
	other := filepath.Join(t.TempDir(), "d")
	if _, err := c.PullData(t.Context(), d, other); err == nil || !strings.Contains(err.Error(), "its hash is") || len(files(t, other)) != 0 {
		t.Errorf("error %v", err)
	}
	delete(s.Files, "o/r/a.jsonl")
	expect.Error(t, expect.Err(c.PullData(t.Context(), d, other)), "404")
}

func TestDataSets(t *testing.T) {
	for _, d := range DataSets() {
		if got, err := FindDataSet(d.Name); err != nil || got.Page != d.Page {
			t.Errorf("%s: %v", d.Name, err)
		}
	}
	expect.Error(t, expect.Err(FindDataSet("gsm8")), `did you mean "gsm8k"?`)
}
