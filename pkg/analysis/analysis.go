// Package analysis reads the runs of a sweep into data: metrics of every arm over
// its seeds, paired comparisons between arms, and findings. It writes no sentences
// and draws no figures; packages report and plots do.
//
//	runs.go runinfo.go          one run: its evaluations, curves and settings
//	pool.go contents.go         which runs are seeds of one configuration
//	metrics.go metrics_run.go   the metrics of a run, each declared once
//	gain.go                     what a gain is made of; sets of problems besides validation
//	analysis.go                 the arms of a sweep
//	plan.go compare.go          which arms are compared, and their differences
//	versus.go                   two configurations of other folders as such arms
//	findings*.go                what follows from the numbers: findings.go lists the rules
//	numbers.go                  how numbers are printed
package analysis

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"
)

// Summary is a quantity of an arm over its seeds. What does not exist is NaN, which
// JSON writes as null.
type Summary struct {
	// Values has a value for each seed of the manifest, in its order.
	Values []float64 `json:"values"`
	N      int       `json:"n"` // finite values
	Mean   float64   `json:"mean"`
	SD     float64   `json:"sd"` // sample standard deviation, over seeds
	// Lo and Hi bound the mean at Level (95%) by Student's t, see [stats.StudentT],
	// clipped to the range of the quantity; NaN for N < 2.
	Lo float64 `json:"lo"`
	Hi float64 `json:"hi"`
}

// NewSummary sums up values that are counted in the unit resolution. The interval is
// clipped to the range of the quantity: no reward is above 1.
func NewSummary(values []float64, resolution, least, most float64) Summary {
	return *summaryOf(values, stats.StudentT(values, resolution).Clip(least, most))
}

// MeanWhere is the mean over the seeds in which other has a finite value.
func (s Summary) MeanWhere(other []float64) float64 {
	var x []float64
	for i, v := range other {
		if stats.IsFinite(v) {
			x = append(x, s.Values[i])
		}
	}
	return stats.Mean(x)
}

func summaryOf(values []float64, e stats.Estimate) *Summary {
	return &Summary{Values: values, N: e.N, Mean: e.Mean, SD: e.SD, Lo: e.Lo, Hi: e.Hi}
}

// ArmResult is an arm of a sweep with its metrics.
type ArmResult struct {
	Arm  sweepdir.Arm        `json:"arm"`
	Runs []sweepdir.RunState `json:"-"` // in the order of the seeds
	// Done, Diverged, Failed and Left count the runs by state; Left have not ended.
	Done     int `json:"done"`
	Diverged int `json:"diverged"`
	Failed   int `json:"failed"`
	Left     int `json:"left"`
	// Stopped counts the runs that successive halving stopped, after step StoppedAt, or the runs of seeds
	// that a planned look did not go on with (StoppedAt is 0). They have no result; after halving
	// and the arm is not compared.
	Stopped   int `json:"stopped,omitempty"`
	StoppedAt int `json:"stopped_at,omitempty"`
	// Planned counts the runs that wait for a look.
	Planned int `json:"planned,omitempty"`
	// Status is these in words: "done", "diverged (4 of 4 seeds, steps 20 to 40)".
	Status string `json:"status"`
	// DivergedAt has the step at which each seed's run diverged, null where it
	// did not.
	DivergedAt []*int `json:"diverged_at"`
	// Problems is the size of the validation set; 0 while unknown.
	Problems int `json:"problems"`
	// Steps is the number of steps that a run of the arm makes; 0 while unknown.
	Steps int `json:"steps"`

	Majority float64 // the majority-answer baseline on the arm's validation problems

	// Sets are the arm's results on each set of problems.
	Sets []SetResult `json:"sets,omitempty"`
	// AtK are pass@k and maj@k of the validation problems, where the runs have them: "pass_at_4", "majority_at_4",
	// and before training "initial_pass_at_4", "initial_majority_at_4".
	AtK map[string]Summary `json:"at_k,omitempty"`

	shown     string     // replaces the label of Arm for readers, see [sweepdir.Manifest.LabelOf]
	beaten    bool       // at a planned look: it can't be the best
	facts     []runFacts // in the order of the seeds
	evalEvery float64    // steps between evaluations; 0 while unknown
	summaries []Summary  // of Metrics, in their order
}

// Name is the label of the arm as readers see it, or its name without one.
func (r ArmResult) Name() string { return cmp.Or(r.shown, r.Arm.Label, r.Arm.Name) }

// Of is the arm's summary of a metric.
func (r *ArmResult) Of(m *Metric) Summary { return r.summaries[m.index] }

