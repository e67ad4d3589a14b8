package analysis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"grpo/pkg/rundir"
)

// drawn are n completions of each problem, each right with its chance p, else wrong with 0.7, else without an answer.
func drawn(r *rand.Rand, seed uint64, n int, p func(problem int) float64, wrong float64) rundir.AuditDraw {
	d := rundir.AuditDraw{Weights: fmt.Sprint(seed), Seed: seed, Votes: make([][]int, 120)}
	for i := range d.Votes {
		votes := make([]int, 4)
		for range n {
			switch u := r.Float64(); {
			case u < p(i):
				votes[0]++
			case u < p(i)+(1-p(i))*wrong:
				votes[1+r.IntN(3)]++
			}
		}
		formatted := votes[0] + votes[1] + votes[2] + votes[3]
		d.Votes[i] = votes
		d.Counts = d.Counts.Plus(rundir.Counts{N: n, CorrectNum: votes[0], ErrorNum: n - votes[0], FormattedRight: votes[0],
			FormattedWrong: formatted - votes[0], Unformatted: n - formatted, Length: 10})
	}
	return d
}

// auditOf audits trained policies, one for each seed, that are right with the chance trained; the initial one is with
// the chance base.
func auditOf(r *rand.Rand, seeds, n int, base, trained func(problem int) float64, wrongBase, wrong float64) *Audit {
	in := AuditInput{Split: rundir.SplitVal}
	for i := range in.Base {
		in.Base[i] = drawn(r, uint64(i), n, base, wrongBase)
	}
	for s := range seeds {
		in.Runs = append(in.Runs, AuditedRun{Draw: drawn(r, uint64(s+1), n, trained, wrong)})
	}
	return NewAudit(in)
}

// constant is a chance of all problems.
func constant(p float64) func(int) float64 { return func(int) float64 { return p } }

// TestAuditVerdicts: policies that are made to deserve each verdict get it.
func TestAuditVerdicts(t *testing.T) {
	half := func(p, q float64) func(int) float64 {
		return func(i int) float64 {
			if i%2 == 0 {
				return p
			}
			return q
		}
	}
	for _, c := range []struct {
		name              string
		base, trained     func(int) float64
		wrongBase, wrong  float64
		want              []AuditKind
		reached, crossing bool
	}{
		{"nothing", half(0.5, 0.1), half(0.5, 0.1), 0.7, 0.7, []AuditKind{AuditNoGain}, true, false},
		{"worse", half(0.5, 0.1), half(0.2, 0), 0.7, 0.7, []AuditKind{AuditNoGain}, true, false},
		{"sharper", half(0.4, 0.05), half(0.95, 0), 1, 1, []AuditKind{AuditReliable}, true, true},
		{"new problems", half(0.4, 0), half(0.6, 0.4), 1, 1, []AuditKind{AuditNewProblems}, true, false},
		// Formatted three times as often, and as often right if formatted.
		{"format", constant(0.3), constant(0.9), 0, 0, []AuditKind{AuditReliable, AuditFormat}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, seeds := range []int{1, 4} {
				a := auditOf(rand.New(rand.NewPCG(1, 2)), seeds, 24, c.base, c.trained, c.wrongBase, c.wrong)
				if !slices.Equal(a.Kinds, c.want) {
					t.Errorf("%d seeds: %v, want %v: %+v", seeds, a.Kinds, c.want, a)
				}
				if (a.Crossing != nil) != c.crossing && c.name == "sharper" {
					t.Errorf("%d seeds: crossing %v", seeds, a.Crossing)
				}
				parts := a.Gain.Format.Mean + a.Gain.Answers.Mean
				if math.Abs(parts-a.Gain.Total.Mean) > 1e-12 ||
					math.Abs(a.PassAt[0].Difference.Mean-a.Gain.Total.Mean) > 1e-12 {
					t.Errorf("the gain %v has the parts %v and %v", a.Gain.Total, a.Gain.Format, a.Gain.Answers)
				}
			}
		})
	}
}

