package cores

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

func fast() int {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return 0
	}
	var allowed []int
	for cpu := 0; len(allowed) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			allowed = append(allowed, cpu)
		}
	}
	return ofCapacities(func(name string) string {
		data, _ := os.ReadFile(filepath.Join("/sys/devices/system/cpu", name)) // missing where cores are equal
		return string(data)
	}, allowed)
}
