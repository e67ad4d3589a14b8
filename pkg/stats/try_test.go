package stats

import (
	"fmt"
	"math"
	"testing"

	"grpo/internal/statstest"
)

// The levels of all tries add up to the level of one test.
func TestTryLevelsAddUp(t *testing.T) {
	sum := 0.0
	for k := 1; k <= 100000; k++ {
		if level := TryLevel(k); level <= 0 || k > 1 && level >= TryLevel(k-1) {
			t.Fatalf("the level of try %d is %v, that of the one before %v", k, level, TryLevel(k-1))
		}
		sum += TryLevel(k)
	}
	if sum >= Alpha || sum < 0.999*Alpha {
		t.Errorf("100,000 levels add up to %v", sum)
	}
}

// kept reports whether a try keeps the candidate.
func kept(candidate, incumbent []float64, k int) bool {
	lo, _ := StudentT(Differences(candidate, incumbent), 1./statstest.Problems).Interval(2 * TryLevel(k))
	return lo > 0
}

// Of 50 equal candidates against one incumbent, whose runs all tests share, any is kept in at most 5% of
// all nights; without levels of tries it is in most. The table is that of docs/automation.md:
//
//	go test ./pkg/stats -run Tries -v -simulations 16000
func TestFiftyTries(t *testing.T) {
	const tries, spread = 50, 0.03
	table := fmt.Sprintf("%% of %d nights with %d candidates: any equal one kept (own level, 5%% each, chosen by the luck so far); "+
		"one that is better by 2 sd kept as candidate 1, 10, 50", *statstest.Simulations, tries)
	for _, n := range []int{4, 8, 12} {
		var any, unadjusted, adaptive int
		var found [3]int
		for i := range *statstest.Simulations {
			r := statstest.Rand(5000+n, i)
			draw := func(mean, sd float64) []float64 {
				out := make([]float64, n)
				for s := range out {
					out[s] = mean + sd*r.NormFloat64()
				}
				return out
			}
			incumbent := draw(0.8, spread)
			var isKept, isHigher, isChosen bool
			sum := 0.0
			for k := 1; k <= tries; k++ {
				candidate := draw(0.8, spread)
				isKept = isKept || kept(candidate, incumbent, k)
				e := StudentT(Differences(candidate, incumbent), 1./statstest.Problems)
				isHigher = isHigher || e.Mean > 0 && e.P <= Alpha
				// The worst that a chooser can do who sees the answers: steady candidates while the
				// incumbent looks unlucky, noisy ones otherwise.
				sd := spread * 3
				if k > 1 && sum > 0 {
					sd = spread / 10
				}
				candidate = draw(0.8, sd)
				isChosen = isChosen || kept(candidate, incumbent, k)
				m, _, _ := MeanSD(Differences(candidate, incumbent))
				sum += m
			}
			for j, k := range []int{1, 10, 50} {
				if kept(draw(0.8+2*math.Sqrt2*spread, spread), incumbent, k) {
					found[j]++
				}
			}
			for _, c := range []struct {
				is    bool
				count *int
			}{{isKept, &any}, {isHigher, &unadjusted}, {isChosen, &adaptive}} {
				if c.is {
					*c.count++
				}
			}
		}
		percent := func(count int) float64 { return 100 * float64(count) / float64(*statstest.Simulations) }
		table += fmt.Sprintf("\n%2d seeds: %4.1f %4.1f %4.1f; %3.0f %3.0f %3.0f", n, percent(any), percent(unadjusted), percent(adaptive),
			percent(found[0]), percent(found[1]), percent(found[2]))
		if most := statstest.MaxFalsePositives(*statstest.Simulations); any > most {
			t.Errorf("%d seeds: an equal candidate is kept in %d nights, at most %d allowed", n, any, most)
		}
		if percent(any) < 0.5 || percent(unadjusted) < 30 {
			t.Errorf("%d seeds: kept in %v%% of the nights, without levels in %v%%: the simulation shows nothing", n, percent(any),
				percent(unadjusted))
		}
		// At most three points below the power of the noncentral t distribution.
		for j, k := range []int{1, 10, 50} {
			if want := 100 * pairedPower(n, 2, 2*TryLevel(k)); percent(found[j]) < want-3 {
				t.Errorf("%d seeds, try %d: the better candidate is kept in %v%%, want %v%%", n, k, percent(found[j]), want)
			}
		}
	}
	t.Log("\n" + table)
}
