package analysis

import (
	"cmp"
	"slices"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"
)

const (
	fewSeeds    = 4   // fewer seeds have a caveat
	fewProblems = 512 // so have fewer problems
	// The spread of one arm over seeds is this many times as wide as another's, and the seeds are fewer than that:
	// Student's t is exact for normal values only.
	unequalSpread   = 4
	unequalSpreadAt = 8

	mostMissing = 12 // runs that are named as missing
)

// measures say what the numbers of a verdict are.
func (a *Analysis) measures() []Finding {
	m := &a.Sweep.Manifest
	measure := Finding{Kind: RewardMeasure}
	if a.SameProblems() {
		measure.Of = a.Arms[0].Problems
	}
	intervals := Finding{Kind: Intervals, Values: []string{"order of the problems", "sampling"}}
	base := m.Base
	if base == "" && len(m.Runs) > 0 {
		base = m.Runs[0].Config
	}
	if strings.Contains(base, "init: random") {
		intervals.Values = append([]string{"initial weights"}, intervals.Values...)
	}
	out := []Finding{measure}
	finals := a.finals()
	// Where differences cover other problems too, few problems make them wide instead of wrong.
	crossed := slices.ContainsFunc(finals, func(c Comparison) bool { return c.Crossed }) &&
		!slices.ContainsFunc(finals, func(c Comparison) bool { return c.N > 1 && !c.Crossed })
	if crossed {
		intervals.Kind = IntervalsCrossed
	}
	if len(m.Seeds) > 1 {
		out = append(out, intervals)
	}
	if i := slices.IndexFunc(finals, func(c Comparison) bool { return c.Family > 1 }); i >= 0 {
		f := Finding{Kind: AdjustedPlanned, Count: finals[i].Family, Values: []string{"Holm"}}
		if finals[i].Ordered {
			f.Values[0] = "ordered"
		}
		if a.plan().chosen {
			f.Kind = AdjustedAll
		}
		out = append(out, f)
	}
	if n := a.claimSeeds(); n < fewSeeds {
		out = append(out, Finding{Kind: FewSeeds, Count: n})
	}
	if n := a.Arms[0].Problems; !crossed && a.SameProblems() && n > 0 && n < fewProblems && len(a.Arms) > 1 {
		out = append(out, Finding{Kind: FewProblems, Count: n})
	}
	return append(out, Finding{Kind: ChosenOnValidation})
}

// claimSeeds is the number of seeds that claims are made from: fewer than the sweep has where some chose points, were
// added, or have not ended.
func (a *Analysis) claimSeeds() int {
	n := 0
	for _, c := range a.finals() {
		n = max(n, c.N)
	}
	return cmp.Or(n, len(a.Sweep.Manifest.Seeds))
}

// onTest lists the differences that are separable on the validation problems, and not on the test problems
// of the same runs: their interval has 0 in it or the other sign.
func (a *Analysis) onTest() []Finding {
	f := Finding{Kind: NotOnTest}
	for i := range a.Comparisons {
		c := &a.Comparisons[i]
		if !c.Separable || c.Test == nil || c.Test.N < 2 || c.Metric != FinalMetric.Name {
			continue
		}
		if c.Mean > 0 && c.Test.Lo <= 0 || c.Mean < 0 && c.Test.Hi >= 0 {
			part := a.FindingOf(c)
			part.Numbers = c.Test
			f.Parts = append(f.Parts, part)
		}
	}
	return withAny(f, len(f.Parts))
}

// unequalSpread is the caveat of arms whose spreads over few seeds are far apart, of those that a test compares.
func (a *Analysis) unequalSpread() []Finding {
	compared := map[int]bool{}
	for _, c := range a.finals() {
		for _, i := range slices.Concat(c.contrast.plus, c.contrast.minus) {
			compared[i] = compared[i] || c.N > 1
		}
	}
	widest, narrowest := -1, -1
	sds := make([]float64, len(a.Arms))
	for i := range a.Arms {
		var n int
		_, sds[i], n = stats.MeanSD(a.OfClaimed(a.Arms[i].Of(FinalMetric).Values))
		if n < 2 || !compared[i] || a.Arms[i].Arm.Control || a.Arms[i].collapsed() {
			continue
		}
		if widest < 0 || sds[i] > sds[widest] {
			widest = i
		}
		if narrowest < 0 || sds[i] < sds[narrowest] {
			narrowest = i
		}
	}
	if widest < 0 || a.claimSeeds() >= unequalSpreadAt {
		return nil
	}
	// Not less than one problem: equal counts do not show a spread of 0.
	if sds[widest] <= unequalSpread*max(sds[narrowest], FinalMetric.resolution(&a.Arms[narrowest])) {
		return nil
	}
	return []Finding{{Kind: UnequalSpread, Arms: []int{widest, narrowest}}}
}

// heldFixed are the keys that the sweep held fixed on purpose.
func (a *Analysis) heldFixed() []Finding {
	f := Finding{Kind: HeldFixed}
	for _, o := range a.Sweep.Manifest.Fixed {
		f.Keys, f.Values = append(f.Keys, o.Key), append(f.Values, o.Value)
	}
	return withAny(f, len(f.Keys))
}

// withAny is a finding of n things; none where n is 0.
func withAny(f Finding, n int) []Finding {
	if n == 0 {
		return nil
	}
	return []Finding{f}
}

// evaluationsDiffer reports arms that were evaluated or sampled with different settings.
func (a *Analysis) evaluationsDiffer() []Finding {
	settings, temperatures := a.armsDiffer(evalSettingsOf), a.TrainingTemperatures()
	return append(withAny(Finding{Kind: EvaluationsDiffer, Values: settings}, len(settings)),
		withAny(Finding{Kind: EntropyDiffers, Metric: EntropyMetric.Name, Values: temperatures}, len(temperatures))...)
}

