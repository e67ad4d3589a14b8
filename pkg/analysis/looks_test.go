package analysis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"
)

// lookSweep is a sweep with looks at 4, 8 and 16 seeds, none of whose runs has ended; finals has the final
// rewards that they will have, arm by arm.
func lookSweep(finals [][]float64) *sweepdir.Sweep {
	var arms []reporttest.FakeArm
	for i, values := range finals {
		arms = append(arms, reporttest.FakeArm{Name: string(rune('a' + i)), Run: func(seed uint64) reporttest.FakeRun {
			return reporttest.FakeRun{Initial: .2, Final: values[seed-1], EvalEvery: 200, Metrics: 1}
		}})
	}
	sw := reporttest.FakeSweep(16, arms...)
	for _, l := range stats.PlannedLooks(4, 16) {
		sw.Manifest.Looks = append(sw.Manifest.Looks, sweepdir.Look{Seeds: l.Seeds, Level: l.Level})
	}
	return sw
}

// train is the sweep with the runs that were trained before its next look; n counts them.
func train(all *sweepdir.Sweep, m sweepdir.Manifest) (sw *sweepdir.Sweep, n int) {
	sw = &sweepdir.Sweep{Dir: all.Dir, Manifest: m, Runs: slices.Clone(all.Runs)}
	for i, s := range sw.Runs {
		if m.IsStopped(s.Entry) || m.IsPlanned(s.Entry) {
			s.Run, s.State = nil, sweepdir.Missing
			sw.Runs[i] = m.Settle(s)
			continue
		}
		n++
	}
	return sw, n
}

// takeAll takes all looks and returns the sweep at its end with the number of runs trained.
func takeAll(t testing.TB, all *sweepdir.Sweep) (*sweepdir.Sweep, int) {
	t.Helper()
	m := all.Manifest
	m.Looks = slices.Clone(m.Looks)
	for m.NextLook() >= 0 {
		sw, _ := train(all, m)
		d, err := Decide(sw)
		expect.OK(t, err)
		m.Looks[m.NextLook()].Taken = &d
	}
	return train(all, m)
}

// draws are final rewards around means, with the same spread.
func draws(r *rand.Rand, sd float64, means ...float64) (out [][]float64) {
	for _, mean := range means {
		var x []float64
		for range 16 {
			x = append(x, math.Round(1024*(mean+sd*r.NormFloat64()))/1024)
		}
		out = append(out, x)
	}
	return out
}

func TestDecide(t *testing.T) {
	r := rand.New(rand.NewPCG(37, 4))
	far := draws(r, .002, .9, .5, .9005)
	for _, tt := range []struct {
		name      string
		finals    [][]float64
		reference string
		want      sweepdir.Decision
	}{
		{"one arm is beaten, and the others are the same", far, "",
			sweepdir.Decision{GoOn: []int{}, Ended: sweepdir.EndAnswered, Out: []sweepdir.ArmOut{
				{Arm: 1, Why: sweepdir.OutBeaten, By: 0}, {Arm: 2, Why: sweepdir.OutSame, By: 0}}}},
		{"the others are open", [][]float64{
			{.9, .8, .95, .85}, {.1, .11, .1, .1}, {.76, .82, .7, .83}}, "",
			sweepdir.Decision{GoOn: []int{0, 2}, Out: []sweepdir.ArmOut{{Arm: 1, Why: sweepdir.OutBeaten, By: 0}}}},
		{"separated from the reference, one is open", [][]float64{
			{.9, .8, .95, .85}, {.1, .11, .1, .1}, {.76, .82, .7, .83}}, "a",
			sweepdir.Decision{GoOn: []int{0, 2}, Out: []sweepdir.ArmOut{{Arm: 1, Why: sweepdir.OutSeparated, By: 0}}}},
		{"two arms that more seeds would not tell apart", [][]float64{
			{.9, .8, .7, .6}, {.6, .9, .7, .8}}, "",
			sweepdir.Decision{GoOn: []int{}, Ended: sweepdir.EndFutile}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for i := range tt.finals {
				for len(tt.finals[i]) < 16 {
					tt.finals[i] = append(tt.finals[i], .5)
				}
			}
			all := lookSweep(tt.finals)
			all.Manifest.Reference = tt.reference
			sw, n := train(all, all.Manifest)
			d, err := Decide(sw)
			expect.OK(t, err)
			if n != 4*len(tt.finals) || !reflect.DeepEqual(d, tt.want) {
				t.Errorf("after %d runs %+v, want %+v", n, d, tt.want)
			}
			// The decision depends on nothing that comes later.
			again, err := Decide(all)
			expect.OK(t, err)
			if !reflect.DeepEqual(again, d) {
				t.Errorf("with later runs %+v", again)
			}
		})
	}
	// A run that failed counts as a missing value, but each arm needs two.
	all := lookSweep(far)
	for i, s := range all.Runs {
		if s.Arm == 1 && s.Seed > 1 {
			all.Runs[i].Run, all.Runs[i].State = nil, rundir.StateFailed
		}
	}
	if _, err := Decide(all); err == nil || !strings.Contains(err.Error(), `needs two finished runs of each arm, and "b" has 1`) {
		t.Errorf("one run of an arm: %v", err)
	}
}

