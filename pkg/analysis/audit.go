package analysis

import (
	"math"
	"slices"

	"grpo/pkg/rundir"
	"grpo/pkg/stats"
)

// This file asks where the gain of a recipe comes from: see [NewAudit] and docs/audit.md.

// AuditInput is what an audit has sampled, and what its runs stored.
type AuditInput struct {
	Split    string
	Base     [2]rundir.AuditDraw // two independent draws of the initial policy
	Runs     []AuditedRun
	Placebos []PlaceboRuns
}

// AuditedRun is a trained policy: a seed of the recipe.
type AuditedRun struct {
	Draw  rundir.AuditDraw
	Drift *rundir.AuditDrift
	Run   *rundir.Run // nil for weights without a run
}

// PlaceboRuns are the runs of the recipe with another reward, with the seeds of the audited runs.
type PlaceboRuns struct {
	Reward string // "random" or "constant"
	Runs   []*rundir.Run
}

// Audit says where the gain of a recipe comes from. Numbers are means over seeds and problems with their 95% interval
// over both; of one seed, over the problems alone.
type Audit struct {
	Split    string   `json:"split"`
	Problems int      `json:"problems"`
	Samples  int      `json:"samples"` // of each problem
	Seeds    []uint64 `json:"seeds"`
	Base     string   `json:"base_weights"`    // a SHA-256
	Trained  []string `json:"trained_weights"` // of each seed

	Kinds    []AuditKind     `json:"verdict"`
	PassAt   []AuditPassAt   `json:"pass_at"`
	Crossing *AuditCrossing  `json:"crossing"` // null if trained is above at every k, or not above at k = 1
	New      AuditSolved     `json:"newly_solved"`
	Lost     AuditSolved     `json:"lost"`
	Majority AuditMajority   `json:"majority"`
	Gain     AuditGain       `json:"gain"`
	Sets     []AuditSet      `json:"sets"`
	Placebos []AuditPlacebo  `json:"placebos"`
	Drift    *AuditDriftMean `json:"drift"` // null without one
}

// Interval is a mean with its 95% interval; NaN, in JSON null, where it does not exist.
type Interval struct {
	Mean float64 `json:"mean"`
	Lo   float64 `json:"lo"`
	Hi   float64 `json:"hi"`
}

// Above reports whether the interval is above x.
func (i Interval) Above(x float64) bool { return i.Lo > x }

// Below reports whether the interval is below x.
func (i Interval) Below(x float64) bool { return i.Hi < x }

// clip cuts the interval to the range of the quantity.
func (i Interval) clip(lo, hi float64) Interval {
	return Interval{i.Mean, max(i.Lo, lo), min(i.Hi, hi)}
}

// times is the interval in another unit.
func (i Interval) times(x float64) Interval { return Interval{i.Mean * x, i.Lo * x, i.Hi * x} }

// AuditPassAt is pass@k of the initial policy and of the trained ones, and trained minus initial, paired by problem.
type AuditPassAt struct {
	K          int      `json:"k"`
	Base       Interval `json:"base"`
	Trained    Interval `json:"trained"`
	Difference Interval `json:"difference"`
	// Each is the mean of each seed.
	Each []float64 `json:"each"`
}

// AuditCrossing is where the curves of pass@k cross.
type AuditCrossing struct {
	K int `json:"k"` // the first k at which the trained policy is not above
	// Clear: at the largest k, the trained policy is below by more than chance.
	Clear bool `json:"clear"`
}

// AuditSolved counts problems of which one policy solves at least one of the samples and the other none, beyond the
// same count between two draws of the initial policy.
type AuditSolved struct {
	Observed float64  `json:"observed"` // of the trained policies against the initial one, mean
	ByChance float64  `json:"by_chance"`
	Beyond   Interval `json:"beyond"` // the difference
	// Each is the difference for each seed.
	Each []float64 `json:"each"`
}

// AuditMajority compares one completion of the trained policies with a majority vote of the initial policy.
type AuditMajority struct {
	// K is the number of completions of the initial policy that have the tokens of one trained one, at least 1.
	K          int      `json:"k"`
	Majority   Interval `json:"majority"` // maj@k of the initial policy
	Trained    Interval `json:"trained"`  // pass@1
	Difference Interval `json:"difference"`
	// ReachedAt is the smallest k of those tried whose maj@k is not below the trained pass@1; 0 = none.
	ReachedAt int `json:"reached_at"`
	MostK     int `json:"most_k"`
	// Length is the mean length of a completion in tokens.
	BaseLength    float64 `json:"base_length"`
	TrainedLength float64 `json:"trained_length"`
}

