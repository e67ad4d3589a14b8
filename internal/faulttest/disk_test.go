//go:build unix

package faulttest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"grpo/pkg/rundir"
)

const errNotPermitted = skip("it needs its own file system, which this user may not mount (run it as root on Linux)")

// diskSize is many times what the small run needs.
const diskSize = 32 << 20

const noSpace = "no space left on device"

// disk is a small file system with a file that fills it.
type disk struct{ path, filler string }

// run is the folder of the i-th run on the disk.
func (d *disk) run(i int) string { return filepath.Join(d.path, fmt.Sprint("run-", i)) }

// on calls do with a new disk of diskSize; more are further mount options.
func (l *lab) on(more string, do func(d *disk) (string, error)) (string, error) {
	path := l.dir()
	if err := mountTmpfs(path, fmt.Sprintf("size=%d%s", diskSize, more)); err != nil {
		return "", err
	}
	text, err := do(&disk{path, filepath.Join(path, "filler")})
	return text, errors.Join(err, unmount(path))
}

// fill leaves free bytes of the disk.
func (d *disk) fill(free int64) error {
	f, err := os.OpenFile(d.filler, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for size := 1 << 20; size >= 1<<10; size >>= 1 {
		for {
			if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
				break
			} else if err != nil {
				return err
			}
		}
	}
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	return f.Truncate(max(0, end-free))
}

// full runs a training in dir, which may stop because the disk is full.
func (l *lab) full(dir string) (stopped bool, err error) {
	o, err := l.train(dir).wait()
	if err != nil || o.code == 0 {
		return false, err
	}
	return true, clear(o, []int{1}, noSpace)
}

// again frees the disk, finishes the run in dir, compares it and removes it.
func (d *disk) again(l *lab, dir string) error {
	if err := os.Remove(d.filler); err != nil {
		return err
	}
	if err := l.finished(dir); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// diskFull starts runs on disks with different amounts of free space, from none to
// more than a run needs, so that they stop at different files.
func diskFull(l *lab) (string, error) {
	free := []int64{0, 8 << 10, 300 << 10, 1 << 20, 1700 << 10, 2200 << 10, 2700 << 10, 3200 << 10, 16 << 10, 64 << 10,
		600 << 10, 1400 << 10, 2 << 20, 2500 << 10}
	return l.on("", func(d *disk) (string, error) {
		hit, n := 0, min(len(free), max(3, l.tries(len(free))))
		for i, room := range free[:n] {
			if err := d.fill(room); err != nil {
				return "", err
			}
			stopped, err := l.full(d.run(i))
			if stopped {
				hit++
			}
			if err == nil {
				err = d.again(l, d.run(i))
			}
			if err != nil {
				return "", fmt.Errorf("with %d bytes free: %w", room, err)
			}
		}
		if hit == 0 {
			return "", errors.New("no run met the full disk: the tool needs other sizes")
		}
		return fmt.Sprintf("%d disks, %d runs stopped: all %d equal with room", n, hit, n), nil
	})
}

// diskFills fills the disk at random moments.
func diskFills(l *lab) (string, error) {
	return l.on("", func(d *disk) (string, error) {
		hit, n := 0, l.tries(20)
		for i := range n {
			stopped, err := l.disturb(d.run(i), func() { time.Sleep(l.moment()) }, func() error { return d.fill(0) }, noSpace)
			if stopped {
				hit++
			}
			if err == nil {
				err = d.again(l, d.run(i))
			}
			if err != nil {
				return "", err
			}
		}
		return fmt.Sprintf("%d times, %d runs stopped: all %d equal with room", n, hit, n), nil
	})
}

// inodesFull uses disks with room for more and more files.
func inodesFull(l *lab) (string, error) {
	hit, n := 0, max(3, l.tries(12))
	for i := range n {
		_, err := l.on(fmt.Sprintf(",nr_inodes=%d", 4+i), func(d *disk) (string, error) {
			stopped, err := l.full(d.run(0))
			if err != nil {
				return "", err
			}
			if stopped {
				hit++
			}
			// An inode can't be freed here, so the folder moves to a larger disk.
			to := l.dir()
			if _, err := os.Stat(d.run(0)); err == nil {
				if err := os.CopyFS(to, os.DirFS(d.run(0))); err != nil {
					return "", err
				}
			}
			return "", l.finished(to)
		})
		if err != nil {
			return "", err
		}
	}
	if hit == 0 {
		return "", errors.New("no run met the lack of inodes: the tool needs other numbers")
	}
	return fmt.Sprintf("%d disks, %d runs stopped: all %d equal with more", n, hit, n), nil
}

// readOnly makes the disk of an unfinished run read-only.
func readOnly(l *lab) (string, error) {
	return l.on("", func(d *disk) (string, error) {
		refused := 0
		for i := range max(2, l.tries(6)) {
			dir := d.run(i)
			if i > 0 { // the first one is a new folder
				if _, err := l.train(dir).signalled(timedSignal{after: l.moment(), signal: syscall.SIGTERM}); err != nil {
					return "", err
				}
			}
			if _, err := os.Stat(filepath.Join(dir, rundir.ResultFile)); err == nil {
				continue // it was done: there is nothing to write
			}
			if err := remount(d.path, true); err != nil {
				return "", err
			}
			o, err := l.train(dir).wait()
			if err := errors.Join(err, remount(d.path, false)); err != nil {
				return "", err
			}
			if err := clear(o, []int{1}, "read-only file system"); err != nil {
				return "", err
			}
			refused++
			if err := l.finished(dir); err != nil {
				return "", err
			}
		}
		return fmt.Sprintf("%d runs refused: all %d equal when writable", refused, refused), nil
	})
}
