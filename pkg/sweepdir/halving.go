package sweepdir

import (
	"fmt"
	"slices"
)

// Stopped is the state of an unfinished run whose arm successive halving, or a planned look, has stopped.
const Stopped = "stopped"

// Halving is successive halving: at each rung the better half of the arms continues.
type Halving struct {
	Rungs []Rung `json:"rungs"` // by step
}

// Rung is a step at which all arms wait for each other. Its ranking is empty until it is decided.
type Rung struct {
	Step int `json:"step"`
	// Ranking has the arms that were compared, best first.
	Ranking []Ranked `json:"ranking,omitempty"`
	Stopped []int    `json:"stopped,omitempty"` // arms of the ranking
}

// Ranked is an arm at a rung.
type Ranked struct {
	Arm      int     `json:"arm"`
	Reward   float64 `json:"reward"`             // sampled validation answer reward, mean over the seeds
	Diverged int     `json:"diverged,omitempty"` // runs that had diverged
}

// NextRung is the step of the first rung that is not decided; 0 if there is none.
func (m Manifest) NextRung() int {
	if m.Halving != nil {
		for _, r := range m.Halving.Rungs {
			if len(r.Ranking) == 0 {
				return r.Step
			}
		}
	}
	return 0
}

// StoppedAt is the step at which an arm was stopped; 0 if it was not.
func (m Manifest) StoppedAt(arm int) int {
	if m.Halving != nil {
		for _, r := range m.Halving.Rungs {
			if slices.Contains(r.Stopped, arm) {
				return r.Step
			}
		}
	}
	return 0
}

// Settle gives an unfinished run of a stopped arm the state [Stopped], and one that waits for a look
// the state [Planned].
func (m Manifest) Settle(s RunState) RunState {
	switch {
	case Ended(s.State):
	case m.IsStopped(s.Entry):
		s.State, s.Error = Stopped, ""
	case m.IsPlanned(s.Entry):
		s.State, s.Error = Planned, ""
	}
	return s
}

func (m Manifest) checkHalving() error {
	if m.Halving == nil {
		return nil
	}
	last := 0
	for i, r := range m.Halving.Rungs {
		if r.Step <= last {
			return fmt.Errorf("halving.rungs[%d]: step %d after step %d", i, r.Step, last)
		}
		last = r.Step
		ranked := map[int]bool{}
		for _, a := range r.Ranking {
			if a.Arm < 0 || a.Arm >= len(m.Arms) || ranked[a.Arm] {
				return fmt.Errorf("halving.rungs[%d]: arm %d is ranked twice or does not exist", i, a.Arm)
			}
			ranked[a.Arm] = true
		}
		for _, a := range r.Stopped {
			if !ranked[a] {
				return fmt.Errorf("halving.rungs[%d]: the stopped arm %d is not ranked", i, a)
			}
		}
	}
	if last == 0 {
		return fmt.Errorf("halving: it has no rungs")
	}
	return nil
}
