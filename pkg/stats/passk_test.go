package stats

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"pgregory.net/rapid"
)

// TestGoldenPassAt compares with testdata/passk.py, which enumerates the subsets.
func TestGoldenPassAt(t *testing.T) {
	var cases []struct {
		N, K           int
		Votes          []int
		Pass, Majority float64
	}
	data, err := os.ReadFile("testdata/passk.json")
	if err == nil {
		err = json.Unmarshal(data, &cases)
	}
	if err != nil || len(cases) != 200 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for i, c := range cases {
		if got := PassAt(c.N, c.Votes[0], c.K); math.Abs(got-c.Pass) > 1e-12 {
			t.Errorf("case %d: pass@%d of %v among %d is %v, want %v", i, c.K, c.Votes, c.N, got, c.Pass)
		}
		if got := MajorityAt(c.N, c.Votes, 0, c.K); math.Abs(got-c.Majority) > 1e-12 {
			t.Errorf("case %d: maj@%d of %v among %d is %v, want %v", i, c.K, c.Votes, c.N, got, c.Majority)
		}
	}
}

func TestPassAtProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 200).Draw(t, "n")
		c := rapid.IntRange(0, n).Draw(t, "c")
		near := func(what string, got, want float64) {
			if math.Abs(got-want) > 1e-9 {
				t.Fatalf("%s: %v, want %v", what, got, want)
			}
		}
		near("pass@1 is the accuracy", PassAt(n, c, 1), float64(c)/float64(n))
		near("no right one", PassAt(n, 0, n), 0)
		near("all right", PassAt(n, n, 1), 1)
		near("k = n", PassAt(n, c, n), float64(min(c, 1)))
		last := 0.0
		for k := 1; k <= n; k++ {
			p := PassAt(n, c, k)
			if p < last-1e-12 || p > 1 {
				t.Fatalf("pass@%d of %d among %d is %v after %v", k, c, n, p, last)
			}
			if biased := 1 - math.Pow(1-float64(c)/float64(n), float64(k)); biased > p+1e-9 {
				t.Fatalf("k = %d: with replacement %v, above %v", k, biased, p)
			}
			last = p
		}
	})
}

func TestMajorityAtProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		votes := rapid.SliceOfN(rapid.IntRange(0, 12), 1, 8).Draw(t, "votes")
		n := rapid.IntRange(0, 12).Draw(t, "silent")
		for _, v := range votes {
			n += v
		}
		if n == 0 {
			return
		}
		k := rapid.IntRange(1, n).Draw(t, "k")
		// Over all answers the accuracies are shares of the subsets in which anybody votes.
		sum, silent := 0.0, n
		for j, v := range votes {
			sum += MajorityAt(n, votes, j, k)
			silent -= v
		}
		if want := 1 - Choose(silent, k)/Choose(n, k); math.Abs(sum-want) > 1e-9 {
			t.Fatalf("the accuracies of all answers add up to %v, want %v", sum, want)
		}
		if got, want := MajorityAt(n, votes, 0, 1), float64(votes[0])/float64(n); math.Abs(got-want) > 1e-12 {
			t.Fatalf("maj@1 is %v, the accuracy %v", got, want)
		}
		if got := MajorityAt(n, votes, -1, k); got != 0 {
			t.Fatalf("nobody gave the right answer: %v", got)
		}
	})
}

// Several k at once are those one by one, also where numbers of subsets are near the largest float64.
func TestMajorityAtEach(t *testing.T) {
	ks := []int{1, 2, 3, 50, 999, 1000}
	votes := []int{300, 290, 310, 1, 2}
	for i, got := range MajorityAtEach(1000, votes, 0, ks) {
		if want := MajorityAt(1000, votes, 0, ks[i]); got != want || !(got >= 0 && got <= 1) {
			t.Errorf("k = %d: %v, alone %v", ks[i], got, want)
		}
	}
}

// The interval contains the mean, is inside [0, 1], and has a width without spread, too.
func TestOverProblems(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.IntRange(1, 64).Draw(t, "samples")
		x := make([]float64, rapid.IntRange(1, 30).Draw(t, "problems"))
		for i := range x {
			x[i] = float64(rapid.IntRange(0, samples).Draw(t, "right")) / float64(samples)
			if samples%3 == 0 {
				x[i] = x[0]
			}
		}
		mean, lo, hi := OverProblems(x)
		if !(0 <= lo && lo <= mean && mean <= hi && hi <= 1 && lo < hi) {
			t.Fatalf("%v [%v, %v]", mean, lo, hi)
		}
	})
	if mean, lo, hi := OverProblems([]float64{0, 0, 0, 0}); mean != 0 || lo != 0 || hi < 0.4 || hi > 0.6 {
		t.Errorf("nothing solved: %v [%v, %v]", mean, lo, hi)
	}
}
