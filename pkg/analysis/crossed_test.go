package analysis

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"grpo/internal/reporttest"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"
)

// recorded is a sweep of two arms whose runs have right or wrong of each of n problems.
func recorded(n int, x, y func(uint64) reporttest.FakeRun) *sweepdir.Sweep {
	sw := reporttest.FakeSweep(4, reporttest.Record(n, reporttest.FakeArm{Name: "x", Run: x}, reporttest.FakeArm{Name: "y", Run: y})...)
	sw.Manifest.Reference = "y"
	return sw
}

// A comparison over seeds and problems has the p value of V, and the one over seeds besides, which is never larger.
func TestCrossedComparisons(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) func(uint64) reporttest.FakeRun {
			finals := rapid.SliceOfN(rapid.Float64Range(0, 1), 4, 4).Draw(t, name)
			return func(seed uint64) reporttest.FakeRun { return reporttest.FakeRun{Final: finals[seed-1]} }
		}
		sw := recorded(rapid.IntRange(2, 70).Draw(t, "problems"), draw("x"), draw("y"))
		a, err := Analyse(sw)
		if err != nil {
			t.Fatal(err)
		}
		c := a.Comparisons[0]
		own := stats.StudentT(c.Diffs, c.Resolution)
		if !c.Crossed || c.PSeeds != own.P || c.P < c.PSeeds || c.Bound < own.Bound(stats.Alpha)-1e-12 && c.Bound < 1 {
			t.Fatalf("%+v\nover seeds %+v", c, own)
		}
		if math.Abs(c.Mean-own.Mean) > 1e-12 || c.MeanSquare != stats.MeanSquare(c.Diffs) {
			t.Fatalf("the mean or the order differ: %+v", c)
		}
	})
}

// A lucky small spread over seeds does not make a difference that is about these problems.
func TestCrossedTakesTheProblems(t *testing.T) {
	steady := func(final float64) func(uint64) reporttest.FakeRun { return reporttest.Around(final, .004, 3) }
	c := mustAnalyse(t, recorded(128, steady(.80), steady(.74))).Comparisons[0]
	if c.PSeeds > .01 || c.P < .05 || c.Separable || c.Test.Lo > 0 {
		t.Errorf("p over seeds %v, with problems %v, test %+v", c.PSeeds, c.P, c.Test)
	}
	// More seeds do not help against the problems.
	if likely, most := c.SeedsFor(.02); likely != 0 || most != 0 {
		t.Errorf("%d to %d seeds would do", likely, most)
	}
	if likely, _ := c.SeedsFor(.30); likely < 2 || likely > 16 {
		t.Errorf("%d seeds see 30 points", likely)
	}
}

// Only runs that recorded the same problems are compared in this way.
func TestCrossedNeedsTheSameProblems(t *testing.T) {
	eval := "eval:\n  final_size: 512\n"
	generated := "data:\n  source: generated\n  generator_seed: 1\n  val_size: 64\n  train_size: "
	for _, tt := range []struct {
		name   string
		change func(*sweepdir.Sweep)
		want   bool
	}{
		{"as they are", func(*sweepdir.Sweep) {}, true},
		{"a run of an earlier version", func(sw *sweepdir.Sweep) { sw.Runs[3].Run.Result.Final.Right = nil }, false},
		{"without a hash of the problems", func(sw *sweepdir.Sweep) { sw.Runs[3].Run.Meta.ProblemsHash = "" }, false},
		{"other problems", func(sw *sweepdir.Sweep) { sw.Runs[1].Run.Meta.ProblemsHash = "others" }, false},
		{"a finished and an unfinished seed", func(sw *sweepdir.Sweep) { sw.Runs[3].Run.Result = nil }, true},
		{"other training problems", func(sw *sweepdir.Sweep) {
			for i := range sw.Runs {
				sw.Runs[i].Run.Meta.ProblemsHash = []string{"x", "y"}[sw.Runs[i].Arm]
				sw.Manifest.Runs[i].Config = generated + []string{"10\n", "20\n"}[sw.Runs[i].Arm] + eval
			}
		}, true},
		{"other validation problems", func(sw *sweepdir.Sweep) {
			for i := range sw.Runs {
				sw.Runs[i].Run.Meta.ProblemsHash = []string{"x", "y"}[sw.Runs[i].Arm]
				sw.Manifest.Runs[i].Config = generated + "10\n" + []string{eval, ""}[sw.Runs[i].Arm]
			}
		}, false},
		{"other contents of the files", func(sw *sweepdir.Sweep) {
			for i := range sw.Runs {
				name := []string{"x", "y"}[sw.Runs[i].Arm]
				sw.Runs[i].Run.Meta = &rundir.Meta{ProblemsHash: name, InputFiles: map[string]string{"val.jsonl": name}}
				sw.Manifest.Runs[i].Config = "data: {source: gsm8k, val_file: val.jsonl}\n"
			}
		}, false},
	} {
		sw := recorded(64, reporttest.Around(.8, .02, 1), reporttest.Around(.7, .02, 2))
		tt.change(sw)
		a := mustAnalyse(t, sw)
		c := a.Comparisons[0]
		if c.Crossed != tt.want || (c.PSeeds > 0) != tt.want {
			t.Errorf("%s: crossed %v, p over seeds %v", tt.name, c.Crossed, c.PSeeds)
		}
		few := 0
		for _, f := range a.Findings {
			if f.Kind == FewProblems {
				few++
			}
		}
		if (few == 0) != tt.want {
			t.Errorf("%s: %d caveats about few problems", tt.name, few)
		}
	}
}