// AuditGain is the gain in pass@1 with its parts, see [Gain].
type AuditGain struct {
	Total   Interval `json:"total"`
	Format  Interval `json:"by_format"`
	Answers Interval `json:"by_answers"`
	// FormatShare is the share of the format in the gain; it exists where there is a gain.
	FormatShare Interval `json:"format_share"`
}

// AuditSet is a set of problems that the runs evaluated themselves: with one sample each, before and after training.
type AuditSet struct {
	Set        string   `json:"set"`
	Problems   int      `json:"problems"`
	Before     float64  `json:"before"` // null if there was no evaluation
	After      Interval `json:"after"`  // over seeds
	Difference Interval `json:"difference"`
}

// AuditPlacebo compares the stored gains of the runs with the gains of the same recipe under another reward.
type AuditPlacebo struct {
	Reward     string    `json:"reward"`
	Seeds      []uint64  `json:"seeds"`      // of which both have a result
	Gain       Interval  `json:"gain"`       // of the placebo
	RunGain    Interval  `json:"run_gain"`   // of the audited runs
	Difference Interval  `json:"difference"` // of the gains, paired by seed
	Each       []float64 `json:"each"`       // the placebo's gain of each seed
	// Unmoved counts the placebo's runs whose weights are the initial ones to the bit.
	Unmoved int `json:"unmoved"`
}

// AuditDriftMean is how far the trained policies are from the initial one.
type AuditDriftMean struct {
	Completions int      `json:"completions"` // of each seed
	KL          Interval `json:"kl"`          // nats per token, of trained against initial: the k1 estimate
	Entropy     Interval `json:"entropy"`     // of the trained policy, nats per token
	BaseEntropy Interval `json:"base_entropy"`
	Changed     Interval `json:"changed"`  // share of the weights; NaN for adapters
	Distance    Interval `json:"distance"` // relative to the norm of the initial weights; NaN for adapters
}

// auditor has the input by seed and problem.
type auditor struct {
	AuditInput
	n       int       // samples
	problem int       // number of problems
	base    []float64 // (problems), the right ones of both draws
}

// NewAudit computes the answers. The draws have the same problems and the same number of samples, and there is at least
// one run.
func NewAudit(in AuditInput) *Audit {
	x := &auditor{AuditInput: in, n: in.Base[0].Samples(), problem: len(in.Base[0].Votes)}
	out := &Audit{Split: in.Split, Problems: x.problem, Samples: x.n, Base: in.Base[0].Weights}
	for _, r := range in.Runs {
		out.Seeds, out.Trained = append(out.Seeds, r.Draw.Seed), append(out.Trained, r.Draw.Weights)
	}
	out.PassAt = x.passAt()
	out.Crossing = crossing(out.PassAt)
	out.New, out.Lost = x.solved(true), x.solved(false)
	out.Majority = x.majority()
	out.Gain = x.gain()
	out.Sets, out.Placebos, out.Drift = x.sets(), x.placebos(out.PassAt[0]), x.drift()
	out.Kinds = out.kinds()
	return out
}

// overBoth is the mean of x[seed][problem] with its interval over seeds and problems; of one seed, over the problems.
// resolution is the unit of a seed's mean.
func overBoth(x [][]float64, resolution float64) Interval {
	for _, row := range x {
		if slices.ContainsFunc(row, math.IsNaN) {
			return Interval{math.NaN(), math.NaN(), math.NaN()}
		}
	}
	if len(x) == 1 {
		return overSeeds(x[0], 0)
	}
	means, none := make([]float64, len(x)), make([][]float64, len(x))
	for s, row := range x {
		means[s] = stats.Mean(row)
		none[s] = make([]float64, len(row))
	}
	e := stats.StudentT(means, resolution)
	if len(x[0]) > 1 {
		e = e.With(max(e.SE, stats.CrossedVariance(x, none, resolution).SE()))
	}
	return Interval{e.Mean, e.Lo, e.Hi}
}

