package rundir

import (
	"bytes"
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

// Log appends lines to a JSONL file. Each line goes out in one write, newline
// included, so after a crash at most the last line is partial. It is
// not safe for concurrent use.
type Log struct {
	path string
	f    *os.File
	size int64
	sum  hash.Hash // SHA-256 of the size bytes
	// partial is set when the file ends inside a line.
	partial bool
}

// OpenLog opens the JSONL file at path for appending and creates it if need
// be; it must be a regular file. A file that ends in a partial line opens, but
// takes no new line before [Log.TruncateTo] has cut it.
func OpenLog(path string) (*Log, error) {
	f, err := regular.Create(path)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", explainWrite(err))
	}
	l := &Log{path: path, f: f}
	info, err := f.Stat()
	if err == nil {
		l.size = info.Size()
		var whole bool
		whole, err = l.lineEndsAt(l.size)
		l.partial = !whole
	}
	if err == nil {
		l.sum, err = sumOf(f, l.size)
	}
	if err == nil {
		// The file may be new: a power cut must not take its name away.
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("open log: %w", explain(err))
	}
	return l, nil
}

// sumOf hashes the first n bytes of a file.
func sumOf(r io.ReaderAt, n int64) (hash.Hash, error) {
	h := sha256.New()
	if m, err := io.Copy(h, io.NewSectionReader(r, 0, n)); err != nil || m == n {
		return h, err
	}
	return nil, io.ErrUnexpectedEOF
}

// Append writes v as one line (see [Marshal]). When the write fails, say
// because the disk is full, the part that went out is cut off again.
func (l *Log) Append(v any) error {
	if l.partial {
		return fmt.Errorf("append to %s: its last line is partial (truncate it first, as resuming from a checkpoint does)", l.path)
	}
	line, err := Marshal(v)
	if err != nil {
		return fmt.Errorf("append to %s: %w", l.path, err)
	}
	line = append(line, '\n')
	n, err := l.f.Write(line)
	if err != nil {
		err = fmt.Errorf("append to %s: %w", l.path, explain(err))
		if n > 0 {
			if terr := l.f.Truncate(l.size); terr != nil {
				l.partial = true
				l.size += int64(n)
				l.sum.Write(line[:n])
				return errors.Join(err, terr)
			}
		}
		return err
	}
	l.size += int64(n)
	l.sum.Write(line)
	return nil
}

// Size is the length of the file in bytes: what a checkpoint stores and hands
// to [Log.TruncateTo] later.
func (l *Log) Size() int64 { return l.size }

// Sum is the SHA-256 of the file's content in hex, as this process knows it: of
// its content when it was opened and the lines appended since. It is updated with
// each line, so it costs nothing, and a byte that changes on the disk afterwards
// shows as a difference.
func (l *Log) Sum() string { return hex.EncodeToString(l.sum.Sum(nil)) }

// TruncateTo cuts the file to its first n bytes, so that lines written after a
// checkpoint are written again and not doubled. n must be the end of a line
// and not beyond the end of the file.
func (l *Log) TruncateTo(n int64) error {
	if n < 0 || n > l.size {
		return fmt.Errorf("truncate %s to %d bytes: it has %d (lines that a checkpoint needs are lost)", l.path, n, l.size)
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
	sum, err := sumOf(l.f, n)
	if err == nil {
		err = l.f.Truncate(n)
	}
	if err != nil {
		return fmt.Errorf("truncate log: %w", explain(err))
	}
	l.size, l.sum, l.partial = n, sum, false
	return nil
}

// Sync makes the lines written so far survive a power cut. A checkpoint calls
// it before it stores [Log.Size]. A file that is no longer the one at its path
// is an error ([Log.StillThere]): lines would go where nobody finds them, and a
// checkpoint into another run's folder.
func (l *Log) Sync() error {
	if err := l.f.Sync(); err != nil {
		return fmt.Errorf("sync log: %w", explain(err))
	}
	return l.StillThere()
}

// StillThere returns an error unless the file at the log's path is still the one
// that this Log writes.
func (l *Log) StillThere() error {
	held, err := l.f.Stat()
	if err != nil {
		return fmt.Errorf("check log: %w", err)
	}
	switch there, err := os.Lstat(l.path); {
	case err != nil:
		return fmt.Errorf("check log: %w", explainWrite(err))
	case !os.SameFile(held, there):
		return fmt.Errorf("check log: %s is not the file that is being written: was the folder replaced in the meantime?", l.path)
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

// lineEndsAt says whether the first n bytes of the file are whole lines.
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

// PartialLineError reports that a JSONL file ends in a line without its newline: the
// writer died in the middle of it, or is still writing. The lines before it
// are whole.
type PartialLineError struct {
	Path   string
	Line   int   // number of the partial line, from 1
	Offset int64 // where it begins
}

// Error implements error.
func (e *PartialLineError) Error() string {
	return fmt.Sprintf("read %s: line %d is partial (the writer stopped in the middle of it)", e.Path, e.Line)
}

// decodeLines decodes the content of the JSONL file at path, strictly: a blank
// line, an unknown key or a wrong type is an error that names the file and the
// line. A line counts once its newline is there; when the file ends inside a
// line, decodeLines returns the whole lines before it together with a
// [*PartialLineError]. For any other error the lines are nil. Lines are split on \n only.
func decodeLines[T any](path string, data []byte) ([]T, error) {
	var lines []T
	var offset int64
	for len(data) > 0 {
		line, rest, whole := bytes.Cut(data, []byte("\n"))
		if !whole {
			return lines, &PartialLineError{Path: path, Line: len(lines) + 1, Offset: offset}
		}
		var v T
		if len(bytes.TrimSpace(line)) == 0 {
			return nil, fmt.Errorf("read %s: line %d: it is blank", path, len(lines)+1)
		}
		if err := Unmarshal(line, &v); err != nil {
			return nil, fmt.Errorf("read %s: line %d: %w", path, len(lines)+1, err)
		}
		lines = append(lines, v)
		offset += int64(len(line)) + 1
		data = rest
	}
	return lines, nil
}
