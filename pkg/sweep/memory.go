package sweep

import (
	"cmp"
	"fmt"
	"slices"

	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/policy"
	"grpo/pkg/sweepdir"
	"grpo/pkg/train"
)

// memories returns a function that estimates the memory of a run; nil if its
// configuration or its problems can't be read, which the run itself reports. Each arm
// is estimated once, and problems that arms share are loaded once.
func memories(threads int) func(sweepdir.Entry) *train.Memory {
	problems, arms := map[config.Data]*train.Problems{}, map[int]*train.Memory{}
	return func(e sweepdir.Entry) *train.Memory {
		if need, known := arms[e.Arm]; known {
			return need
		}
		arms[e.Arm] = nil
		cfg, model, err := frozenModel(e)
		if err != nil {
			return nil
		}
		p, known := problems[cfg.Data]
		if !known {
			p, _ = train.ProblemsOf(cfg) // arms share the settings of evaluation
			problems[cfg.Data] = p
		}
		if p == nil {
			return nil
		}
		if need, err := train.MemoryOf(model, cfg, p, threads); err == nil {
			arms[e.Arm] = &need
		}
		return arms[e.Arm]
	}
}

// frozenModel returns the frozen configuration of a run and its model.
func frozenModel(e sweepdir.Entry) (config.Config, *policy.Model, error) {
	cfg, err := frozen(e)
	if err != nil {
		return cfg, nil, err
	}
	m, err := policy.Of(cfg)
	return cfg, m, err
}

// checkMemory refuses a sweep with an unfinished run that does not fit into the
// bytes available, even alone. 0 means an unknown amount.
func checkMemory(dir string, m sweepdir.Manifest, available int64) error {
	if available <= 0 {
		return nil
	}
	of := memories(1)
	for _, e := range m.Runs {
		need := of(e)
		if need == nil {
			continue
		}
		if err := need.Fits(available); err != nil && !sweepdir.StateOf(dir, e).Finished() {
			return fmt.Errorf("%s, seed %d: %w", m.NameOf(e.Arm), e.Seed, err)
		}
	}
	return nil
}

// limitSlots lowers the number of parallel runs if those that need the most memory
// don't fit together, on the host or, unless the number was asked for, on a GPU.
func (r *runner) limitSlots() {
	fills := func(j *job) bool {
		_, model, err := frozenModel(j.entry)
		return err == nil && model.MayUseGPU() && model.IsDecoder()
	}
	if r.opts.Jobs <= 0 && r.slots > 1 && slices.ContainsFunc(r.in(waiting), fills) {
		r.note("1 run at a time: a Llama or Qwen network may need most of the GPU's memory (--jobs %d runs more)", r.slots)
		r.slots = 1
	}
	if r.opts.Memory <= 0 || r.slots < 2 {
		return
	}
	of := memories(r.threads())
	var needs []float64
	for _, j := range r.in(waiting) {
		if need := of(j.entry); need != nil {
			needs = append(needs, need.Total())
		}
	}
	slices.SortFunc(needs, func(a, b float64) int { return cmp.Compare(b, a) })
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
