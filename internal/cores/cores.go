// Package cores counts the fast cores of a processor that has slow ones too: threads that share work run
// on the fast ones.
package cores

import (
	"runtime"
	"strconv"
	"strings"
	"sync"
)

// Fast returns the number of fast cores (performance cores) that this process may use; 0 if the system
// does not tell, as on most machines whose cores are equal.
var Fast = sync.OnceValue(fast)

// Threads returns the default number of threads: one for each fast core, or GOMAXPROCS if that is less
// or the system does not tell.
func Threads() int { return threads(Fast(), runtime.GOMAXPROCS(0)) }

func threads(fast, most int) int {
	if fast == 0 {
		return most
	}
	return min(fast, most)
}

// ofCapacities counts the allowed cores whose capacity is at least two thirds of the greatest: a third kind of
// core, in between, counts with the one that it is close to. read returns a file of /sys/devices/system/cpu,
// empty if there is none. It returns 0 if a core has no capacity.
func ofCapacities(read func(name string) string, allowed []int) int {
	var capacities []int
	greatest := 0
	for _, cpu := range allowed {
		text := read("cpu" + strconv.Itoa(cpu) + "/cpu_capacity")
		c, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || c < 1 {
			return 0
		}
		capacities = append(capacities, c)
		greatest = max(greatest, c)
	}
	n := 0
	for _, c := range capacities {
		if 3*c >= 2*greatest {
			n++
		}
	}
	return n
}
