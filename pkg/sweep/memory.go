package sweep

import (
	"fmt"
	"slices"

	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/sweepdir"
	"grpo/pkg/train"
)

// memories estimates the memory of runs, once for each arm: its runs differ in
// their seed alone, which needs no memory. Problems that arms share are loaded
// once.
type memories struct {
	threads  int
	problems map[config.Data]*train.Problems // nil: they can't be read
	arms     map[int]*train.Memory           // nil: there is no estimate
}

func newMemories(threads int) memories {
	return memories{threads, map[config.Data]*train.Problems{}, map[int]*train.Memory{}}
}

// of returns the estimate of a run, or nil: its configuration or its problems
// can't be read, which the run itself reports.
func (m memories) of(e sweepdir.Entry) *train.Memory {
	if need, known := m.arms[e.Arm]; known {
		return need
	}
	m.arms[e.Arm] = nil
	cfg, err := frozen(e)
	if err != nil {
		return nil
	}
	if _, known := m.problems[cfg.Data]; !known {
		if p, err := train.LoadProblems(cfg.Data); err == nil {
			m.problems[cfg.Data] = p
		} else {
			m.problems[cfg.Data] = nil
		}
	}
	if p := m.problems[cfg.Data]; p != nil {
		if need, err := train.MemoryOf(cfg, p, m.threads); err == nil {
			m.arms[e.Arm] = &need
		}
	}
	return m.arms[e.Arm]
}

// checkMemory refuses a sweep with an unfinished run that does not fit into the
// bytes available, even alone. 0 means an unknown amount.
func checkMemory(dir string, m sweepdir.Manifest, available int64) error {
	if available <= 0 {
		return nil
	}
	known := newMemories(1)
	for _, e := range m.Runs {
		need := known.of(e)
		if need == nil {
			continue
		}
		if err := need.Fits(available); err != nil && !isFinished(sweepdir.StateOf(dir, e)) {
			return fmt.Errorf("%s, seed %d: %w", m.Arms[e.Arm].Name, e.Seed, err)
		}
	}
	return nil
}

// limitSlots lowers the number of parallel runs if those that need the most memory
// would not fit together.
func (r *runner) limitSlots() {
	if r.opts.Memory <= 0 || r.slots < 2 {
		return
	}
	known := newMemories(r.threads())
	var needs []float64
	for _, j := range r.jobs {
		if j.phase != waiting {
			continue
		}
		if need := known.of(j.entry); need != nil {
			needs = append(needs, need.Total())
		}
	}
	slices.Sort(needs)
	slices.Reverse(needs)
	var sum float64
	for n, need := range needs[:min(r.slots, len(needs))] {
		if sum += need; sum <= float64(r.opts.Memory) || n == 0 {
			continue
		}
		r.note("%s at a time instead of %d: a run needs up to %s of memory, and %s are available",
			textutil.Count(n, "run"), r.slots, train.Bytes(needs[0]), train.Bytes(float64(r.opts.Memory)))
		r.slots = n
		return
	}
}
