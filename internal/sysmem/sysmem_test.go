package sysmem

import (
	"runtime"
	"testing"
)

const gib = 1 << 30

// files are a machine of 8 GiB of which 6 are available.
func files(more map[string]string) reader {
	all := map[string]string{"/proc/meminfo": "MemTotal:        8388608 kB\nMemFree:          100 kB\nMemAvailable:    6291456 kB\nHugePages_Total:       0\n"}
	for name, text := range more {
		all[name] = text
	}
	return func(name string) string { return all[name] }
}

func TestLinux(t *testing.T) {
	for _, c := range []struct {
		name string
		read reader
		want int64
	}{
		{"no cgroup", files(nil), 6 * gib},
		{"an old kernel", files(map[string]string{"/proc/meminfo": "MemTotal: 8388608 kB\n"}), 8 * gib},
		{"nothing can be read", func(string) string { return "" }, 0},
		{"not what it should be", files(map[string]string{"/proc/meminfo": "MemAvailable: lots kB\n", "/proc/self/cgroup": "0::/a\n:::\n0:\n", "/sys/fs/cgroup/a/memory.max": "-1"}), 0},
		{"version 2, with a cache of files", files(map[string]string{
			"/proc/self/cgroup":                      "0::/user/job\n",
			"/sys/fs/cgroup/user/job/memory.max":     "2147483648\n",
			"/sys/fs/cgroup/user/job/memory.current": "1610612736\n",
			"/sys/fs/cgroup/user/job/memory.stat":    "anon 5\ninactive_file 1073741824\nactive_file 7\n",
		}), 3 * gib / 2},
		{"version 2, limited by a parent", files(map[string]string{
			"/proc/self/cgroup":                  "0::/user/job\n",
			"/sys/fs/cgroup/user/job/memory.max": "max\n",
			"/sys/fs/cgroup/user/memory.max":     "3221225472\n",
			"/sys/fs/cgroup/user/memory.current": "1073741824\n",
		}), 2 * gib},
		{"version 2, all used up", files(map[string]string{
			"/proc/self/cgroup":             "0::/\n",
			"/sys/fs/cgroup/memory.max":     "1000\n",
			"/sys/fs/cgroup/memory.current": "2000\n",
		}), 1},
		{"version 1 in a container that sees its own group as the root", files(map[string]string{
			"/proc/self/cgroup":                           "5:cpu,cpuacct:/docker/1\n4:memory:/docker/1\n0::/docker/1\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes": "4294967296\n",
			"/sys/fs/cgroup/memory/memory.usage_in_bytes": "1073741824\n",
			"/sys/fs/cgroup/memory/memory.stat":           "total_inactive_file 0\n",
		}), 3 * gib},
		{"version 1 without a limit", files(map[string]string{
			"/proc/self/cgroup":                           "4:memory:/\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
			"/sys/fs/cgroup/memory/memory.usage_in_bytes": "1073741824\n",
		}), 6 * gib},
	} {
		if got := linux(c.read); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestAvailable(t *testing.T) {
	got := Available()
	if got < 0 || got == unknown {
		t.Errorf("%d bytes", got)
	}
	if (runtime.GOOS == "linux" || runtime.GOOS == "darwin") && got < 16<<20 {
		t.Errorf("%d bytes, with which this test could not run", got)
	}
}