// MarshalJSON writes the arm's fields, then a key for each metric.
func (r ArmResult) MarshalJSON() ([]byte, error) {
	type fields ArmResult // without this method
	data, err := rundir.Marshal(fields(r))
	if err != nil {
		return nil, err
	}
	data = bytes.TrimSuffix(data, []byte("}"))
	for _, m := range Metrics {
		if m.Timed {
			continue
		}
		summary, err := rundir.Marshal(r.Of(m))
		if err != nil {
			return nil, err
		}
		data = fmt.Appendf(data, ",%q:%s", m.Name, summary)
	}
	return append(data, '}'), nil
}

// Analysis is what tables, figures and verdicts are made of.
type Analysis struct {
	Sweep *sweepdir.Sweep `json:"-"`
	Arms  []ArmResult     `json:"arms"` // in the manifest's order
	// Best indexes the arm of the best mean final validation reward among those that
	// are not controls and did not diverge; -1 where there is none, and in a ladder.
	Best int `json:"best"`
	// BestBadge is what tables call that arm: "best" only where it beats every other
	// arm with a result, else what can be said of its mean. It is empty where there is
	// nothing to compare, or where an arm that diverged or is a control ends higher.
	BestBadge string `json:"-"`
	// BestChosen is the mean of the arm with the highest mean over the other seeds, seed by seed: the
	// reward of an arm that is chosen in this way, without the luck that the choice adds to Best's mean.
	// NaN unless all candidates have the same seeds.
	BestChosen float64 `json:"best_chosen_by_other_seeds"`
	// Margin is the difference in the final reward that counts as none (report.margin).
	Margin      float64      `json:"margin"`
	Comparisons []Comparison `json:"comparisons"`
	Findings    []Finding    `json:"findings"`
	// Base and Majority are the base level and the majority-answer baseline; NaN
	// where the arms differ in it.
	Base     float64 `json:"base"`
	Majority float64 `json:"majority"`
	// MajorityAnswer is the commonest gold answer of the validation set; empty
	// where the arms differ in it.
	MajorityAnswer string `json:"majority_answer"`
}

// Analyse sums up a sweep, which may be unfinished: what has no result yet is left
// out.
//
// Arms are compared with the manifest's reference, without one with the best; in a
// grid of two keys with two values each, arms are compared that differ in one key.
// It is an error if the runs of the sweep don't belong to its arms and seeds.
func Analyse(sw *sweepdir.Sweep) (*Analysis, error) { return analyseWithin(sw, marginOf(sw)) }

// analyseWithin is [Analyse] with another margin.
func analyseWithin(sw *sweepdir.Sweep, margin float64) (*Analysis, error) {
	a, err := compare(sw, margin)
	if err != nil {
		return nil, err
	}
	if a.Ladder() == nil {
		a.BestBadge = a.bestBadge()
	}
	a.Findings = a.findings()
	return a, nil
}

// compare is [analyseWithin] without findings.
func compare(sw *sweepdir.Sweep, margin float64) (*Analysis, error) {
	sw = printableSweep(sw)
	a := &Analysis{Sweep: sw, Best: -1, Arms: []ArmResult{}, Comparisons: []Comparison{}, Margin: margin}
	for i, arm := range sw.Manifest.Arms {
		states, err := seedStates(sw, i)
		if err != nil {
			return nil, fmt.Errorf("analyse sweep %s: arm %s: %w", sw.Dir, arm.Name, err)
		}
		a.Arms = append(a.Arms, armResult(arm, states, sw.Manifest.StoppedAt(i)))
		if shown := sw.Manifest.LabelOf(i); shown != arm.Label {
			a.Arms[i].shown = shown
		}
	}
	for _, look := range a.looks() {
		if look.Taken != nil {
			for _, out := range look.Taken.Out {
				// A point that was not chosen is never compared; an arm that diverged beats no other.
				if out.Why == sweepdir.OutWorse || out.Why == sweepdir.OutBeaten && a.Arms[out.By].Diverged == 0 {
					a.Arms[out.Arm].beaten = true
				}
			}
		}
	}
	a.levels()
	a.BestChosen = math.NaN()
	if a.Ladder() == nil { // its arms have different problems
		a.Best, a.BestChosen = bestArm(a.Arms, isCandidate), a.bestChosen()
		a.compareArms()
	}
	return a, nil
}

// seedStates are the runs of an arm, one for each seed of the manifest.
func seedStates(sw *sweepdir.Sweep, arm int) ([]sweepdir.RunState, error) {
	out := make([]sweepdir.RunState, len(sw.Manifest.Seeds))
	for i, seed := range sw.Manifest.Seeds {
		out[i] = sweepdir.RunState{Entry: sweepdir.Entry{Arm: arm, Seed: seed}, State: sweepdir.Missing}
	}
	for _, s := range sw.OfArm(arm) {
		i := slices.Index(sw.Manifest.Seeds, s.Seed)
		if i < 0 {
			return nil, fmt.Errorf("run %d has seed %d, which is not a seed of the sweep", s.Index, s.Seed)
		}
		out[i] = s
	}
	return out, nil
}

