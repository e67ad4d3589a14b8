package rundir

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"

	"grpo/internal/regular"
)

// Log appends lines to a JSONL file. It writes each line in one call, newline included, so after a
// crash at most the last line is partial. It is not safe for concurrent use.
type Log struct {
	path    string
	f       *os.File
	size    int64
	sum     hash.Hash // SHA-256 of the size bytes
	partial bool      // the file ends inside a line
}

// OpenLog opens the JSONL file at path for appending and creates it if needed; it must be a regular
// file. A file that ends in a partial line must be cut with [Log.TruncateTo] before the next line.
func OpenLog(path string) (*Log, error) {
	f, err := regular.Create(path)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", explainWrite(err))
	}
	l := &Log{path: path, f: f}
	if err := l.open(); err != nil {
		f.Close()
		return nil, fmt.Errorf("open log: %w", Explain(err))
	}
	return l, nil
}

func (l *Log) open() error {
	info, err := l.f.Stat()
	if err != nil {
		return err
	}
	l.size = info.Size()
	whole, err := l.lineEndsAt(l.size)
	if err != nil {
		return err
	}
	l.partial = !whole
	if l.sum, err = l.sumOf(l.size); err != nil {
		return err
	}
	return syncDir(filepath.Dir(l.path)) // for the name of a new file
}

// sumOf hashes the first n bytes of the file.
func (l *Log) sumOf(n int64) (hash.Hash, error) {
	h := sha256.New()
	if m, err := io.Copy(h, io.NewSectionReader(l.f, 0, n)); err != nil || m == n {
		return h, err
	}
	return nil, io.ErrUnexpectedEOF
}

// Append writes v as one line (see [Marshal]). If the write fails, for example on a full disk, the
// part that was written is cut off.
func (l *Log) Append(v any) error {
	if l.partial {
		return fmt.Errorf("append to %s: its last line is partial (truncate it first, as resuming from a checkpoint does)",
			l.path)
	}
	line, err := Marshal(v)
	if err != nil {
		return fmt.Errorf("append to %s: %w", l.path, err)
	}
	line = append(line, '\n')
	n, err := l.f.Write(line)
	if err != nil {
		err = fmt.Errorf("append to %s: %w", l.path, Explain(err))
		if n == 0 {
			return err
		}
		terr := l.f.Truncate(l.size)
		if terr == nil {
			return err
		}
		err, l.partial = errors.Join(err, terr), true
	}
	l.size += int64(n)
	l.sum.Write(line[:n])
	return err
}

// Size is the length of the file in bytes: a checkpoint stores it for [Log.TruncateTo].
func (l *Log) Size() int64 { return l.size }

// Sum is the SHA-256 in hex of the content at opening and the lines appended since. It is updated
// in memory, so a byte that changes on the disk shows as a difference.
func (l *Log) Sum() string { return hex.EncodeToString(l.sum.Sum(nil)) }

// TruncateTo cuts the file to its first n bytes, so that lines after a checkpoint are not
// duplicated when the run repeats them. n must be the end of a line and not beyond the end of the
// file.
func (l *Log) TruncateTo(n int64) error {
	if n < 0 || n > l.size {
		return fmt.Errorf("truncate %s to %d bytes: it has %d (lines that a checkpoint needs are lost)", l.path,
			n, l.size)
	}
	whole, err := l.lineEndsAt(n)
	if err != nil {
		return fmt.Errorf("truncate %s: %w", l.path, err)
	}
	if !whole {
		return fmt.Errorf("truncate %s to %d bytes: that is inside a line", l.path, n)
	}
	if n == l.size {
		return nil
	}
	sum, err := l.sumOf(n)
	if err == nil {
		err = l.f.Truncate(n)
	}
	if err != nil {
		return fmt.Errorf("truncate log: %w", Explain(err))
	}
	l.size, l.sum, l.partial = n, sum, false
	return nil
}

// Sync makes the lines written so far survive a power cut. A checkpoint calls it before it stores
// [Log.Size]. It is an error if another file is now at the log's path ([Log.StillThere]): the lines
// would be lost.
func (l *Log) Sync() error {
	if err := l.f.Sync(); err != nil {
		return fmt.Errorf("sync log: %w", Explain(err))
	}
	return l.StillThere()
}

// StillThere returns an error unless the file at the log's path is still the one this Log writes.
func (l *Log) StillThere() error {
	same, err := stillAt(l.f, l.path)
	if err == nil && !same {
		err = fmt.Errorf("%s was replaced while it was being written: "+
			"was its folder replaced, removed or renamed in the meantime?", l.path)
	}
	if err != nil {
		return fmt.Errorf("check log: %w", Explain(err))
	}
	return nil
}

// Close closes the file.
func (l *Log) Close() error {
	if err := l.f.Close(); err != nil {
		return fmt.Errorf("close log: %w", err)
	}
	return nil
}

// lineEndsAt reports whether the first n bytes of the file are complete lines.
func (l *Log) lineEndsAt(n int64) (bool, error) {
	if n == 0 {
		return true, nil
	}
	var last [1]byte
	if _, err := l.f.ReadAt(last[:], n-1); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return last[0] == '\n', nil
}
