package cores

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"grpo/internal/expect"
)

func TestOfCapacities(t *testing.T) {
	all := []int{0, 1, 2, 3, 4, 5, 6, 7}
	for _, c := range []struct {
		name       string
		capacities []string // of the cores in turn; "" = no file
		allowed    []int
		want       int
	}{
		{"four of each", []string{"414\n", "414\n", "414\n", "414\n", "1024\n", "1024\n", "1024\n", "1024\n"}, all, 4},
		{"a faster one among the fast ones", []string{"325", "325", "325", "325", "850", "850", "850", "1024"}, all, 4},
		{"equal cores", []string{"1024", "1024", "1024", "1024"}, all[:4], 4},
		{"only slow cores are allowed", []string{"414", "414", "1024", "1024"}, all[:2], 2},
		{"one of two fast cores is allowed", []string{"414", "414", "1024", "1024"}, []int{0, 2}, 1},
		{"no capacities, as on amd64", []string{"", ""}, all[:2], 0},
		{"a core without a capacity", []string{"414", "", "1024"}, all[:3], 0},
		{"not a number", []string{"1024", "fast"}, all[:2], 0},
		{"zero", []string{"0", "0"}, all[:2], 0},
		{"no core", nil, nil, 0},
	} {
		root := t.TempDir()
		for i, text := range c.capacities {
			dir := filepath.Join(root, fmt.Sprintf("cpu%d", i))
			expect.OK(t, os.Mkdir(dir, 0o755))
			if text != "" {
				expect.OK(t, os.WriteFile(filepath.Join(dir, "cpu_capacity"), []byte(text), 0o644))
			}
		}
		read := func(name string) string {
			data, _ := os.ReadFile(filepath.Join(root, name))
			return string(data)
		}
		if got := ofCapacities(read, c.allowed); got != c.want {
			t.Errorf("%s: %d cores, want %d", c.name, got, c.want)
		}
	}
}

func TestThreads(t *testing.T) {
	for _, c := range []struct{ fast, most, want int }{{0, 8, 8}, {4, 8, 4}, {8, 8, 8}, {8, 2, 2}} {
		if got := threads(c.fast, c.most); got != c.want {
			t.Errorf("%d fast cores, GOMAXPROCS %d: %d threads, want %d", c.fast, c.most, got, c.want)
		}
	}
	if n := fast(); n < 0 || n > runtime.NumCPU() {
		t.Errorf("%d fast cores of %d", n, runtime.NumCPU())
	}
}
