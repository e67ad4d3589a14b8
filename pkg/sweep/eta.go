package sweep

import (
	"slices"

	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// Pace is how fast a run goes, from its metrics. Evaluations count by themselves: with a large model those before
// the first step and after the last can take longer than all steps.
type Pace struct {
	steps   int            // that were added
	seconds float64        // of these, without evaluations
	last    rundir.Metrics // of the newest
}

// PaceOf is the pace of a run with these metrics.
func PaceOf(lines []rundir.Metrics) *Pace {
	p := &Pace{}
	for _, m := range lines {
		p.Add(m)
	}
	return p
}

// Add adds the metrics of the next step.
func (p *Pace) Add(m rundir.Metrics) {
	p.steps++
	p.seconds += m.Time.RolloutS + m.Time.RewardS + m.Time.UpdateS
	p.last = m
}

// Left estimates the seconds that the run takes after the newest step: the other steps at the mean pace of the
// steps, and the other evaluations at the pace of those before; 0 = unknown.
func (p *Pace) Left(c config.Config) float64 {
	if p.steps == 0 {
		return 0
	}
	step, perStep := p.last.Step, p.seconds/float64(p.steps)
	done := evaluatedUntil(c, step)
	perCompletion := max(0, p.last.Time.ElapsedS-perStep*float64(step)) / max(1, done)
	return perStep*float64(c.Train.NGRPOSteps-step) + perCompletion*(evaluated(c)-done)
}

// Makespan is the time of runs in their order, with jobs of them in parallel, when
// a run of arm i takes arms[i] seconds.
func Makespan(runs []sweepdir.Entry, arms []float64, jobs int) float64 {
	seconds := make([]float64, len(runs))
	for i, r := range runs {
		seconds[i] = arms[r.Arm]
	}
	return schedule(nil, seconds, jobs)
}

// schedule returns when the last run ends: busy slots are free after these seconds,
// and each waiting run starts in the first free slot.
func schedule(busy, waiting []float64, jobs int) float64 {
	free := append(busy, make([]float64, max(0, max(1, jobs)-len(busy)))...)
	for _, seconds := range waiting {
		free[slices.Index(free, slices.Min(free))] += seconds
	}
	return slices.Max(free)
}

// Clock is the progress of a run, for [Remaining].
type Clock struct {
	Arm      int
	Steps    int     // of the whole run
	Step     int     // made so far
	First    int     // step after which its process started
	Seconds  float64 // of the steps after First
	Left     float64 // seconds that it still takes by its own pace; 0 = unknown
	Running  bool
	Ended    bool // done, diverged or given up
	Measured bool // it has its result, so other runs of its arm take the same time
}

// Remaining estimates the seconds until all runs have ended, with jobs of them in
// parallel; ok is false while nothing has been measured.
//
// The time of a run is that of the measured runs of its arm; else that of its
// running runs; else that of other arms, in proportion to the work of a run
// (work[i], see [Work]). A running run continues at its own pace.
func Remaining(runs []Clock, work []float64, jobs int) (seconds float64, ok bool) {
	whole := wholeRuns(runs, work)
	if whole == nil {
		return 0, false
	}
	var busy, waiting []float64
	for _, r := range runs {
		switch {
		case r.Ended:
		case r.Running:
			busy = append(busy, r.left(whole[r.Arm]))
		default:
			waiting = append(waiting, r.left(whole[r.Arm]))
		}
	}
	return schedule(busy, waiting, jobs), true
}

// left is the seconds that a run still takes, given those of a whole run of its arm.
func (r Clock) left(whole float64) float64 {
	perStep := whole / float64(max(1, r.Steps))
	switch {
	case !r.Running:
		return perStep * float64(r.Steps-r.Step)
	case r.hasPace():
		return r.Left
	}
	return max(perStep*float64(r.Steps-r.First)-r.Seconds, 0)
}

// hasPace says whether a run's own pace counts. In the first tenth of a run, the
// first evaluation and the first steps dominate.
func (r Clock) hasPace() bool {
	return r.Left > 0 && float64(r.Step-r.First) >= 0.1*float64(max(1, r.Steps))
}

// wholeRuns estimates, for each arm, the seconds of a whole run; nil while
// nothing has been measured.
func wholeRuns(runs []Clock, work []float64) []float64 {
	ended, running := make([][]float64, len(work)), make([][]float64, len(work))
	for _, r := range runs {
		// Of a run that was continued only the last part was seen.
		soFar := r.Seconds * float64(r.Step) / float64(r.Step-r.First)
		switch {
		case r.Ended && r.Measured && r.Seconds > 0 && r.Step > r.First:
			ended[r.Arm] = append(ended[r.Arm], soFar)
		case r.Running && r.hasPace():
			running[r.Arm] = append(running[r.Arm], r.Left+soFar)
		}
	}
	out := make([]float64, len(work))
	var perWork []float64
	for i := range work {
		if out[i] = mean(ended[i]); len(ended[i]) == 0 {
			out[i] = mean(running[i])
		}
		if out[i] > 0 && work[i] > 0 {
			perWork = append(perWork, out[i]/work[i])
		}
	}
	if len(perWork) == 0 {
		return nil
	}
	for i := range out {
		if out[i] == 0 {
			out[i] = mean(perWork) * work[i]
		}
	}
	return out
}

// mean is 0 for no values.
func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(1, len(values)))
}
