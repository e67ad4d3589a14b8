//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

var errNotPermitted = errors.New("it needs a file system of its own, which this user may not mount (run it as root on Linux)")

// diskSize is many times what the small run needs.
const diskSize = 32 << 20

const noSpace = "no space left on device"

// disk is a small file system with a file that fills it.
type disk struct{ path, filler string }

// newDisk mounts a disk of diskSize; more are further options of the mount.
func (l *lab) newDisk(more string) (*disk, error) {
	path := l.dir()
	if err := mountTmpfs(path, fmt.Sprintf("size=%d%s", diskSize, more)); err != nil {
		return nil, err
	}
	return &disk{path, filepath.Join(path, "filler")}, nil
}

// on runs do on a disk of its own. It is skipped where none can be mounted.
func (l *lab) on(more string, do func(d *disk) (report, error)) (report, error) {
	d, err := l.newDisk(more)
	if errors.Is(err, errNotPermitted) {
		return report{text: err.Error(), skipped: true}, nil
	}
	if err != nil {
		return report{}, err
	}
	rep, err := do(d)
	if uerr := unmount(d.path); err == nil && uerr != nil {
		err = fmt.Errorf("unmount %s: %w", d.path, uerr)
	}
	return rep, err
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

func (d *disk) empty() error { return os.Remove(d.filler) }

// diskFull begins runs on disks with so much room, from none to more than it
// needs: they stop at different files.
func diskFull(l *lab) (report, error) {
	free := []int64{0, 8 << 10, 300 << 10, 1 << 20, 1700 << 10, 2200 << 10, 2700 << 10, 3200 << 10, 16 << 10, 64 << 10, 600 << 10, 1400 << 10, 2 << 20, 2500 << 10}
	return l.on("", func(d *disk) (report, error) {
		hit, n := 0, min(len(free), max(3, l.tries(len(free))))
		for i, room := range free[:n] {
			dir := filepath.Join(d.path, fmt.Sprint("run-", i))
			if err := d.fill(room); err != nil {
				return report{}, err
			}
			o, err := l.train(dir).wait()
			if err != nil {
				return report{}, err
			}
			if o.code != 0 {
				hit++
				if err := clear(o, []int{1}, noSpace); err != nil {
					return report{}, fmt.Errorf("with %d bytes free: %w", room, err)
				}
			}
			if err := d.again(l, dir); err != nil {
				return report{}, fmt.Errorf("with %d bytes free: %w", room, err)
			}
		}
		if hit == 0 {
			return report{}, errors.New("no run met the full disk: the tool needs other sizes")
		}
		return report{tries: n, text: fmt.Sprintf("%d disks, %d runs stopped: all %d equal with room", n, hit, n)}, nil
	})
}

// again makes room, ends the run in dir, compares it and takes it away.
func (d *disk) again(l *lab, dir string) error {
	if err := d.empty(); err != nil {
		return err
	}
	if err := l.finished(dir); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// diskFills fills the disk at random moments.
func diskFills(l *lab) (report, error) {
	return l.on("", func(d *disk) (report, error) {
		hit, n := 0, l.tries(20)
		for i := range n {
			dir := filepath.Join(d.path, fmt.Sprint("run-", i))
			stopped, err := l.disturb(dir, func() { time.Sleep(l.moment()) }, func() error { return d.fill(0) }, noSpace)
			if err != nil {
				return report{}, err
			}
			if stopped {
				hit++
			}
			if err := d.again(l, dir); err != nil {
				return report{}, err
			}
		}
		return report{tries: n, text: fmt.Sprintf("%d times, %d runs stopped: all %d equal with room", n, hit, n)}, nil
	})
}

// inodesFull gives the disk room for ever more files.
func inodesFull(l *lab) (report, error) {
	hit, n := 0, max(3, l.tries(12))
	for i := range n {
		rep, err := l.on(fmt.Sprintf(",nr_inodes=%d", 4+i), func(d *disk) (report, error) {
			dir := filepath.Join(d.path, "run")
			o, err := l.train(dir).wait()
			if err != nil {
				return report{}, err
			}
			if o.code != 0 {
				hit++
				if err := clear(o, []int{1}, noSpace); err != nil {
					return report{}, err
				}
			}
			// An inode can't be freed here, so the folder moves to a larger disk.
			to := l.dir()
			if _, err := os.Stat(dir); err == nil {
				if err := copyTree(dir, to); err != nil {
					return report{}, err
				}
			}
			return report{}, l.finished(to)
		})
		if err != nil || rep.skipped {
			return rep, err
		}
	}
	if hit == 0 {
		return report{}, errors.New("no run met the lack of inodes: the tool needs other numbers")
	}
	return report{tries: n, text: fmt.Sprintf("%d disks, %d runs stopped: all %d equal with more", n, hit, n)}, nil
}

// readOnly makes the disk of an unfinished run read-only.
func readOnly(l *lab) (report, error) {
	return l.on("", func(d *disk) (report, error) {
		refused, n := 0, max(2, l.tries(6))
		for i := range n {
			dir := filepath.Join(d.path, fmt.Sprint("run-", i))
			if i > 0 { // the first one is a new folder
				if _, err := l.train(dir).signalled(timedSignal{after: l.moment(), signal: syscall.SIGTERM}); err != nil {
					return report{}, err
				}
			}
			if _, err := os.Stat(filepath.Join(dir, "result.json")); err == nil {
				continue // it was done: there is nothing to write
			}
			if err := remount(d.path, true); err != nil {
				return report{}, err
			}
			o, err := l.train(dir).wait()
			if err := errors.Join(err, remount(d.path, false)); err != nil {
				return report{}, err
			}
			if err := clear(o, []int{1}, "read-only file system"); err != nil {
				return report{}, err
			}
			refused++
			if err := l.finished(dir); err != nil {
				return report{}, err
			}
		}
		return report{tries: n, text: fmt.Sprintf("%d runs refused: all %d equal when writable", refused, refused)}, nil
	})
}
