package report

import (
	"fmt"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"grpo/pkg/sweepdir"
)

// aaArms are arms that are one and the same but for chance.
func aaArms(count, index, purpose int) []fakeArm {
	r := aaRand(purpose, index)
	arms := make([]fakeArm, count)
	for i := range arms {
		arms[i] = fakeArm{name: fmt.Sprintf("arm %d", i+1), run: func(uint64) fakeRun {
			return fakeRun{
				initial: fakeBase, final: binomialRun(0.9, 0.04)(r), greedy: binomialRun(0.97, 0.01)(r),
				format: binomialRun(0.99, 0.003)(r), length: 24.6 + 0.3*r.NormFloat64(),
				entropy: 0.04 + 0.004*r.NormFloat64(), gradNorm: 0.14 + 0.01*r.NormFloat64(), rate: 1e-3,
				evalEvery: 50, metrics: 10,
			}
		}}
	}
	return arms
}

// TestAAOfVerdicts asks of the whole path, from runs to the verdict's claims,
// that sweeps in which nothing differs are called different at most as often
// as stated: in the final reward, and in all other figures together.
func TestAAOfVerdicts(t *testing.T) {
	const few = 200
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
		{"2 arms, each at the best of 4 rates, 4 seeds", 8, 4, func(sw *sweepdir.Sweep) { tune(sw, "0.0001", "0.0003", "0.001", "0.01") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			simulations := *aaSimulations / 8
			var finals, others, interactions, first int
			for i := range simulations {
				sw := fakeSweep(tt.seeds, aaArms(tt.arms, i, 50+k)...)
				if tt.shape != nil {
					tt.shape(sw)
				}
				a, err := Analyse(sw)
				if err != nil {
					t.Fatal(err)
				}
				var final, other, interaction bool
				for _, c := range a.Comparisons {
					switch {
					case c.Kind == KindInteraction:
						interaction = interaction || c.Separable
					case c.Metric == "final":
						final = final || c.Separable
					default:
						other = other || c.Separable
					}
				}
				finals, others, interactions = finals+count(final), others+count(other), interactions+count(interaction)
				if i < few {
					first += count(final)
				}
			}
			share := func(n int) float64 { return 100 * float64(n) / float64(simulations) }
			t.Logf("called different in %d sweeps of arms that are the same: final reward %.1f%% (%d of the first %d), other figures %.1f%%, interaction %.1f%%",
				simulations, share(finals), first, few, share(others), share(interactions))
			for what, n := range map[string]int{"final reward": finals, "other figures": others, "interaction": interactions} {
				if n > mostCalls(simulations) {
					t.Errorf("%s: %d of %d sweeps, at most %d are honest", what, n, simulations, mostCalls(simulations))
				}
			}
			if first > mostCalls(few) {
				t.Errorf("of the first %d comparisons %d are called different", few, first)
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

// TestPowerOfVerdicts measures how large a true difference must be to be found
// in four of five sweeps of two arms, with the spread over seeds of the default
// experiment and with a larger one.
func TestPowerOfVerdicts(t *testing.T) {
	const simulations = 1000
	for _, sd := range []float64{0.013, 0.04} {
		for _, n := range []int{4, 8} {
			// The distribution of the difference of two runs: seeds and the luck of
			// 1024 problems.
			at := 0.0
			for effect := 0.005; effect < 0.3; effect += 0.005 {
				found := 0
				for i := range simulations {
					r := aaRand(9, i)
					d := make([]float64, n)
					for k := range d {
						x, y := clamp(0.85+sd*r.NormFloat64()), clamp(0.85-effect+sd*r.NormFloat64())
						d[k] = (distuv.Binomial{N: aaProblems, P: x, Src: r}.Rand() - distuv.Binomial{N: aaProblems, P: y, Src: r}.Rand()) / aaProblems
					}
					found += count(StudentT(d, 1./aaProblems).P <= Alpha)
				}
				if found >= 0.8*simulations {
					at = effect
					break
				}
			}
			t.Logf("spread over seeds %.1f points, n = %d: a difference of %.1f points is found in 80%% of sweeps", 100*sd, n, 100*at)
			if at == 0 {
				t.Errorf("spread %v, n = %d: no difference up to 30 points is found", sd, n)
			}
		}
	}
}
