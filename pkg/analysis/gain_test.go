package analysis

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats/scalar"
	"pgregory.net/rapid"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

func countsOf(n, right, wrong int) *rundir.Counts {
	return &rundir.Counts{N: n, CorrectNum: right, ErrorNum: n - right, FormattedRight: right, FormattedWrong: wrong,
		Unformatted: n - right - wrong, AnswerReward: float64(right) / float64(n),
		FormatReward: float64(right+wrong) / float64(n)}
}

// Cases computed by hand.
func TestGainOf(t *testing.T) {
	for _, tt := range []struct {
		name            string
		before, after   *rundir.Counts
		format, answers float64
	}{
		// F .3 -> .9, C 2/3 both: the gain of .4 is the format's.
		{"format alone", countsOf(100, 20, 10), countsOf(100, 60, 30), 0.4, 0},
		{"answers alone", countsOf(100, 20, 80), countsOf(100, 70, 30), 0, 0.5},
		// F .5 -> 1, C .4 -> .8: .5 * .6 and .4 * .75.
		{"both", countsOf(100, 20, 30), countsOf(100, 80, 20), 0.3, 0.3},
		{"format up, answers down", countsOf(100, 40, 10), countsOf(100, 40, 60), 0.3, -0.3},
		{"no formatted completion before", countsOf(100, 0, 0), countsOf(100, 80, 20), math.NaN(), math.NaN()},
		{"not made", nil, countsOf(100, 80, 20), math.NaN(), math.NaN()},
	} {
		g := GainOf(tt.before, tt.after)
		if !scalar.Same(g.Format, tt.format) && !scalar.EqualWithinAbs(g.Format, tt.format, 1e-12) ||
			!scalar.Same(g.Answers, tt.answers) && !scalar.EqualWithinAbs(g.Answers, tt.answers, 1e-12) {
			t.Errorf("%s: %+v, want %v by format and %v by answers", tt.name, g, tt.format, tt.answers)
		}
	}
}

// By hand: the differences 0, -1, 1, 1, 1, 0, 0, 0 have the mean 1/4 and the standard error 1/4; t(7, 0.975) is 2.3646.
func TestGainByProblem(t *testing.T) {
	of := func(digits string) *rundir.Eval {
		right := make([]bool, len(digits))
		for i := range right {
			right[i] = digits[i] == '1'
		}
		wrong := make([]bool, len(right))
		return &rundir.Eval{Sampled: rundir.Counts{N: len(right)}, Right: rundir.RightOf(wrong, 1),
			RightGreedy: rundir.RightOf(right, 1)}
	}
	g, ok := GainByProblem(of("11000000"), of("10111000"), rundir.DecodingGreedy)
	if !ok || g.Mean != 0.25 || math.Abs(g.Lo - -0.34116) > 1e-5 || math.Abs(g.Hi-0.84116) > 1e-5 {
		t.Errorf("%+v", g)
	}
	if g, ok := GainByProblem(of("11000000"), of("10111000"), rundir.DecodingSampled); ok {
		t.Errorf("%+v of completions that are all wrong", g)
	}
	for _, tt := range []struct {
		name          string
		before, after *rundir.Eval
	}{
		{"no spread", of("11000000"), of("11000000")},
		{"one problem", of("0"), of("1")},
		{"other problems", of("11000000"), of("1100000")},
		{"without the completions", &rundir.Eval{Sampled: rundir.Counts{N: 8}}, of("11000000")},
	} {
		if g, ok := GainByProblem(tt.before, tt.after, rundir.DecodingGreedy); ok {
			t.Errorf("%s: an interval of %+v", tt.name, g)
		}
	}
}

// The parts add up to the gain, change their sign with the direction of time, and are
// each the mean over the two orders in which the factors can change.
func TestGainIsExactAndSymmetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) *rundir.Counts {
			n := rapid.IntRange(1, 1000).Draw(t, name)
			formatted := rapid.IntRange(1, n).Draw(t, "formatted")
			right := rapid.IntRange(0, formatted).Draw(t, "right")
			return countsOf(n, right, formatted-right)
		}
		x, y := draw("before"), draw("after")
		g, back := GainOf(x, y), GainOf(y, x)
		near := func(what string, a, b float64) {
			if math.Abs(a-b) > 1e-12 {
				t.Fatalf("%s: %v, want %v", what, a, b)
			}
		}
		near("sum", g.Format+g.Answers, y.AnswerReward-x.AnswerReward)
		near("back, format", back.Format, -g.Format)
		near("back, answers", back.Answers, -g.Answers)
		f0, f1, c0, c1 := x.FormatReward, y.FormatReward, RightOfFormatted(x), RightOfFormatted(y)
		near("format", g.Format, ((f1*c0-f0*c0)+(f1*c1-f0*c1))/2)
	})
}