// An arm that diverged, even after it beat another at a look, leaves that one a candidate for the best.
func TestBeatenByADivergedArm(t *testing.T) {
	for _, tt := range []struct {
		why      string
		by, want int
	}{{sweepdir.OutBeaten, 0, 1}, {sweepdir.OutBeaten, 2, -1}, {sweepdir.OutWorse, 0, -1}} {
		var arms []reporttest.FakeArm
		for i, final := range []float64{.9, .5, .1} {
			arms = append(arms, reporttest.FakeArm{Control: i == 2, Run: func(uint64) reporttest.FakeRun {
				return reporttest.FakeRun{Final: final, Diverged: []int{7, 0, 0}[i]}
			}})
		}
		sw := reporttest.FakeSweep(4, arms...)
		sw.Manifest.Looks = []sweepdir.Look{{Seeds: 4, Level: .05, Taken: &sweepdir.Decision{Ended: sweepdir.EndAnswered,
			Out: []sweepdir.ArmOut{{Arm: 1, Why: tt.why, By: tt.by}}}}}
		if a := mustAnalyse(t, sw); a.Best != tt.want {
			t.Errorf("%s than arm %d: best %d, want %d", tt.why, tt.by, a.Best, tt.want)
		}
	}
}

// The p values of a sweep at its end are those of stats.Sequential.
func TestLooksAreSequential(t *testing.T) {
	r := rand.New(rand.NewPCG(37, 5))
	for i := range 60 {
		means := [][]float64{{.8, .8, .8, .8}, {.8, .78, .76, .7}, {.8, .82}}[i%3]
		all := lookSweep(draws(r, .03, means...))
		sw, _ := takeAll(t, all)
		a := mustAnalyse(t, sw)
		var arms [][]float64
		for k := range a.Arms {
			arms = append(arms, a.Arms[k].Of(FinalMetric).Values)
		}
		var looks []stats.Look
		for _, l := range a.looks() {
			looks = append(looks, stats.Look{Seeds: l.Seeds, Level: l.Level})
		}
		var pairs [][2]int
		for x := range arms {
			for y := x + 1; y < len(arms); y++ {
				pairs = append(pairs, [2]int{x, y})
			}
		}
		for k, want := range stats.Sequential(arms, pairs, true, looks, stats.OrderedWeight, 1./1024) {
			c := a.Find(FinalMetric.Name, pairs[k][0], pairs[k][1])
			if math.Abs(c.PAdjusted-min(1, want)) > 1e-9 {
				t.Fatalf("sweep %d, pair %v: p %v, want %v", i, pairs[k], c.PAdjusted, want)
			}
		}
	}
}

// Claims about arms that are equal, and the runs that looks save. STATISTICS.md has 4.4% and 15.6 seeds for two
// arms, 4.2% and 64 runs for a race of four (without the stop for equal arms).
func TestLooksError(t *testing.T) {
	r := rand.New(rand.NewPCG(37, 6))
	for _, arms := range []int{2, 4} {
		const sweeps = 150
		wrong, runs := 0, 0
		for range sweeps {
			sw, n := takeAll(t, lookSweep(draws(r, .1, []float64{.5, .5, .5, .5}[:arms]...)))
			runs += n
			if slices.ContainsFunc(mustAnalyse(t, sw).finals(), func(c Comparison) bool { return c.Separable }) {
				wrong++
			}
		}
		t.Logf("%d arms: %.1f%% wrong, %.1f seeds", arms, 100*float64(wrong)/sweeps, float64(runs)/sweeps/float64(arms))
		if wrong > 16 { // with 5%: in 0.3% of tests
			t.Errorf("%d arms: %d of %d sweeps of equal arms have a claim", arms, wrong, sweeps)
		}
	}
}

