package faulttest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// mountTmpfs mounts a small file system in memory at path; the error is
// errNotPermitted if this process may not.
func mountTmpfs(path, data string) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	err := syscall.Mount("tmpfs", path, "tmpfs", 0, data)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		return errNotPermitted
	}
	if err != nil {
		return fmt.Errorf("mount a tmpfs at %s: %w", path, err)
	}
	return nil
}

// remount makes the file system at path read-only, or writable again.
func remount(path string, readOnly bool) error {
	flags := uintptr(syscall.MS_REMOUNT)
	if readOnly {
		flags |= syscall.MS_RDONLY
	}
	if err := syscall.Mount("tmpfs", path, "tmpfs", flags, ""); err != nil {
		return fmt.Errorf("remount %s: %w", path, err)
	}
	return nil
}

// unmount waits if the disk is busy: the kernel may close the files of a process after its end.
func unmount(path string) error {
	err := syscall.Unmount(path, 0)
	for tries := 0; errors.Is(err, syscall.EBUSY) && tries < 50; tries++ {
		time.Sleep(100 * time.Millisecond)
		err = syscall.Unmount(path, 0)
	}
	return err
}

// killChild kills the k-th child of a process (modulo their number) and reports whether there was
// one. Process ids are reused, so it opens a handle of the child and then checks the parent again.
func killChild(parent, k int) (bool, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false, err
	}
	var children []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && parentOf(pid) == parent {
			children = append(children, pid)
		}
	}
	if len(children) == 0 {
		return false, nil
	}
	pid := children[k%len(children)]
	p, err := os.FindProcess(pid) // a pidfd
	if err != nil {
		return false, err
	}
	defer p.Release()
	if parentOf(pid) != parent {
		return false, nil
	}
	if err = p.Kill(); errors.Is(err, os.ErrProcessDone) {
		return false, nil
	}
	return err == nil, err
}

// parentOf returns the parent of a process, or 0 if it has ended.
func parentOf(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// PID (NAME) STATE PARENT ...; a name can contain brackets.
	_, rest, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 2 || fields[0] == "Z" {
		return 0
	}
	parent, _ := strconv.Atoi(fields[1])
	return parent
}

// limits are the limits by name.
var limits = map[string]int{"nofile": syscall.RLIMIT_NOFILE, "fsize": syscall.RLIMIT_FSIZE, "as": syscall.RLIMIT_AS}

func setLimit(resource int, n uint64) error {
	return syscall.Setrlimit(resource, &syscall.Rlimit{Cur: n, Max: n})
}