func armResult(arm sweepdir.Arm, states []sweepdir.RunState, stoppedAt int) ArmResult {
	r := ArmResult{Arm: arm, Runs: states, DivergedAt: make([]*int, len(states))}
	count := map[string]int{}
	var majorities []float64
	for i, s := range states {
		f := factsOf(s)
		r.facts, majorities = append(r.facts, f), append(majorities, f.majority)
		r.Problems, r.Steps = max(r.Problems, f.problems), max(r.Steps, f.steps)
		r.evalEvery = max(r.evalEvery, f.evalEvery)
		count[s.State]++
		if s.State == rundir.StateDiverged && f.result != nil {
			r.DivergedAt[i] = f.result.DivergedAt
		}
	}
	r.Majority = stats.Mean(majorities)
	r.Done, r.Diverged = count[rundir.StateDone], count[rundir.StateDiverged]
	r.Failed = count[rundir.StateFailed]
	if r.Stopped = count[sweepdir.Stopped]; r.Stopped > 0 {
		r.StoppedAt = stoppedAt
	}
	r.Planned = count[sweepdir.Planned]
	r.Left = len(states) - r.Done - r.Diverged - r.Failed - r.Stopped - r.Planned
	r.Status = r.status(count)
	for _, m := range Metrics {
		r.summaries = append(r.summaries, m.summarize(&r))
	}
	r.Sets, r.AtK = setResults(&r), atKResults(&r)
	return r
}

// status lists the states of the arm's runs.
func (r *ArmResult) status(count map[string]int) string {
	seeds := len(r.Runs)
	if r.StoppedAt == 0 { // not by halving
		seeds = r.Trained()
	}
	if r.Done == seeds && r.Done > 0 {
		return rundir.StateDone
	}
	var parts []string
	for _, state := range []string{
		rundir.StateDone, rundir.StateDiverged, rundir.StateFailed, rundir.StateRunning,
		rundir.StateInterrupted, sweepdir.Dead, sweepdir.Missing, sweepdir.Stopped,
	} {
		if count[state] == 0 {
			continue
		}
		n := count[state]
		for _, run := range r.Runs {
			if state == sweepdir.Stopped && run.State == state && run.Run == nil {
				n-- // of a seed that was added later nothing has run
			}
		}
		if n == 0 {
			continue
		}
		s := fmt.Sprintf("%s (%d of %s", state, n, textutil.Count(seeds, "seed"))
		if at := StepRange(r.DivergedSteps()); state == rundir.StateDiverged && at != "" {
			s += ", " + at
		}
		if state == sweepdir.Stopped {
			s += fmt.Sprintf(", step %d", r.StoppedAt)
		}
		parts = append(parts, s+")")
	}
	return cmp.Or(strings.Join(parts, ", "), sweepdir.Missing)
}

// DivergedSteps are the steps at which runs diverged, where they are known.
func (r *ArmResult) DivergedSteps() []int {
	var steps []int
	for _, at := range r.DivergedAt {
		if at != nil {
			steps = append(steps, *at)
		}
	}
	return steps
}

// StepRange is "step 20" or "steps 20 to 40"; empty without steps.
func StepRange(steps []int) string {
	if len(steps) == 0 {
		return ""
	}
	if slices.Min(steps) == slices.Max(steps) {
		return "step " + textutil.Span(steps)
	}
	return "steps " + textutil.Span(steps)
}

// levels fills in the base level and the majority-answer baseline that all arms
// share.
func (a *Analysis) levels() {
	var majorities []float64
	var answers []string
	for _, r := range a.Arms {
		for _, f := range r.facts {
			majorities, answers = append(majorities, f.majority), append(answers, f.majorityAnswer)
		}
	}
	if all := Unique(answers, func(answer string) string { return answer }); len(all) == 1 {
		a.MajorityAnswer = all[0]
	}
	a.Base, a.Majority = a.sharedBase(), shared(majorities)
}

// sharedBase is the mean over the seeds of the reward before training. It is NaN
// where two arms differ in it with the same seed (other prompts or base models):
// the mean over them would be the level of none.
func (a *Analysis) sharedBase() float64 {
	var seeds []float64
	for i := range a.Sweep.Manifest.Seeds {
		var values []float64
		for _, r := range a.Arms {
			values = append(values, r.Of(InitialMetric).Values[i])
		}
		level := shared(values)
		if len(stats.Finite(values)) > 0 && !stats.IsFinite(level) {
			return math.NaN()
		}
		seeds = append(seeds, level)
	}
	return stats.Mean(seeds)
}