// Added seeds: the claim is that of the first seeds, the added ones are tested alone.
func TestAddedSeeds(t *testing.T) {
	finals := [][]float64{{.9, .91, .9, .91, .5, .7, .4, .8}, {.7, .71, .71, .7, .8, .5, .7, .4}}
	sw := reporttest.FakeSweep(8, reporttest.FakeArm{Name: "a", Run: func(seed uint64) reporttest.FakeRun {
		return reporttest.FakeRun{Final: finals[0][seed-1]}
	}}, reporttest.FakeArm{Name: "b", Run: func(seed uint64) reporttest.FakeRun {
		return reporttest.FakeRun{Final: finals[1][seed-1]}
	}})
	sw.Manifest.Added = []sweepdir.Addition{{Seeds: []uint64{5, 6, 7, 8}, Finished: 8, Runs: 8}}
	a := mustAnalyse(t, sw)
	c := a.Comparisons[0]
	if c.N != 4 || math.Abs(c.Mean-.2) > .002 || !c.Separable {
		t.Errorf("the claim is from %d seeds, mean %v, separable %v", c.N, c.Mean, c.Separable)
	}
	var kinds []string
	for _, f := range a.Findings {
		if f.Section == Caveat && len(f.Parts) == 1 && (f.Kind == SeedsAlone || f.Kind == SeedsPooled) {
			p := f.Parts[0]
			kinds = append(kinds, fmt.Sprintf("%s %s %v %d %.2f", f.Kind, p.Kind, f.Seeds, p.Numbers.N, p.Numbers.Mean))
		}
	}
	want := []string{"seeds_alone open [5 6 7 8] 4 0.00", "seeds_pooled seeds_pooled [] 8 0.10"}
	if !reflect.DeepEqual(kinds, want) {
		t.Errorf("%q, want %q", kinds, want)
	}
	// After a single seed the added ones make the claim.
	sw.Manifest.Added = []sweepdir.Addition{{Seeds: []uint64{2, 3, 4, 5, 6, 7, 8}, Finished: 2, Runs: 2}}
	if c := mustAnalyse(t, sw).Comparisons[0]; c.N != 7 {
		t.Errorf("after one seed the claim is from %d seeds", c.N)
	}
}

// The best point of each tuned arm is chosen on the first seeds, and compared on the others alone.
func TestChoice(t *testing.T) {
	sw := reporttest.TunedSweep(8)
	sw.Manifest.Looks = []sweepdir.Look{{Seeds: 4, Choice: true}, {Seeds: 8, Level: stats.Alpha}}
	before, _ := train(sw, sw.Manifest)
	d, err := Decide(before)
	expect.OK(t, err)
	if !slices.Equal(d.GoOn, []int{1, 2}) || len(d.Out) != 2 || d.Out[1] != (sweepdir.ArmOut{Arm: 3, Why: sweepdir.OutWorse, By: 2}) {
		t.Fatalf("%+v", d)
	}
	if c := mustAnalyse(t, before).finals(); len(c) != 1 || c[0].N != 0 || c[0].Separable {
		t.Errorf("before the choice: %+v", c)
	}
	m := sw.Manifest
	m.Looks = slices.Clone(m.Looks)
	m.Looks[0].Taken = &d
	after, n := train(sw, m)
	a := mustAnalyse(t, after)
	c := a.finals()[0]
	want := stats.StudentT(stats.Differences(a.Arms[2].Of(FinalMetric).Values, a.Arms[1].Of(FinalMetric).Values)[4:], 1./1024)
	if n != 4*4+2*4 || c.N != 4 || math.Abs(c.Mean-want.Mean)+math.Abs(c.PAdjusted-want.P)+math.Abs(c.Hi-want.Hi) > 1e-9 || a.Best != 2 {
		t.Errorf("%d runs, best %d, %+v, want %+v", n, a.Best, c, want)
	}
	d, err = Decide(after)
	if expect.OK(t, err); d.Ended != sweepdir.EndAnswered {
		t.Errorf("%+v", d)
	}
}