// overSeeds is the mean of a value of each seed, counted in the unit resolution; one seed has no interval.
func overSeeds(values []float64, resolution float64) Interval {
	e := stats.StudentT(values, resolution)
	return Interval{e.Mean, e.Lo, e.Hi}
}

// each applies f to every seed and problem.
func (x *auditor) each(f func(run AuditedRun, problem int) float64) [][]float64 {
	out := make([][]float64, len(x.Runs))
	for s, r := range x.Runs {
		out[s] = make([]float64, x.problem)
		for i := range out[s] {
			out[s][i] = f(r, i)
		}
	}
	return out
}

// right counts the right completions of a problem.
func right(d *rundir.AuditDraw, problem int) int { return d.Votes[problem][0] }

// baseRight counts them over both draws of the initial policy, of 2n completions.
func (x *auditor) baseRight(problem int) int {
	return right(&x.Base[0], problem) + right(&x.Base[1], problem)
}

// passAt is pass@k; that of the initial policy is from the completions of both draws.
func (x *auditor) passAt() (out []AuditPassAt) {
	unit := 1 / float64(x.problem*x.n)
	for _, k := range stats.Doubled(1, x.n) {
		base := make([]float64, x.problem)
		for i := range base {
			base[i] = stats.PassAt(2*x.n, x.baseRight(i), k)
		}
		trained := x.each(func(r AuditedRun, i int) float64 { return stats.PassAt(x.n, right(&r.Draw, i), k) })
		p := AuditPassAt{K: k, Base: overBoth([][]float64{base}, 0).clip(0, 1), Trained: overBoth(trained, unit).clip(0, 1)}
		for s, row := range trained {
			p.Each = append(p.Each, stats.Mean(row))
			for i := range row {
				trained[s][i] -= base[i]
			}
		}
		p.Difference = overBoth(trained, unit).clip(-1, 1)
		out = append(out, p)
	}
	return out
}

// crossing is nil unless the trained policy is above at k = 1 and not at a larger k.
func crossing(pass []AuditPassAt) *AuditCrossing {
	i := slices.IndexFunc(pass, func(p AuditPassAt) bool { return p.Difference.Mean <= 0 })
	if i <= 0 {
		return nil
	}
	return &AuditCrossing{K: pass[i].K, Clear: pass[len(pass)-1].Difference.Below(0)}
}

// solved counts the problems that only the trained policy solves (newly), or only the initial one. What chance gives is
// the count of one draw of the initial policy against the other; both orders count half.
func (x *auditor) solved(newly bool) AuditSolved {
	only := func(a, b *rundir.AuditDraw, i int) float64 {
		if !newly {
			a, b = b, a
		}
		if right(a, i) > 0 && right(b, i) <= 0 {
			return 1
		}
		return 0
	}
	first, second := &x.Base[0], &x.Base[1]
	observed := func(r AuditedRun, i int) float64 {
		return float64((only(&r.Draw, first, i) + only(&r.Draw, second, i)) / 2)
	}
	chance := func(i int) float64 { return float64((only(second, first, i) + only(first, second, i)) / 2) }
	beyond := x.each(func(r AuditedRun, i int) float64 { return observed(r, i) - chance(i) })
	problems := float64(x.problem)
	out := AuditSolved{Beyond: overBoth(beyond, 1/problems).times(problems)}
	for _, row := range x.each(observed) {
		out.Observed += stats.Mean(row) * problems / float64(len(x.Runs))
	}
	for i := range x.problem {
		out.ByChance += chance(i)
	}
	for _, row := range beyond {
		out.Each = append(out.Each, stats.Mean(row)*problems)
	}
	return out
}