// Sets of an arm: unseen facts and a file next to validation. A run without a result has
// nothing after training.
func TestSetsOfAnArm(t *testing.T) {
	sw := reporttest.FakeSweep(3, reporttest.FakeArm{Name: "a", Run: reporttest.Around(0.9, 0.01, 1)})
	for i := range sw.Runs {
		r := sw.Runs[i].Run
		for _, split := range []string{"svamp", rundir.SplitUnseen} {
			first := rundir.Eval{Step: 0, Split: split, Sampled: *countsOf(50, 10, 20), Greedy: countsOf(50, 15, 35)}
			last := rundir.Eval{Step: 200, Split: split, Sampled: *countsOf(50, 30+i, 10), Greedy: countsOf(50, 40, 10)}
			r.Evals = append(append([]rundir.Eval{first}, r.Evals...), last)
		}
	}
	sw.Runs[2].Run.Result = nil
	sw.Runs[2].State = rundir.StateRunning
	a, err := Analyse(sw)
	expect.OK(t, err)
	var names []string
	for _, s := range a.Arms[0].Sets {
		names = append(names, s.Set)
	}
	if want := []string{"val", "unseen", "svamp", "test"}; !slices.Equal(names, want) {
		t.Fatalf("sets %v, want %v", names, want)
	}
	s := a.Arms[0].Sets[2]
	before, after := s.Of(SetBefore), s.Of(SetAfter)
	if s.Problems != 50 || before.N != 3 || !scalar.EqualWithinAbs(before.Mean, 0.2, 1e-12) ||
		after.N != 2 || !scalar.EqualWithinAbs(after.Mean, 0.61, 1e-12) {
		t.Errorf("%d problems, before %+v, after %+v", s.Problems, before, after)
	}
	// Greedy: F 1 throughout, so all of the gain of .5 is the answers'.
	if f, g := s.Of(SetGreedyGainByFormat), s.Of(SetGreedyGainByAnswers); f.Mean != 0 || !scalar.EqualWithinAbs(g.Mean, 0.5, 1e-12) {
		t.Errorf("greedy gain %v by format, %v by answers", f.Mean, g.Mean)
	}
	if c := s.Of(SetCorrect); c.Values[1] != 31 || !math.IsNaN(c.Values[2]) {
		t.Errorf("correct_num %+v", c)
	}
}

// Which arms get a finding, and its parts.
func TestGainFindings(t *testing.T) {
	kinds := func(run func(uint64) reporttest.FakeRun, change func(*rundir.Run)) []Kind {
		sw := reporttest.FakeSweep(4, reporttest.FakeArm{Name: "a", Run: run})
		for _, s := range sw.Runs {
			change(s.Run)
		}
		a, err := Analyse(sw)
		expect.OK(t, err)
		var out []Kind
		for _, f := range a.Findings {
			if f.Kind == GainSources {
				out = append(out, f.Kind)
				for _, p := range f.Parts {
					out = append(out, p.Kind)
				}
			}
		}
		return out
	}
	keep := func(*rundir.Run) {}
	same := func(got []Kind, want ...Kind) bool { return slices.Equal(got, want) }
	if got := kinds(reporttest.Around(0.9, 0.01, 1), keep); !same(got, GainSources, GainByFormat, GainByAnswers) {
		t.Errorf("an arm that learned: %v", got)
	}
	if got := kinds(func(uint64) reporttest.FakeRun { return reporttest.FakeRun{Initial: 0.2, Final: 0.2} }, keep); len(got) > 0 {
		t.Errorf("an arm that did not learn: %v", got)
	}
	unformatted := func(r *rundir.Run) {
		r.Result.Initial.Sampled = *countsOf(1024, 0, 0)
	}
	if got := kinds(reporttest.Around(0.9, 0.01, 1), unformatted); !same(got, GainSources) {
		t.Errorf("nothing formatted before training: %v", got)
	}
	greedy := func(r *rundir.Run) { r.Result.Initial.Greedy = countsOf(1024, 100, 924) }
	if got := kinds(reporttest.Around(0.9, 0.01, 1), greedy); !same(got, GainSources, GainByFormat, GainByAnswers, GainSources) {
		t.Errorf("with greedy decoding: %v", got)
	}
}

func mustAnalyse(t testing.TB, sw *sweepdir.Sweep) *Analysis {
	t.Helper()
	a, err := Analyse(sw)
	expect.OK(t, err)
	return a
}
