// Package sysmem reports how much memory this process may still allocate. It never fails: an
// unknown amount is no limit.
package sysmem

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// Available returns the bytes of memory that this process may still allocate before the system, its
// cgroup or its limits stop it; 0 if unknown.
func Available() int64 { return available() }

// least returns the smallest of the known amounts. 0 bytes left counts as 1, since 0 means unknown.
func least(amounts ...int64) (out int64) {
	for _, n := range amounts {
		if n != unknown && (out == 0 || n < out) {
			out = max(n, 1)
		}
	}
	return out
}

// unknown is an amount that could not be determined, or no limit.
const unknown = int64(1<<63 - 1)

// reader reads a small file; "" on failure.
type reader func(name string) string

// linux is [Available] on Linux, without the limits of the process.
func linux(read reader) int64 {
	return least(meminfo(read("/proc/meminfo")), cgroups(read))
}

// meminfo reads /proc/meminfo. Kernels before 3.14 have no MemAvailable.
func meminfo(text string) int64 {
	fields := map[string]int64{}
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(line, ":")
		if value, ok := strings.CutSuffix(strings.TrimSpace(rest), " kB"); ok {
			if kb := number(value); kb < unknown>>10 {
				fields[name] = kb << 10
			}
		}
	}
	for _, name := range []string{"MemAvailable", "MemTotal"} {
		if n, ok := fields[name]; ok {
			return n
		}
	}
	return unknown
}

// hierarchy is one version of cgroups: the root of its groups, and the files in each. The cache is
// subtracted from the usage: it is freed on demand.
type hierarchy struct{ root, limit, usage, cache string }

var (
	version2 = hierarchy{"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"}
	version1 = hierarchy{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}
)

// cgroups returns the memory left in this process's group and each of its parents.
func cgroups(read reader) int64 {
	left := unknown
	for line := range strings.Lines(read("/proc/self/cgroup")) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		h := version1
		switch {
		case parts[0] == "0" && parts[1] == "":
			h = version2
		case !slices.Contains(strings.Split(parts[1], ","), "memory"):
			continue
		}
		// In a container the path may be the host's: the container's group is then the root, which
		// this loop reaches last.
		for dir := path.Clean("/" + parts[2]); ; dir = path.Dir(dir) {
			left = min(left, h.left(read, dir))
			if dir == "/" {
				break
			}
		}
	}
	return left
}

// left is the memory that a group may still use; version 1 writes "no limit" as a number near 2^63.
func (h hierarchy) left(read reader, dir string) int64 {
	file := func(name string) string { return strings.TrimSpace(read(path.Join(h.root, dir, name))) }
	limit, usage := number(file(h.limit)), number(file(h.usage))
	if limit >= 1<<60 || usage == unknown {
		return unknown
	}
	for line := range strings.Lines(file("memory.stat")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n := number(value); name == h.cache && n <= usage {
			usage -= n
		}
	}
	return max(limit-usage, 0)
}

// number is unknown for everything but a non-negative integer ("max", "").
func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return unknown
	}
	return n
}
