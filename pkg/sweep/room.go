package sweep

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"grpo/internal/textutil"
	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/dataset"
	"grpo/pkg/policy"
	"grpo/pkg/sweepdir"
	"grpo/pkg/train"
)

// CheckRoom refuses a sweep, or a study of several, whose unfinished runs don't fit into the memory,
// each alone, or on the disk, all together. dir is its folder.
func CheckRoom(dir string, parts []*Located, opts Options) error {
	if opts.Memory > 0 {
		for _, p := range parts {
			if err := p.checkMemory(opts.Memory); err != nil {
				return err
			}
		}
	}
	if opts.Disk == nil {
		return nil
	}
	return opts.Disk(dir, diskOf(parts, opts.Jobs))
}

// memories returns a function that estimates the memory of a run; nil if its
// configuration or its problems can't be read, which the run itself reports. Each arm
// is estimated once, and problems that arms share are loaded once.
func memories(threads int) func(sweepdir.Entry) *budget.Memory {
	problems, arms := map[string]*dataset.Splits{}, map[int]*budget.Memory{}
	return func(e sweepdir.Entry) *budget.Memory {
		if need, known := arms[e.Arm]; known {
			return need
		}
		arms[e.Arm] = nil
		cfg, model, err := frozenModel(e)
		if err != nil {
			return nil
		}
		data := fmt.Sprint(cfg.Data)
		p, known := problems[data]
		if !known {
			p, _ = dataset.Of(cfg) // arms share the settings of evaluation
			problems[data] = p
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

// checkMemory refuses a sweep with an unfinished run that does not fit into the bytes available.
func (p *Located) checkMemory(available int64) error {
	of, isLeft := memories(1), p.isLeft()
	for _, e := range p.Manifest.Runs {
		need := of(e)
		if need == nil {
			continue
		}
		if err := need.Fits(available); err != nil && isLeft(e) {
			return fmt.Errorf("%s, seed %d: %w", p.Manifest.NameOf(e.Arm), e.Seed, err)
		}
	}
	return nil
}

// isLeft returns which runs may still be trained.
func (p *Located) isLeft() func(sweepdir.Entry) bool {
	may := mayTrain(p.Manifest)
	return func(e sweepdir.Entry) bool { return may(e) && !p.Manifest.IsStopped(e) && !p.stateOf(e).Finished() }
}

// diskOf estimates the bytes that the unfinished runs of sweeps will write: what each leaves behind,
// and for each sweep what jobs of its runs (0 = one per core) need in addition while they run.
func diskOf(parts []*Located, jobs int) (sum float64) {
	for _, p := range parts {
		var kept, while float64
		arms := map[int]budget.Disk{}
		n, isLeft := 0, p.isLeft()
		for _, e := range p.Manifest.Runs {
			if !isLeft(e) {
				continue
			}
			need, known := arms[e.Arm]
			if !known {
				if cfg, m, err := frozenModel(e); err == nil { // otherwise the run itself reports it
					need = budget.DiskOf(m, cfg)
				}
				arms[e.Arm] = need
			}
			if !p.Waits {
				need = need.Less(e.Path(p.Dir))
			}
			kept += need.Kept
			while = max(while, need.Peak-need.Kept)
			n++
		}
		if n > 0 {
			sum += kept + float64(Slots(jobs, runtime.GOMAXPROCS(0), n))*while
		}
	}
	return sum
}

// fitSlots lowers the number of parallel runs of these entries if those that need the most memory
// don't fit together, on the host or, unless the number was asked for, on a GPU.
func (o Options) fitSlots(entries []sweepdir.Entry, slots int) int {
	fills := func(e sweepdir.Entry) bool {
		_, model, err := frozenModel(e)
		return err == nil && model.MayUseGPU() && model.IsDecoder()
	}
	if o.Jobs <= 0 && slots > 1 && slices.ContainsFunc(entries, fills) {
		o.Observer.Note(fmt.Sprintf("1 run at a time: a Llama or Qwen network may need most of the GPU's memory "+
			"(--jobs %d runs more)", slots))
		slots = 1
	}
	if o.Memory <= 0 || slots < 2 {
		return slots
	}
	of := memories(o.threads(min(slots, len(entries))))
	var needs []float64
	for _, e := range entries {
		if need := of(e); need != nil {
			needs = append(needs, need.Total())
		}
	}
	slices.SortFunc(needs, func(a, b float64) int { return cmp.Compare(b, a) })
	var sum float64
	for n, need := range needs[:min(slots, len(needs))] {
		if sum += need; sum <= float64(o.Memory) || n == 0 {
			continue
		}
		o.Observer.Note(fmt.Sprintf("%s at a time instead of %d: a run needs up to %s of memory, and %s are available",
			textutil.Count(n, "run"), slots, budget.Bytes(needs[0]), budget.Bytes(float64(o.Memory))))
		return n
	}
	return slots
}

// Resources are what one run needs on a cluster.
type Resources struct {
	CPUs   int
	Memory int64         // bytes; 0 = unknown
	Time   time.Duration // 0 = unknown
}

// Needs proposes what a run of these entries needs, unless the settings say it: one core, or two for
// a checkpoint, and half more memory than the estimate. It proposes no time ([Plan.ProposedTime]).
func (p *Plan) Needs(entries []sweepdir.Entry) Resources {
	need := Resources{CPUs: p.Launcher.CPUs}
	need.Memory, _ = config.ParseMemory(p.Launcher.Memory) // checked with the configuration
	need.Time, _ = config.ParseTime(p.Launcher.Time)
	if need.CPUs == 0 {
		need.CPUs = 1
		for _, e := range entries {
			if _, m, err := frozenModel(e); err == nil && m.IsDecoder() {
				need.CPUs = 2
			}
		}
	}
	if need.Memory > 0 {
		return need
	}
	const step = 256 << 20
	of := memories(need.CPUs)
	var most float64
	for _, e := range entries {
		if m := of(e); m != nil {
			most = max(most, m.Total())
		}
	}
	if most > 0 {
		need.Memory = int64(math.Ceil((1.5*most+step)/step)) * step
	}
	return need
}
