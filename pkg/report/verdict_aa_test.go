package report

import (
	"fmt"
	"testing"

	"grpo/internal/reporttest"
	"grpo/pkg/analysis"

	"grpo/internal/statstest"
	"grpo/pkg/sweepdir"
)

// aaArms are arms that differ by chance only.
func aaArms(count, index, purpose int) []reporttest.FakeArm {
	r := statstest.Rand(purpose, index)
	arms := make([]reporttest.FakeArm, count)
	for i := range arms {
		arms[i] = reporttest.FakeArm{Name: fmt.Sprintf("arm %d", i+1), Run: func(uint64) reporttest.FakeRun {
			return reporttest.FakeRun{
				Initial: reporttest.FakeBase, Final: statstest.Share(r, 0.9, 0.04), Greedy: statstest.Share(r, 0.97, 0.01),
				Format: statstest.Share(r, 0.99, 0.003), Length: 24.6 + 0.3*r.NormFloat64(),
				Entropy: 0.04 + 0.004*r.NormFloat64(), GradNorm: 0.14 + 0.01*r.NormFloat64(), Rate: 1e-3,
				EvalEvery: 50, Metrics: 10,
			}
		}}
	}
	return arms
}

// TestAAOfVerdicts is the A/A test of the whole path, from runs to the verdict's claims: sweeps in which nothing
// differs have a claim in the final reward (the contrasts of a grid included) at most as often as stated, and one
// in all other metrics together. pkg/stats has the same of the method alone, in more worlds and with more sweeps.
func TestAAOfVerdicts(t *testing.T) {
	grid := func(sw *sweepdir.Sweep) {
		sw.Manifest.Axes = []sweepdir.Axis{{Key: "a.x", Label: "x", Values: []string{"0", "1"}}, {Key: "a.y", Label: "y", Values: []string{"0", "1"}}}
		for i := range sw.Manifest.Arms {
			sw.Manifest.Arms[i].Point = []string{fmt.Sprint(i / 2), fmt.Sprint(i % 2)}
		}
	}
	for k, tt := range []struct {
		name  string
		arms  int
		seeds int
		shape func(*sweepdir.Sweep)
	}{
		{"2 arms, 4 seeds", 2, 4, nil},
		{"2 arms, 8 seeds", 2, 8, nil},
		{"3 arms with a reference, 4 seeds", 3, 4, func(sw *sweepdir.Sweep) { sw.Manifest.Reference = "arm 1" }},
		{"5 arms against the best, 4 seeds", 5, 4, nil},
		{"5 arms against the best, 8 seeds", 5, 8, nil},
		{"grid of 2 x 2, 4 seeds", 4, 4, grid},
		{"2 arms, each at the best of 4 rates, 4 seeds", 8, 4, func(sw *sweepdir.Sweep) { reporttest.Tune(sw, "0.0001", "0.0003", "0.001", "0.01") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			simulations := *statstest.Simulations / 8
			finals, others := 0, 0
			for i := range simulations {
				sw := reporttest.FakeSweep(tt.seeds, aaArms(tt.arms, i, 50+k)...)
				if tt.shape != nil {
					tt.shape(sw)
				}
				a, err := analysis.Analyse(sw)
				if err != nil {
					t.Fatal(err)
				}
				var final, other bool
				for _, c := range a.Comparisons {
					if c.Metric == "final" {
						final = final || c.Separable
					} else {
						other = other || c.Separable
					}
				}
				finals, others = finals+count(final), others+count(other)
			}
			share := func(n int) float64 { return 100 * float64(n) / float64(simulations) }
			t.Logf("with a claim, of %d sweeps of equal arms: final reward %.1f%%, other metrics %.1f%%", simulations, share(finals), share(others))
			for what, n := range map[string]int{"final reward": finals, "other metrics": others} {
				if n > statstest.MaxFalsePositives(simulations) {
					t.Errorf("%s: %d of %d sweeps, at most %d allowed", what, n, simulations, statstest.MaxFalsePositives(simulations))
				}
			}
		})
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