// The contrasts of a grid are over seeds and problems too.
func TestCrossedGrid(t *testing.T) {
	sw := reporttest.GridSweep(4)
	arms := sw.Manifest.Arms
	var fakes []reporttest.FakeArm
	for i, mean := range []float64{.80, .90, .94, .89} {
		fakes = append(fakes, reporttest.FakeArm{Name: arms[i].Name, Set: arms[i].Set, Run: reporttest.Around(mean, .012, uint64(i))})
	}
	grid := reporttest.FakeSweep(4, reporttest.Record(128, fakes...)...)
	grid.Manifest.Varied = sw.Manifest.Varied
	finals := mustAnalyse(t, grid).finals()
	if len(finals) != 3 {
		t.Fatalf("%d contrasts", len(finals))
	}
	for _, c := range finals {
		if !c.Crossed || c.P < c.PSeeds {
			t.Errorf("%+v", c)
		}
	}
}

// Several completions of a problem make a finer unit, and counts of completions; the number of problems stays.
func TestSeveralSamples(t *testing.T) {
	run := reporttest.FakeRun{Initial: .25, Final: .5, Greedy: .5, Problems: 64}.Run(1)
	end := &run.Result.Final
	end.Split, end.Samples = rundir.SplitFinal, 2
	end.Sampled = rundir.Counts{N: 128, CorrectNum: 65, ErrorNum: 63, FormattedRight: 65, Unformatted: 63, AnswerReward: 65. / 128}
	r := armResult(sweepdir.Arm{}, []sweepdir.RunState{{State: rundir.StateDone, Run: run}}, 0)
	if r.Problems != 64 || r.Completions(FinalMetric) != 128 || r.Completions(GreedyMetric) != 64 || r.Completions(InitialMetric) != 64 {
		t.Errorf("%d problems, %d completions", r.Problems, r.Completions(FinalMetric))
	}
	if u := FinalMetric.resolution(&r); u != 1./128 {
		t.Errorf("resolution %v", u)
	}
	set := r.Sets[0]
	if set.Set != rundir.SplitVal || set.Problems != 64 || set.Of(SetCorrect).Mean != 65 || set.Of(SetAfter).Mean != 65./128 {
		t.Errorf("%+v", set)
	}
	if lo, hi := ProblemInterval(end, &end.Sampled); hi-lo < .23 { // that of 64 problems
		t.Errorf("[%v, %v]", lo, hi)
	}
	if want := "the reward after training is of 128 completions of 64 validation problems, the one before of 64 problems; " +
		"the curve and the best step are of the first 64 of these problems, one completion each"; CurveNote([]*rundir.Run{run}) != want {
		t.Error(CurveNote([]*rundir.Run{run}))
	}
}
