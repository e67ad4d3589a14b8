// Package hub downloads models of the Hugging Face Hub into the cache that transformers reads, and
// public data sets. Every file is checked by the hash that its source gives before it gets its
// name; a partial download is continued.
package hub

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"grpo/internal/textutil"
)

// Client sends requests to one server. Only Endpoint is required.
type Client struct {
	// Endpoint is the server's address, such as https://huggingface.co, without a slash at the end.
	Endpoint string
	// Token is sent to Endpoint only, never to a server that it redirects to.
	Token     string
	Transport http.RoundTripper // nil = [http.DefaultTransport], which uses the proxies of the environment
	// Sleep waits before a request is sent again; nil = by a timer.
	Sleep func(ctx context.Context, d time.Duration) error
	// Stall ends a response that brings no byte for this long; 0 = one minute.
	Stall time.Duration
	// Note gets a line about each request that is sent again; nil = none.
	Note func(text string)
	// Progress gets the bytes of a file that are on the disk, and its size; nil = none.
	Progress func(file string, done, size int64)
}

// maxAttempts bounds the requests for a file that bring no byte.
const maxAttempts = 5

// maxWait bounds the time to wait that a server may ask for.
const maxWait = time.Minute

// CheckEndpoint returns the address without a slash at its end, and an error for one that is not
// http(s)://HOST[:PORT][/PATH].
func CheckEndpoint(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil:
		return "", errors.New("it is not a URL")
	case u.User != nil:
		return "", errors.New("it contains a user or a password (leave them out; a token goes into HF_TOKEN)")
	case u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("it must have the form https://HOST")
	}
	return strings.TrimRight(endpoint, "/"), nil
}

// statusError is an answer other than success.
type statusError struct {
	code  int
	text  string // the line of HTTP, such as 404 Not Found
	hint  string // X-Error-Code of the Hub: RepoNotFound, GatedRepo, RevisionNotFound, EntryNotFound
	after time.Duration
}

func (e *statusError) Error() string { return "the server answered " + textutil.Printable(e.text, 60) }

// passing reports whether the same request may succeed later.
func (e *statusError) passing() bool {
	return e.code == http.StatusTooManyRequests || e.code == http.StatusRequestTimeout || e.code >= 500
}

// permanent marks an error that the same request would get again.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// do sends one request. A redirect may lead to another host, without the token, but not from https
// to http. With stay, a redirect to another host is returned as the answer. The answer is a success
// or, with stay, such a redirect; the caller closes its body and then calls cancel.
func (c *Client) do(ctx context.Context, method, address string, header map[string]string, stay bool) (
	r *http.Response, cancel func(), err error,
) {
	ctx, stop := context.WithCancel(ctx)
	defer func() {
		if err != nil {
			stop()
		}
	}()
	q, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, nil, permanent{errors.New("the address is not valid")}
	}
	own := *q.URL
	q.Header.Set("User-Agent", "grpo")
	q.Header.Set("Accept-Encoding", "identity") // lengths and ranges are of the file itself
	for k, v := range header {
		q.Header.Set(k, v)
	}
	if c.Token != "" {
		if own.Scheme != "https" && !loopback(own.Hostname()) {
			return nil, nil, permanent{errors.New("HF_TOKEN would be sent unencrypted " +
				"(use an https address, or unset HF_TOKEN)")}
		}
		q.Header.Set("Authorization", "Bearer "+c.Token)
	}
	stall := cmp.Or(c.Stall, time.Minute)
	watch := time.AfterFunc(stall, stop)
	client := http.Client{Transport: c.Transport, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		same := next.URL.Scheme == own.Scheme && next.URL.Host == own.Host
		switch {
		case len(via) > 10:
			return permanent{errors.New("more than 10 redirects")}
		case next.URL.Scheme != "https" && next.URL.Scheme != "http":
			return permanent{fmt.Errorf("the server redirects to an address of the kind %s, not https",
				textutil.Quote(next.URL.Scheme))}
		case next.URL.Scheme != "https" && own.Scheme == "https":
			return permanent{errors.New("the server redirects to an address without encryption")}
		case same:
			return nil
		case stay:
			return http.ErrUseLastResponse
		}
		next.Header.Del("Authorization")
		next.Header.Del("Cookie")
		return nil
	}}
	r, err = client.Do(q)
	if err != nil {
		watch.Stop()
		return nil, nil, plain(ctx, err)
	}
	r.Body = &watched{r.Body, watch, stall, ctx}
	if ok := r.StatusCode/100 == 2 || stay && r.StatusCode/100 == 3; !ok {
		e := &statusError{code: r.StatusCode, text: r.Status, hint: r.Header.Get("X-Error-Code")}
		if s, err := strconv.Atoi(r.Header.Get("Retry-After")); err == nil && s > 0 {
			e.after = min(time.Duration(s)*time.Second, maxWait)
		}
		r.Body.Close()
		return nil, nil, e
	}
	return r, stop, nil
}