// majority compares pass@1 of the trained policies with maj@k of the initial one.
func (x *auditor) majority() AuditMajority {
	out := AuditMajority{MostK: x.n, BaseLength: (x.Base[0].Counts.Length + x.Base[1].Counts.Length) / 2}
	for _, r := range x.Runs {
		out.TrainedLength += r.Draw.Counts.Length / float64(len(x.Runs))
	}
	out.K = 1
	if out.BaseLength > 0 {
		out.K = min(max(1, int(out.TrainedLength/out.BaseLength)), x.n)
	}
	ks := append(majorityKs(x.n), out.K)
	at := make([][]float64, len(ks)) // maj@k of each problem
	for j := range at {
		at[j] = make([]float64, x.problem)
	}
	for i := range x.problem {
		for d := range x.Base {
			for j, v := range stats.MajorityAtEach(x.n, x.Base[d].Votes[i], 0, ks) {
				at[j][i] += float64(v / 2)
			}
		}
	}
	base := at[len(ks)-1]
	unit := 1 / float64(x.problem*x.n)
	one := x.each(func(r AuditedRun, i int) float64 { return float64(right(&r.Draw, i)) / float64(x.n) })
	out.Majority, out.Trained = overBoth([][]float64{base}, 0).clip(0, 1), overBoth(one, unit).clip(0, 1)
	out.Difference = overBoth(x.each(func(r AuditedRun, i int) float64 {
		return float64(right(&r.Draw, i))/float64(x.n) - base[i]
	}), unit).clip(-1, 1)
	for j, k := range ks[:len(ks)-1] {
		if stats.Mean(at[j]) >= out.Trained.Mean {
			out.ReachedAt = k
			break
		}
	}
	return out
}

// majorityKs are the k that a majority is tried with: 1, 2, 3, 4, 6, 8, 12 and so on up to n.
func majorityKs(n int) (ks []int) {
	for _, k := range stats.Doubled(1, n) {
		if between := k * 3 / 4; k > 2 && between > ks[len(ks)-1] {
			ks = append(ks, between)
		}
		ks = append(ks, k)
	}
	return ks
}

// gain splits the gain in pass@1 by format and by answers. The parts are not linear in the shares of a problem, so
// their intervals are of the linear terms, the delta method.
func (x *auditor) gain() AuditGain {
	var parts [4][][]float64 // total, format, answers, share of the format
	for _, r := range x.Runs {
		rows := x.gainOf(r)
		for k := range parts {
			parts[k] = append(parts[k], rows[k])
		}
	}
	unit := 1 / float64(x.problem*x.n)
	out := AuditGain{Total: overBoth(parts[0], unit), Format: overBoth(parts[1], unit), Answers: overBoth(parts[2], unit),
		FormatShare: Interval{math.NaN(), math.NaN(), math.NaN()}}
	if out.Total.Above(0) {
		out.FormatShare = overBoth(parts[3], 0)
	}
	return out
}

// gainOf has for each problem a number whose mean is the total gain of a run, its parts, and the share of the format.
func (x *auditor) gainOf(r AuditedRun) (out [4][]float64) {
	sum := func(votes []int) (n float64) {
		for _, v := range votes {
			n += float64(v)
		}
		return n
	}
	n, problems := float64(x.n), float64(x.problem)
	type shares struct{ f0, a0, f1, a1 float64 } // formatted and right, before and after
	of := make([]shares, x.problem)
	var m shares
	for i := range of {
		of[i] = shares{
			(sum(x.Base[0].Votes[i]) + sum(x.Base[1].Votes[i])) / (2 * n), float64(x.baseRight(i)) / (2 * n),
			sum(r.Draw.Votes[i]) / n, float64(right(&r.Draw, i)) / n,
		}
		m.f0, m.a0 = m.f0+of[i].f0/problems, m.a0+of[i].a0/problems
		m.f1, m.a1 = m.f1+of[i].f1/problems, m.a1+of[i].a1/problems
	}
	c0, c1 := m.a0/m.f0, m.a1/m.f1 // NaN if nothing was formatted
	total, format := m.a1-m.a0, float64((m.f1-m.f0)*(c0+c1)/2)
	for _, p := range of {
		df0, da0, df1, da1 := p.f0-m.f0, p.a0-m.a0, p.f1-m.f1, p.a1-m.a1
		dTotal := da1 - da0
		dFormat := float64((df1-df0)*(c0+c1)/2) +
			float64((m.f1-m.f0)/2*((da0-float64(c0*df0))/m.f0+(da1-float64(c1*df1))/m.f1))
		for k, v := range []float64{
			total + dTotal, format + dFormat, total - format + dTotal - dFormat,
			format/total + (dFormat-float64(format/total*dTotal))/total,
		} {
			out[k] = append(out[k], v)
		}
	}
	return out
}