// shared is the finite value of x if all finite values are equal, else NaN.
func shared(x []float64) float64 {
	x = slices.Compact(stats.Finite(x))
	if len(x) != 1 {
		return math.NaN()
	}
	return x[0]
}

// BadgeBest is the badge of an arm that beats every other.
const BadgeBest = "best"

const badgeMean = "highest mean"

func (a *Analysis) bestBadge() string {
	badge := ""
	for i, r := range a.Arms {
		if a.Best < 0 || i == a.Best || r.Of(FinalMetric).N == 0 {
			continue
		}
		if r.Of(FinalMetric).Mean > a.Arms[a.Best].Of(FinalMetric).Mean {
			return ""
		}
		c := a.Find(FinalMetric.Name, a.Best, i)
		if c == nil || !c.Separable || c.Mean < 0 { // lower on the seeds that both have
			badge = badgeMean
		}
		badge = cmp.Or(badge, BadgeBest)
	}
	return badge
}

// HigherDiverged reports whether an arm with a higher mean than the best diverged in a seed.
func (a *Analysis) HigherDiverged() bool {
	return a.Best >= 0 && slices.ContainsFunc(a.Arms, func(r ArmResult) bool {
		return r.Diverged > 0 && r.Of(FinalMetric).N > 0 && r.Of(FinalMetric).Mean > a.Arms[a.Best].Of(FinalMetric).Mean
	})
}

// isCandidate: the arm may be proposed as the best.
func isCandidate(r ArmResult) bool { return !r.Arm.Control && r.Diverged == 0 && !r.beaten }

// bestChosen is [Analysis.BestChosen].
func (a *Analysis) bestChosen() float64 {
	most := 0
	for _, r := range a.Arms {
		most = max(most, r.Of(FinalMetric).N)
	}
	var candidates []Summary
	for i, r := range a.Arms {
		final := r.Of(FinalMetric)
		if !isCandidate(r) || r.Stopped > 0 && final.N < most { // halving or a look has stopped it
			if i == a.Best {
				return math.NaN()
			}
			continue
		}
		for s, v := range final.Values {
			if len(candidates) > 0 && stats.IsFinite(v) != stats.IsFinite(candidates[0].Values[s]) {
				return math.NaN()
			}
		}
		candidates = append(candidates, final)
	}
	if len(candidates) < 2 || candidates[0].N < 2 || a.Sweep.Manifest.BestOver != "" {
		return math.NaN()
	}
	sum, n := 0.0, float64(candidates[0].N)
	for s, v := range candidates[0].Values {
		if !stats.IsFinite(v) {
			continue
		}
		best := slices.MaxFunc(candidates, func(x, y Summary) int { // the first of equals
			return cmp.Compare(float64(x.Mean*n)-x.Values[s], float64(y.Mean*n)-y.Values[s])
		})
		sum += best.Values[s]
	}
	return sum / n
}

// defaultMargin is report.margin of sweeps that do not have the key.
const defaultMargin = 0.02

// marginOf is report.margin of the sweep's base configuration.
func marginOf(sw *sweepdir.Sweep) float64 {
	base := sw.Manifest.Base
	if base == "" && len(sw.Manifest.Runs) > 0 {
		base = sw.Manifest.Runs[0].Config
	}
	info, err := ReadInfo(&rundir.Run{Dir: sw.Dir, Config: []byte(base)})
	if margin := info.Report.Margin; err == nil && margin > 0 && margin < 1 {
		return margin
	}
	return defaultMargin
}

// bestArm is the arm of the highest mean final reward among those that are
// eligible, the first of equals; -1 where there is none.
func bestArm(arms []ArmResult, eligible func(ArmResult) bool) int {
	best := -1
	for i, r := range arms {
		final := r.Of(FinalMetric)
		if eligible(r) && final.N > 0 && (best < 0 || final.Mean > arms[best].Of(FinalMetric).Mean) {
			best = i
		}
	}
	return best
}

// Finished counts the runs that have their result.
func (a *Analysis) Finished() int {
	n := 0
	for _, r := range a.Arms {
		n += r.Done + r.Diverged
	}
	return n
}

// Runs counts all runs that have a result or shall get one.
func (a *Analysis) Runs() int {
	n := 0
	for _, r := range a.Arms {
		n += len(r.Runs) - r.Stopped - r.Planned
	}
	return n
}

// SameProblems reports whether all arms were validated on the same number of problems.
func (a *Analysis) SameProblems() bool {
	return !slices.ContainsFunc(a.Arms, func(r ArmResult) bool { return r.Problems != a.Arms[0].Problems })
}
