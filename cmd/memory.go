package cmd

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"grpo/internal/sysmem"
	"grpo/pkg/config"
	"grpo/pkg/train"
)

// memoryEnv says how much memory there is, instead of what the system says, or
// "off" for no check.
const memoryEnv = "GRPO_MEMORY"

// memorySetting reads GRPO_MEMORY; without it, or with "off", the amount is 0.
func memorySetting(env []string) (bytes int64, set bool, err error) {
	for _, kv := range env {
		text, ok := strings.CutPrefix(kv, memoryEnv+"=")
		if !ok || text == "" {
			continue
		}
		if bytes, err = parseMemory(text); err != nil {
			return 0, false, fmt.Errorf("%w: %s=%s: %w", config.ErrConfig, memoryEnv, text, err)
		}
		set = true
	}
	return bytes, set, nil
}

// parseMemory reads "off" (0), or an amount such as 800MiB, 16GB or 2e9.
func parseMemory(text string) (int64, error) {
	if text == "off" {
		return 0, nil
	}
	factor := 1.0
	for _, u := range []struct {
		unit   string
		factor float64
	}{
		{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
		{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	} {
		if number, ok := strings.CutSuffix(text, u.unit); ok {
			text, factor = strings.TrimSpace(number), u.factor
			break
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n*factor >= 1 && n*factor < math.MaxInt64) {
		return 0, errors.New("give an amount such as 800MiB or 16GB, or \"off\" for no check of the memory")
	}
	return int64(n * factor), nil
}

// systemMemory leaves a tenth of what the system has to others, and to what the
// garbage collector lets lie.
func systemMemory() int64 { return sysmem.Available() / 10 * 9 }

// available is the memory that runs may take; 0 = unknown, or not to be checked.
func (s *State) available() int64 {
	// An error was reported before the command began.
	if n, set, _ := memorySetting(s.Env); set || s.Memory == nil {
		return n
	}
	return s.Memory()
}

// checkMemory refuses a run that does not fit into the memory. It lets the
// garbage collector work harder where the memory in use reaches the estimate: by
// itself it would let garbage grow to the size of what is in use.
func (s *State) checkMemory(m train.Memory) error {
	available := s.available()
	if err := m.Fits(available); err != nil {
		return err
	}
	if available > 0 && s.LimitHeap != nil {
		total := m.Total()
		s.LimitHeap(int64(total + max(total/10, 64<<20)))
	}
	return nil
}

// limitHeap sets the garbage collector's limit, unless GOMEMLIMIT has set it.
func limitHeap(bytes int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(bytes)
	}
}