// TestAuditNumbers: three problems by hand.
func TestAuditNumbers(t *testing.T) {
	draw := func(seed uint64, votes ...[]int) rundir.AuditDraw {
		d := rundir.AuditDraw{Seed: seed, Votes: votes}
		for _, v := range votes {
			sum := 0
			for _, n := range v {
				sum += n
			}
			d.Counts = d.Counts.Plus(rundir.Counts{N: 2, CorrectNum: v[0], ErrorNum: 2 - v[0], FormattedRight: v[0],
				FormattedWrong: sum - v[0], Unformatted: 2 - sum, Length: 10 * float64(seed+1)})
		}
		return d
	}
	a := NewAudit(AuditInput{
		Base: [2]rundir.AuditDraw{
			draw(0, []int{1, 1}, []int{0, 1}, []int{0, 2}), draw(0, []int{2}, []int{1}, []int{0, 1, 1}),
		},
		Runs: []AuditedRun{{Draw: draw(1, []int{2}, []int{0, 2}, []int{1, 1})}},
	})
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-12 {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	near("pass@1 of the initial policy", a.PassAt[0].Base.Mean, (0.75+0.25+0)/3)
	near("pass@2 of the initial policy", a.PassAt[1].Base.Mean, (1+0.5+0)/3) // 3 of 4: 1; 1 of 4: 1 - 3/6
	near("pass@1", a.PassAt[0].Trained.Mean, 1.5/3)
	near("pass@2", a.PassAt[1].Trained.Mean, 2.0/3)
	near("newly solved", a.New.Observed, 1) // problem 3 against both draws
	near("by chance", a.New.ByChance, 0.5)  // problem 2, of one draw against the other
	near("lost", a.Lost.Observed, 0.5)      // problem 2, of the second draw
	near("beyond chance", a.New.Beyond.Mean, 0.5)
	near("k at the same number of tokens", float64(a.Majority.K), 2)
	near("maj@2", a.Majority.Majority.Mean, (0.75+0.5+0)/3)
	if a.Majority.ReachedAt != 0 {
		t.Errorf("the majority reached it at %d", a.Majority.ReachedAt)
	}
}

// TestAuditOfNothing: two draws of one policy have "no gain" in about all audits. Each of the two rules errs in 2.5%.
func TestAuditOfNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const audits = 150
	wrong := 0
	for range audits {
		p := make([]float64, 120)
		for i := range p {
			p[i] = math.Pow(r.Float64(), 4)
		}
		same := func(i int) float64 { return p[i] }
		a := auditOf(r, 1+2*r.IntN(2), 8, same, same, 0.7, 0.7)
		if !slices.Equal(a.Kinds, []AuditKind{AuditNoGain}) {
			wrong++
		}
	}
	if wrong > 14 { // 5% are 7.5; P(more than 14) is 1%
		t.Errorf("%d of %d audits of unchanged policies found something", wrong, audits)
	}
}

// TestAuditPlacebo: a gain that the placebo has too is none of the recipe's.
func TestAuditPlacebo(t *testing.T) {
	result := func(seed uint64, initial, final int) *rundir.Run {
		e := func(right int) rundir.Eval {
			return rundir.Eval{Sampled: rundir.Counts{N: 100, CorrectNum: right, AnswerReward: float64(right) / 100}}
		}
		return &rundir.Run{Meta: &rundir.Meta{InitHash: "ab+cd"}, Result: &rundir.Result{Seed: seed, Initial: e(initial),
			Final: e(final), WeightsSHA256: "ef"}}
	}
	r := rand.New(rand.NewPCG(5, 6))
	in := AuditInput{Base: [2]rundir.AuditDraw{drawn(r, 0, 16, constant(0.3), 1), drawn(r, 0, 16, constant(0.3), 1)}}
	placebo := PlaceboRuns{Reward: "random"}
	for seed := range uint64(3) {
		in.Runs = append(in.Runs, AuditedRun{Draw: drawn(r, seed, 16, constant(0.8), 1), Run: result(seed, 30, 80)})
		placebo.Runs = append(placebo.Runs, result(seed, 30, 78+int(seed)))
	}
	in.Placebos = []PlaceboRuns{placebo}
	a := NewAudit(in)
	if !slices.Contains(a.Kinds, AuditPlaceboToo) {
		t.Error(a.Kinds)
	}
	if p := a.Placebos[0]; math.Abs(p.Gain.Mean-0.49) > 1e-12 || p.Unmoved != 0 {
		t.Errorf("%+v", p)
	}
	for _, run := range placebo.Runs {
		run.Result.Final.Sampled.AnswerReward = 0.3
	}
	if kinds := NewAudit(in).Kinds; slices.Contains(kinds, AuditPlaceboToo) {
		t.Error(kinds)
	}

	// Weights that did not move gain nothing, whatever two evaluations of them say.
	for _, run := range placebo.Runs {
		run.Result.Final.Sampled.AnswerReward, run.Result.WeightsSHA256 = 0.8, "cd"
	}
	a = NewAudit(in)
	if p := a.Placebos[0]; p.Unmoved != 3 || p.Gain != (Interval{}) || p.Difference != a.PassAt[0].Difference || p.Same() {
		t.Errorf("%+v", p)
	}
}
