package sweep

import (
	"math"
	"slices"
)

// Clock is the progress of a run, for [Remaining].
type Clock struct {
	Arm   int
	Steps int // that it is to make
	Step  int // that it has made
	// First is the step after which its process began: Seconds were spent on the
	// steps after it.
	First   int
	Seconds float64
	// Rate is seconds a step, as measured over the steps of this process; 0 while
	// there are too few.
	Rate    float64
	Running bool
	// Ended runs have nothing left: done, diverged or given up.
	Ended bool
	// Measured says that Seconds are those of a run that came to its end, so that
	// others of its arm will take as long.
	Measured bool
}

// atLeast is the share of a run after which its own pace counts: before that the
// evaluation at its start and the first steps dominate.
const atLeast = 0.1

// Remaining estimates the seconds until all runs have ended, with jobs of them at
// a time; ok is false while nothing has been measured.
//
// A run takes what the ended runs of its arm took; if there are none, what its
// running runs suggest; if its arm has not begun, what the other arms take, in
// proportion to the work of a run (work[i], see [Work]). A running run continues
// at its own pace. Waiting runs begin in their order, each in the first free slot.
func Remaining(runs []Clock, work []float64, jobs int) (seconds float64, ok bool) {
	whole := wholeRuns(runs, work)
	if whole == nil {
		return 0, false
	}
	var free []float64 // seconds after which each slot is free
	for _, r := range runs {
		if r.Running && !r.Ended {
			free = append(free, r.left(whole[r.Arm]))
		}
	}
	for len(free) < max(1, jobs) {
		free = append(free, 0)
	}
	for _, r := range runs {
		if !r.Running && !r.Ended {
			enqueue(free, r.left(whole[r.Arm]))
		}
	}
	return slices.Max(free), true
}

// left is what a run still takes, when a whole one of its arm takes so long.
func (r Clock) left(whole float64) float64 {
	todo := float64(r.Steps-r.Step) / float64(max(1, r.Steps))
	switch {
	case !r.Running:
		return whole * todo
	case r.Rate > 0 && r.share() >= atLeast:
		return r.Rate * float64(r.Steps-r.Step)
	}
	return math.Max(whole*float64(r.Steps-r.First)/float64(max(1, r.Steps))-r.Seconds, 0)
}

// share is the part of the run that was made in Seconds.
func (r Clock) share() float64 { return float64(r.Step-r.First) / float64(max(1, r.Steps)) }

// wholeRuns estimates, for each arm, the seconds of a whole run; nil while
// nothing has been measured.
func wholeRuns(runs []Clock, work []float64) []float64 {
	ended, atWork := make([]mean, len(work)), make([]mean, len(work))
	for _, r := range runs {
		switch {
		case r.Ended && r.Measured && r.Seconds > 0 && r.Step > r.First:
			// Of a run that was continued only the last part was seen.
			ended[r.Arm].add(r.Seconds * float64(r.Step) / float64(r.Step-r.First))
		case r.Running && r.Rate > 0 && r.share() >= atLeast:
			atWork[r.Arm].add(r.Rate*float64(r.Steps-r.Step) + r.Seconds*float64(r.Step)/float64(r.Step-r.First))
		}
	}
	out := make([]float64, len(work))
	var perWork mean
	for i := range work {
		if out[i] = ended[i].value(); ended[i].n == 0 {
			out[i] = atWork[i].value()
		}
		if out[i] > 0 && work[i] > 0 {
			perWork.add(out[i] / work[i])
		}
	}
	if perWork.n == 0 {
		return nil
	}
	for i := range out {
		if out[i] == 0 {
			out[i] = perWork.value() * work[i]
		}
	}
	return out
}

type mean struct {
	sum float64
	n   int
}

func (m *mean) add(x float64) { m.sum += x; m.n++ }

func (m mean) value() float64 {
	if m.n == 0 {
		return 0
	}
	return m.sum / float64(m.n)
}
