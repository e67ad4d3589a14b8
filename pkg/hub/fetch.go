package hub

import (
	"context"
	"crypto/sha1" // the name of a blob in Git
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"strings"

	"grpo/internal/regular"
	"grpo/pkg/rundir"
)

// file is a file to download.
type file struct {
	name string // as messages have it
	url  string
	size int64 // in bytes; -1 = unknown, at most limit
	// limit bounds the size in bytes, whatever the server says; 0 = none, if the size is known.
	limit int64
	// sum is the SHA-256 of the content, or the SHA-1 that Git names it by (40 digits), in
	// lower-case hexadecimal.
	sum string
}

// unfinished is added to the name of a file that is being downloaded, as huggingface_hub does.
const unfinished = ".incomplete"

// fetch downloads f to path, which does not exist, and checks its hash. Bytes from an earlier
// attempt are kept and the rest is requested. After an error they stay for the next one, unless the
// content is wrong.
func (c *Client) fetch(ctx context.Context, f file, path string) error {
	for again := false; ; again = true {
		old, err := c.download(ctx, f, path+unfinished)
		if err != nil {
			return err
		}
		sum, err := hashFile(path+unfinished, f.sum)
		if err != nil {
			return rundir.Explain(err)
		}
		if sum == f.sum {
			return rundir.Rename(path+unfinished, path)
		}
		if err := os.Remove(path + unfinished); err != nil {
			return err
		}
		if old == 0 || again {
			return fmt.Errorf("its hash is %s, the source says %s: the content was changed on the way or on the server "+
				"(nothing was kept; try again, or use another server with --mirror)", sum, f.sum)
		}
		c.note("%s: the part from an earlier download is not of this file; starting over", f.name)
	}
}

// download appends what is missing to the file at path and returns how many bytes it had before.
func (c *Client) download(ctx context.Context, f file, path string) (old int64, err error) {
	out, err := regular.Create(path)
	if err != nil {
		return 0, rundir.Explain(err)
	}
	defer out.Close()
	info, err := out.Stat()
	if err != nil {
		return 0, err
	}
	old = info.Size()
	if f.size >= 0 && old > f.size || f.size < 0 && old > f.limit {
		if err := out.Truncate(0); err != nil {
			return 0, err
		}
		old = 0
	}
	have, size := old, f.size
	most := old // the bytes that counted as progress: a server that starts over makes none
	err = c.retry(ctx, f.name, func() (bool, error) {
		before := have
		err := c.part(ctx, f, out, &have, &size)
		if have < before {
			old = 0
		}
		progress := have >= most+leastProgress(size)
		if progress {
			most = have
		}
		return progress, err
	})
	if err == nil {
		err = out.Sync()
	}
	return old, errors.Join(rundir.Explain(err), out.Close())
}

// leastProgress is the bytes for which a failed request does not count as a failure, of a file of this
// size: a server that sends one byte at a time would otherwise be asked for ever.
func leastProgress(size int64) int64 { return min(max(size/1000, 1), 64<<10) }

// part requests the bytes from *have on and appends them to out. It fails unless the file is
// complete then.
func (c *Client) part(ctx context.Context, f file, out *os.File, have, size *int64) error {
	if *size >= 0 && *have == *size {
		c.progress(f, *have, *size)
		return nil
	}
	header := map[string]string{}
	if *have > 0 {
		header["Range"] = fmt.Sprintf("bytes=%d-", *have)
	}
	r, cancel, err := c.do(ctx, http.MethodGet, f.url, header, false)
	var status *statusError
	if errors.As(err, &status) && status.code == http.StatusRequestedRangeNotSatisfiable && *have > 0 {
		if *size < 0 {
			return nil // there are no bytes from there on; the hash tells whether it is the file
		}
		return errors.Join(permanent{errors.New("the server has fewer bytes than it said")}, out.Truncate(0))
	}
	if err != nil {
		return err
	}
	defer cancel()
	defer r.Body.Close()
	if r.StatusCode != http.StatusPartialContent || *have == 0 {
		*have = 0
		if err := out.Truncate(0); err != nil {
			return permanent{err}
		}
	} else if from := rangeStart(r.Header.Get("Content-Range")); from != *have {
		return permanent{fmt.Errorf("the server sent bytes from %d, not from %d", from, *have)}
	}
	if *size < 0 && r.ContentLength >= 0 {
		*size = *have + r.ContentLength
	}
	if f.limit > 0 && *size > f.limit {
		return permanent{f.tooLarge()}
	}
	return c.copy(f, out, r.Body, have, *size)
}

// tooLarge is the error about a file above its limit.
func (f file) tooLarge() error {
	return fmt.Errorf("it has more than %d MiB, the limit for a file that is no weights (is this the right server?)",
		f.limit>>20)
}

// copy appends a body to out, at most up to size bytes in all, or up to the file's limit.
func (c *Client) copy(f file, out io.Writer, body io.Reader, have *int64, size int64) error {
	buf := make([]byte, 256<<10)
	for {
		n, err := body.Read(buf)
		if size >= 0 && *have+int64(n) > size {
			return permanent{fmt.Errorf("the server sends more than the %d bytes that it said", size)}
		}
		if size < 0 && *have+int64(n) > f.limit {
			return permanent{f.tooLarge()}
		}
		w, werr := out.Write(buf[:n])
		*have += int64(w)
		if werr != nil {
			return permanent{werr}
		}
		c.progress(f, *have, size)
		switch {
		case err == io.EOF && size >= 0 && *have < size:
			return fmt.Errorf("the connection ended after %d of %d bytes", *have, size)
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("after %d bytes: %w", *have, err)
		}
	}
}

func (c *Client) progress(f file, done, size int64) {
	if c.Progress != nil {
		c.Progress(f.name, done, size)
	}
}

// rangeStart is the first byte of a Content-Range, or -1.
func rangeStart(text string) int64 {
	text, ok := strings.CutPrefix(text, "bytes ")
	first, _, dash := strings.Cut(text, "-")
	n, err := strconv.ParseInt(first, 10, 64)
	if !ok || !dash || err != nil {
		return -1
	}
	return n
}

// hashFile returns the hash of a file of the kind of like: a SHA-256, or with 40 digits the SHA-1
// by which Git names the content.
func hashFile(path, like string) (string, error) {
	f, err := regular.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var h hash.Hash = sha256.New()
	if len(like) == 2*sha1.Size {
		info, err := f.Stat()
		if err != nil {
			return "", err
		}
		h = sha1.New()
		fmt.Fprintf(h, "blob %d\x00", info.Size())
	}
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// exists reports whether there is a regular file at path, and its size.
func exists(path string) (size int64, ok bool, err error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, false, nil
	case err != nil:
		return 0, false, err
	case !info.Mode().IsRegular():
		return 0, false, fmt.Errorf("%s is in the way: it is not a regular file (remove it)", path)
	}
	return info.Size(), true, nil
}
