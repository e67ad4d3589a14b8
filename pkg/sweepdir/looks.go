package sweepdir

import (
	"fmt"
	"slices"
)

// Planned is the state of a run with a seed of a later look. It is trained if the looks before go on
// with its arm.
const Planned = "planned"

// Look is an analysis that was planned before the first result: when all runs with the first Seeds
// seeds of the manifest have ended, the arms are compared at Level.
type Look struct {
	Seeds int     `json:"seeds"`
	Level float64 `json:"level"`
	// Choice marks the first look of a sweep with [Manifest.BestOver]: the best point of each tuned arm goes on. It
	// tests nothing, and the later looks compare the chosen points on the seeds after its own.
	Choice bool `json:"choice,omitempty"`
	// Taken is what was decided; nil until then. It is written once and never changes.
	Taken *Decision `json:"taken,omitempty"`
}

// Decision is the outcome of a look.
type Decision struct {
	GoOn  []int    `json:"go_on"`           // arms that get the seeds of the next look; none: the sweep ends
	Out   []ArmOut `json:"out,omitempty"`   // arms that get none from this look on
	Ended string   `json:"ended,omitempty"` // one of the reasons below; empty if arms go on
}

// Why a sweep ends at a look.
const (
	EndAnswered = "answered" // every comparison is separated, or the same within the margin
	EndFutile   = "futile"   // more seeds are not expected to show a difference
	EndLast     = "last"     // it is the last look
)

// ArmOut is an arm that gets no more seeds.
type ArmOut struct {
	Arm int    `json:"arm"`
	Why string `json:"why"`          // one of the reasons below
	By  int    `json:"by,omitempty"` // index of the other arm
}

// Why an arm gets no more seeds.
const (
	OutBeaten    = "beaten"    // by another arm, in a sweep that looks for the best
	OutSeparated = "separated" // from the arm that all are compared with
	OutSame      = "same"      // within the margin as the arm that it is compared with
	OutDiverged  = "diverged"  // it can't be the best
	OutWorse     = "worse"     // another point of its tuned arm was chosen
)

// NextLook is the index of the first look that is not taken; -1 if there is none, or an earlier one has ended
// the sweep.
func (m Manifest) NextLook() int {
	n := m.LooksTaken()
	if n == len(m.Looks) || n > 0 && m.Looks[n-1].Taken.Ended != "" {
		return -1
	}
	return n
}

// ChosenOn is the number of seeds on which the points of tuned arms are chosen. Comparisons leave them out.
func (m Manifest) ChosenOn() int {
	if len(m.Looks) > 0 && m.Looks[0].Choice {
		return m.Looks[0].Seeds
	}
	return 0
}

// LooksTaken counts the looks that were taken.
func (m Manifest) LooksTaken() int {
	n := slices.IndexFunc(m.Looks, func(l Look) bool { return l.Taken == nil })
	if n < 0 {
		return len(m.Looks)
	}
	return n
}

// GoesOn reports whether an arm has the seeds of a look: whether no look before it has ended with
// the arm out. A look before it that is not taken counts as one that goes on.
func (m Manifest) GoesOn(arm, look int) bool {
	isOut := func(l Look) bool { return l.Taken != nil && !slices.Contains(l.Taken.GoOn, arm) }
	return !slices.ContainsFunc(m.Looks[:look], isOut)
}

// LookOf is the index of the look to which a run belongs; 0 without looks.
func (m Manifest) LookOf(e Entry) int {
	at := slices.Index(m.Seeds, e.Seed)
	return max(0, slices.IndexFunc(m.Looks, func(l Look) bool { return at < l.Seeds }))
}

// IsStopped reports whether a run is not trained (any further): halving has stopped its arm, or a look
// has ended without it.
func (m Manifest) IsStopped(e Entry) bool {
	return m.StoppedAt(e.Arm) > 0 || !m.GoesOn(e.Arm, m.LookOf(e))
}

// IsPlanned reports whether a look must be taken before the run may be trained.
func (m Manifest) IsPlanned(e Entry) bool {
	next := m.NextLook()
	return next >= 0 && m.LookOf(e) > next && !m.IsStopped(e)
}

func (m Manifest) checkLooks() error {
	if len(m.Looks) == 0 {
		return nil
	}
	if m.Halving != nil {
		return fmt.Errorf("looks: a sweep with halving has none")
	}
	seeds, taken, level := 0, true, 0.0
	for i, l := range m.Looks {
		if l.Choice && (i > 0 || m.BestOver == "" || len(m.Looks) < 2) {
			return fmt.Errorf("looks[%d]: a choice comes first, in a sweep with best_over", i)
		}
		if l.Seeds <= seeds || !(l.Level > 0) && !l.Choice {
			return fmt.Errorf("looks[%d]: %d seeds at level %g after %d seeds", i, l.Seeds, l.Level, seeds)
		}
		seeds, level = l.Seeds, level+l.Level
		if l.Taken == nil {
			taken = false
			continue
		}
		if !taken || len(l.Taken.GoOn) > 0 == (l.Taken.Ended != "") {
			return fmt.Errorf("looks[%d]: it was taken before an earlier one, or neither goes on nor ends", i)
		}
		for _, arm := range l.Taken.GoOn {
			if arm < 0 || arm >= len(m.Arms) || !m.GoesOn(arm, i) {
				return fmt.Errorf("looks[%d]: the arm %d goes on, which is out or does not exist", i, arm)
			}
		}
		for _, out := range l.Taken.Out {
			if min(out.Arm, out.By) < 0 || max(out.Arm, out.By) >= len(m.Arms) {
				return fmt.Errorf("looks[%d]: there is no arm %d or %d", i, out.Arm, out.By)
			}
		}
	}
	if seeds != len(m.Seeds) || level > 0.05+1e-9 {
		return fmt.Errorf("looks: the last one has %d of %d seeds, and the levels add up to %g", seeds, len(m.Seeds), level)
	}
	return nil
}
