// Package regular opens files in folders of unknown origin: a run, a sweep or a study that was
// downloaded or unpacked. Its files must not lead outside the folder, hang the program or fill its
// memory. So links are not followed, pipes and devices are not opened, and every read has a limit.
package regular

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Limits of files that are read whole, far above what any run writes: a line of metrics.jsonl has
// about a kilobyte, a manifest about five per run.
const (
	MaxDocument   = 64 << 20 // a JSON document or a configuration
	MaxLog        = 1 << 30  // a JSONL file or a log
	MaxCheckpoint = 64 << 30 // of five billion parameters with their moments
)

// Open opens the regular file at path for reading. It checks only the last element
// of the path; [Folder] checks a folder before it.
func Open(path string) (*os.File, error) {
	return open(path, os.O_RDONLY|noWait, false)
}

// Create opens the file at path for reading and appending, and creates it if it is
// missing. A file with a second name (a hard link) is refused: appending would
// change a file outside the folder too.
func Create(path string) (*os.File, error) {
	f, err := open(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, false)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && links(info) > 1 {
		err = refused(path, "it is a hard link to a file that has another name too (copy it: appending would change both)")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Read returns the content of the regular file at path, of at most limit bytes.
func Read(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = small(path, info.Size(), limit)
	}
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.Grow(int(info.Size()) + bytes.MinRead)
	if _, err := b.ReadFrom(io.LimitReader(f, limit+1)); err != nil {
		return nil, err
	}
	return b.Bytes(), small(path, int64(b.Len()), limit) // it may have grown
}

// Tail returns the last bytes of the regular file at path, at most limit and none before the offset
// from, with their offset.
func Tail(path string, from, limit int64) (data []byte, at int64, err error) {
	f, err := Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	at = max(from, info.Size()-limit)
	data, err = io.ReadAll(io.NewSectionReader(f, at, limit))
	return data, at, err
}

// Check returns an error unless path is a regular file of at most limit bytes.
// It is for files that other code opens by name.
func Check(path string, limit int64) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return wrongKind(path, info.Mode(), "regular file")
	}
	return small(path, info.Size(), limit)
}

// Folder returns an error unless path, inside a folder of unknown origin, is a
// folder or does not exist. The user's own arguments may be links and are not
// checked.
func Folder(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		return wrongKind(path, info.Mode(), "folder")
	}
	return nil
}

// Named opens a file that the user named: a configuration, a file of problems. Links are followed.
// Its errors wrap [ErrNamed].
// Standard input and shell pipes can be read by their system names (/dev/stdin, /dev/fd/63). Any
// other pipe or device is refused: a folder of unknown origin could contain one that never ends.
func Named(path string) (*os.File, error) {
	var f *os.File
	var err error
	switch filepath.ToSlash(filepath.Dir(path)) {
	case "/dev", "/dev/fd", "/proc/self/fd":
		f, err = os.Open(path)
	default:
		f, err = open(path, os.O_RDONLY|noWait, true)
	}
	if err != nil {
		return nil, named{err}
	}
	return f, nil
}

// ErrNamed is wrapped by the errors of [Named]: the name that the user gave is at fault.
var ErrNamed = errors.New("the file can't be opened")

type named struct{ error }

func (e named) Unwrap() []error { return []error{ErrNamed, e.error} }

// SHA256 returns the checksum, in hexadecimal, of a file that [Named] can open.
func SHA256(path string) (string, error) {
	f, err := Named(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// open checks the file twice: before, because opening a pipe or a device can hang or
// have an effect; after, because the file may have been replaced.
func open(path string, flag int, follow bool) (*os.File, error) {
	stat := os.Stat
	if !follow {
		stat, flag = os.Lstat, flag|noFollow
	}
	info, err := stat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return nil, wrongKind(path, info.Mode(), "regular file")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	f, err := os.OpenFile(path, flag, 0o666)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = wrongKind(path, info.Mode(), "regular file")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// small returns an error if size is above the limit.
func small(path string, size, limit int64) error {
	if size <= limit {
		return nil
	}
	return refused(path, fmt.Sprintf("it has %d bytes or more, the limit is %d (is it damaged?)", size, limit))
}

// wrongKind is the error for a path of another kind than want.
func wrongKind(path string, mode fs.FileMode, want string) error {
	is := "neither"
	switch {
	case mode.IsDir():
		is = "a directory"
	case mode.IsRegular():
		is = "a file"
	case mode&fs.ModeSymlink != 0:
		is = "a symbolic link (links inside a result folder are not followed: put the original there)"
	case mode&fs.ModeNamedPipe != 0:
		is = "a named pipe"
	case mode&fs.ModeSocket != 0:
		is = "a socket"
	case mode&fs.ModeDevice != 0:
		is = "a device"
	}
	return refused(path, fmt.Sprintf("not a %s: it is %s", want, is))
}

func refused(path, why string) error {
	return &fs.PathError{Op: "open", Path: path, Err: errors.New(why)}
}
