package sweep

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"grpo/pkg/config"
	"grpo/pkg/sweepdir"
)

// Resources are what one run needs.
type Resources struct {
	CPUs   int
	Memory int64         // bytes; 0 = unknown
	Time   time.Duration // 0 = unknown
}

// Needs proposes what a run of these entries needs, unless the settings say it: one core, or two for
// a checkpoint, and half more memory than the estimate. It proposes no time.
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
	if need.Memory == 0 {
		need.Memory = proposedMemory(entries, need.CPUs)
	}
	return need
}

// Resources is [Plan.Needs] with a time: twice what the first steps take on this machine. Without a
// measurement there is none.
func (p *Located) Resources(
	ctx context.Context, entries []sweepdir.Entry, now func() time.Time, note func(string),
) Resources {
	need := p.Needs(entries)
	if need.Time == 0 && len(entries) > 0 {
		var err error
		if need.Time, err = p.proposedTime(ctx, entries, need.CPUs, now); err != nil {
			note(fmt.Sprintf("no time limit is set, because the first steps could not be measured here (%v); "+
				"--time sets one", err))
		}
	}
	return need
}

func proposedMemory(entries []sweepdir.Entry, threads int) int64 {
	const step = 256 << 20
	of := memories(threads)
	var most float64
	for _, e := range entries {
		if need := of(e); need != nil {
			most = max(most, need.Total())
		}
	}
	if most == 0 {
		return 0
	}
	return int64(math.Ceil((1.5*most+step)/step)) * step
}

func (p *Located) proposedTime(
	ctx context.Context, entries []sweepdir.Entry, threads int, now func() time.Time,
) (time.Duration, error) {
	estimates, err := EstimateTime(ctx, []*Plan{p.Plan}, 1, threads, NewProbe(now))
	if err != nil {
		return 0, err
	}
	var longest float64
	for _, e := range entries {
		longest = max(longest, estimates[0].Arms[e.Arm])
	}
	const step, most = 10 * time.Minute, 365 * 24 * time.Hour
	if estimates[0].AtLeast || longest*2 > most.Seconds() {
		return 0, errors.New("two steps take longer than a minute")
	}
	return time.Duration(math.Ceil(2*longest/step.Seconds()))*step + step, nil
}
