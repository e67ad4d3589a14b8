package sweep

import (
	"cmp"
	"fmt"
	"slices"

	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/sweepdir"
	"grpo/pkg/train"
)

// memories estimates the memory of runs. Problems that several runs share are
// loaded once.
type memories map[config.Data]*train.Problems

// of returns the estimate of a run, and false where there is none: its
// configuration or its problems can't be read, which the run itself reports.
func (m memories) of(e sweepdir.Entry, threads int) (train.Memory, bool) {
	cfg, err := frozen(e)
	if err != nil {
		return train.Memory{}, false
	}
	p, known := m[cfg.Data]
	if !known {
		if p, err = train.LoadProblems(cfg.Data); err != nil {
			p = nil
		}
		m[cfg.Data] = p
	}
	if p == nil {
		return train.Memory{}, false
	}
	need, err := train.MemoryOf(cfg, p, threads)
	return need, err == nil
}

// CheckMemory refuses a sweep with a run that is not finished and does
// not fit into the bytes available, even alone. 0 means an unknown amount.
func CheckMemory(dir string, m sweepdir.Manifest, available int64) error {
	if available <= 0 {
		return nil
	}
	known := memories{}
	for _, e := range m.Runs {
		need, ok := known.of(e, 1)
		if !ok {
			continue
		}
		if err := need.Fits(available); err != nil && !isFinished(sweepdir.StateOf(dir, e)) {
			return fmt.Errorf("%s, seed %d: %w", m.Arms[e.Arm].Name, e.Seed, err)
		}
	}
	return nil
}

// limitSlots starts fewer runs at a time where the memory would not be enough
// for those that need the most of it.
func (r *runner) limitSlots() {
	if r.opts.Memory <= 0 || r.slots < 2 {
		return
	}
	known := memories{}
	var needs []float64
	for _, j := range r.jobs {
		if need, ok := known.of(j.entry, r.threads()); ok && j.phase == waiting {
			needs = append(needs, need.Total())
		}
	}
	slices.SortFunc(needs, func(a, b float64) int { return cmp.Compare(b, a) })
	var sum float64
	for n, need := range needs[:min(r.slots, len(needs))] {
		if sum += need; sum <= float64(r.opts.Memory) || n == 0 {
			continue
		}
		r.opts.Observer.Note(fmt.Sprintf("%s at a time instead of %d: a run needs up to %s of memory, and %s are available",
			textutil.Count(n, "run"), r.slots, train.Bytes(needs[0]), train.Bytes(float64(r.opts.Memory))))
		r.slots = n
		return
	}
}