// loopback reports whether a host is this machine.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// errStalled means that a connection brought nothing for too long.
var errStalled = errors.New("the server sent nothing for too long")

// plain leaves the address out of an error: that of a redirect has a signature in its query. ctx is
// that of the request alone, which ends when the server sends nothing.
func plain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errStalled
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
		if at, parseErr := url.Parse(u.URL); parseErr == nil {
			err = fmt.Errorf("%s: %w", textutil.Printable(at.Host, 80), err)
		}
	}
	return err
}

// watched is a body that ends when it brings no byte for too long.
type watched struct {
	io.ReadCloser
	watch *time.Timer
	stall time.Duration
	ctx   context.Context
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if n > 0 {
		w.watch.Reset(w.stall)
	}
	if err != nil && !errors.Is(err, io.EOF) && w.ctx.Err() != nil {
		err = errStalled
	}
	return n, err
}

func (w *watched) Close() error {
	w.watch.Stop()
	return w.ReadCloser.Close()
}

// isMalformed reports whether a server's answer is not HTTP, or its certificate is not valid. The
// errors of package net/http have no types.
func isMalformed(err error) bool {
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &certificate) || slices.ContainsFunc([]string{
		"malformed ", "bad Content-Length", "invalid Content-Length", "Location header", "gave HTTP response to HTTPS client",
		"transfer encoding", "header field",
	}, func(s string) bool { return strings.Contains(err.Error(), s) })
}

// retry calls f until it succeeds, fails for good, or fails maxAttempts times in a row without
// progress. The wait doubles from one second.
func (c *Client) retry(ctx context.Context, what string, f func() (progress bool, err error)) error {
	for failures := 1; ; failures++ {
		progress, err := f()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if progress {
			failures = 1
		}
		var status *statusError
		var bad permanent
		var wait time.Duration
		switch {
		case errors.As(err, &bad), errors.As(err, &status) && !status.passing(), isMalformed(err):
			return err
		case failures == maxAttempts:
			return fmt.Errorf("%w (%d attempts; give the same command again later, it continues)", err, maxAttempts)
		case status != nil:
			wait = status.after
		}
		wait = max(wait, time.Second<<(failures-1))
		c.note("%s: %v; trying again in %v", what, err, wait)
		if err := c.sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// lockEvery is the time between two attempts to take a lock that another process has.
const lockEvery = time.Second

// lock excludes other downloads of a file, which it waits for. The lock ends with the process.
func (c *Client) lock(ctx context.Context, what, path string) (unlock func(), err error) {
	for first := true; ; first = false {
		unlock, err := tryLock(path)
		if unlock != nil || err != nil {
			return unlock, err
		}
		if first {
			c.note("%s: another process is downloading it; waiting until it ends", what)
		}
		if err := c.sleep(ctx, lockEvery); err != nil {
			return nil, err
		}
	}
}

func (c *Client) note(format string, args ...any) {
	if c.Note != nil {
		c.Note(fmt.Sprintf(format, args...))
	}
}

func (c *Client) sleep(ctx context.Context, d time.Duration) error {
	if c.Sleep != nil {
		return c.Sleep(ctx, d)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