func (a *Analysis) tunedCaveat() []Finding {
	axis := a.TunedOver()
	if axis == nil {
		return nil
	}
	return []Finding{{Kind: TunedArms, Keys: []string{axis.Key}, Values: axis.Values}}
}

func (a *Analysis) notes() []Finding {
	var out []Finding
	all := a.Sweep.Manifest.Notes
	if !slices.Contains(a.Sweep.Manifest.Varied, VersionKey) {
		all = append(slices.Clone(all), VersionsNote(RunsOf(a.Sweep.Runs)))
	}
	for _, note := range all {
		if note = strings.TrimSpace(note); note != "" {
			out = append(out, Finding{Kind: Note, Values: []string{note}})
		}
	}
	return out
}

// confounded finds compared arms that differ in more than one key, so that no
// difference between them belongs to one key alone.
func (a *Analysis) confounded() []Finding {
	some := Finding{Kind: SomeConfounded}
	all := true
	for _, q := range a.plan().shown {
		keys := a.differing(q)
		if len(keys) < 2 {
			all = false
			continue
		}
		some.Parts = append(some.Parts, Finding{Kind: Confounded, Arms: []int{q.a, q.b}, Keys: keys})
	}
	if len(some.Parts) == 0 {
		return nil
	}
	keys := some.Parts[0].Keys
	if all && !slices.ContainsFunc(some.Parts, func(f Finding) bool { return !slices.Equal(f.Keys, keys) }) {
		return []Finding{{Kind: Confounded, Keys: keys}}
	}
	return []Finding{some}
}

// sharedRate is the caveat of a learning rate that all arms share.
func (a *Analysis) sharedRate() []Finding {
	m := &a.Sweep.Manifest
	if slices.Contains(m.Varied, RateKey) || len(m.Arms) < 2 {
		return nil
	}
	rates := Unique(a.Sweep.Runs, func(s sweepdir.RunState) string {
		if s.Run == nil || s.Run.Result == nil {
			return ""
		}
		return textutil.Number(s.Run.Result.LearningRate)
	})
	if len(rates) > 1 {
		return nil
	}
	return []Finding{{Kind: SharedRate, Keys: []string{RateKey}, Values: rates}}
}

// mixedArms finds arms whose runs differ in more than their seeds: some were made
// on another device, say.
func (a *Analysis) mixedArms() []Finding {
	f := Finding{Kind: MixedArms}
	for i, r := range a.Arms {
		runs := configured(r.Runs)
		if len(runs) < 2 {
			continue
		}
		// A configuration that is not YAML is reported elsewhere.
		_, keys, err := differingKeys(runs, configTexts(runs))
		keys = slices.DeleteFunc(keys, func(key string) bool { return key == VersionKey }) // a note says it
		if err == nil && len(keys) > 0 {
			f.Parts = append(f.Parts, Finding{Kind: MixedArms, Arms: []int{i}, Keys: keys})
		}
	}
	return withAny(f, len(f.Parts))
}

// stoppedArms lists the arms that halving stopped, with their rewards at that rung.
func (a *Analysis) stoppedArms() []Finding {
	f := Finding{Kind: ArmsStopped}
	if a.Sweep.Manifest.Halving == nil {
		return nil
	}
	for _, rung := range a.Sweep.Manifest.Halving.Rungs {
		for _, ranked := range rung.Ranking {
			if slices.Contains(rung.Stopped, ranked.Arm) && a.Arms[ranked.Arm].Stopped > 0 {
				f.Parts = append(f.Parts, Finding{
					Kind: ArmStopped, Arms: []int{ranked.Arm}, Steps: []int{rung.Step},
					Values: []string{Decimals(ranked.Reward, 3)},
				})
			}
		}
	}
	out := withAny(f, len(f.Parts))
	return append(out, withAny(Finding{Kind: SurvivorsBiased}, len(f.Parts))...)
}

// missingRuns lists what an unfinished sweep lacks: the number of runs, then the
// first of them.
func (a *Analysis) missingRuns() []Finding {
	var runs []Finding
	for i, r := range a.Arms {
		for _, s := range r.Runs {
			if sweepdir.Ended(s.State) || s.State == sweepdir.Planned {
				continue
			}
			f := Finding{Kind: RunMissing, Arms: []int{i}, Seeds: []uint64{s.Seed}, Values: []string{s.State}}
			if s.Error != "" {
				f.Values = append(f.Values, s.Error)
			}
			if s.Run != nil && LastStep(s.Run) > 0 {
				f.Steps = []int{LastStep(s.Run)}
			}
			runs = append(runs, f)
		}
	}
	left := len(runs)
	if left == 0 {
		return a.missingLogs()
	}
	out := append([]Finding{{Kind: RunsMissing, Count: left, Of: a.Runs()}}, runs[:min(left, mostMissing)]...)
	if left > mostMissing {
		out = append(out, Finding{Kind: MoreMissing, Count: left - mostMissing})
	}
	return append(out, a.missingLogs()...)
}

// missingLogs are the logs that finished runs lack, without which they have a result but no curve.
func (a *Analysis) missingLogs() []Finding {
	f := Finding{Kind: LogsMissing}
	for _, r := range RunsOf(a.Sweep.Runs) {
		lost := slices.DeleteFunc([]string{rundir.MetricsFile, rundir.EvalFile}, func(name string) bool {
			return r.Result == nil || !slices.Contains(r.Missing, name)
		})
		if len(lost) > 0 {
			f.Count++
			f.Values = append(f.Values, lost...)
		}
	}
	slices.Sort(f.Values)
	f.Values = slices.Compact(f.Values)
	return withAny(f, f.Count)
}
