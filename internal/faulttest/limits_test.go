//go:build unix

package faulttest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// limitedCommand makes this program run another one under a limit: a process can only set its own
// limits, and this project uses no shell.
//
//	faulttest limited nofile=12 PROGRAM ARGS...
const limitedCommand = "limited"

// runLimited does not return when it succeeds.
func runLimited(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: limited NAME=NUMBER PROGRAM ARGS...")
	}
	name, text, _ := strings.Cut(args[0], "=")
	resource, ok := limits[name]
	n, err := strconv.ParseUint(text, 10, 64)
	if !ok || err != nil {
		return fmt.Errorf("no limit %q", args[0])
	}
	if err := setLimit(resource, n); err != nil {
		return fmt.Errorf("set the limit %s: %w", args[0], err)
	}
	return syscall.Exec(args[1], args[1:], os.Environ())
}

// limited is [lab.train] under a limit.
func (l *lab) limited(dir, limit string, n uint64) *process {
	p := l.train(dir)
	p.cmd.Args = slices.Concat([]string{l.self, limitedCommand, fmt.Sprintf("%s=%d", limit, n), l.binary}, p.cmd.Args[1:])
	p.cmd.Path = l.self
	return p
}

// underLimit tries a run under some values of a limit and then without it.
func (l *lab) underLimit(name string, values []uint64, check func(outcome) error) (string, error) {
	if _, ok := limits[name]; !ok {
		return "", skip("this system has no such limit")
	}
	hit := 0
	for _, v := range values {
		dir := l.dir()
		o, err := l.limited(dir, name, v).wait()
		if err != nil {
			return "", err
		}
		if o.code != 0 {
			hit++
			if err := check(o); err != nil {
				return "", fmt.Errorf("%s=%d: %w", name, v, err)
			}
		}
		if err := l.finished(dir); err != nil {
			return "", fmt.Errorf("after %s=%d: %w", name, v, err)
		}
	}
	if hit == 0 {
		return "", fmt.Errorf("no run met a limit of %v: the tool needs other values", values)
	}
	n := len(values)
	return fmt.Sprintf("%d limits from %d to %d, %d runs stopped: all %d equal without",
		n, slices.Min(values), slices.Max(values), hit, n), nil
}

// some returns n of the values, evenly spaced.
func some(values []uint64, n int) []uint64 {
	if n >= len(values) {
		return values
	}
	var out []uint64
	for i := range n {
		out = append(out, values[i*len(values)/n])
	}
	return out
}

func fewFiles(l *lab) (string, error) {
	// Go's own runtime needs the first few.
	values := []uint64{8, 9, 10, 11, 12, 13, 14, 16}
	return l.underLimit("nofile", some(values, max(3, l.tries(len(values)))), func(o outcome) error {
		return clear(o, []int{1}, "too many open files")
	})
}

func smallFiles(l *lab) (string, error) {
	values := []uint64{1 << 10, 8 << 10, 100 << 10, 200 << 10, 300 << 10, 700 << 10, 800 << 10, 2 << 20}
	return l.underLimit("fsize", some(values, max(3, l.tries(len(values)))), func(o outcome) error {
		return clear(o, []int{1}, "file too large")
	})
}

// smallMemory limits the address space. Usually an allocation of the Go runtime fails, which ends
// the process. Its message must say why, and no file may be damaged.
func smallMemory(l *lab) (string, error) {
	values := []uint64{100 << 20, 200 << 20, 400 << 20, 600 << 20, 800 << 20, 1000 << 20, 1200 << 20, 1500 << 20}
	return l.underLimit("as", some(values, max(3, l.tries(len(values)))), func(o outcome) error {
		for _, want := range []string{
			"not enough memory", "out of memory", "cannot allocate memory", "failed to reserve", "failed to create new OS thread",
		} {
			if strings.Contains(o.stderr, want) {
				return nil
			}
		}
		return fmt.Errorf("its error does not mention memory: %s", o)
	})
}

func softMemory(l *lab) (string, error) {
	n := l.tries(4)
	for i := range n {
		dir := l.dir()
		p := l.train(dir)
		p.cmd.Env = append(p.cmd.Env, fmt.Sprintf("GOMEMLIMIT=%dMiB", 4<<i))
		if _, err := p.succeed(); err != nil {
			return "", err
		}
		if err := l.same(dir); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d limits from 4 to %d MiB: all equal", n, 4<<(n-1)), nil
}
