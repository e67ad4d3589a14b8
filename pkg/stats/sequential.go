package stats

import "slices"

// Look is a planned analysis of a sweep: when every arm that is still in it has Seeds seeds,
// its comparisons are tested at Level.
type Look struct {
	Seeds int     `json:"seeds"`
	Level float64 `json:"level"`
}

// PlannedLooks are the looks of a plan that begins with from seeds and ends with at most to: the
// seeds double from look to look. [LooksAt] has their levels.
func PlannedLooks(from, to int) []Look {
	return LooksAt(Doubled(from, to))
}

// Doubled are from, twice from and so on below to, and to.
func Doubled(from, to int) (out []int) {
	for n := from; n < to; n *= 2 {
		out = append(out, n)
	}
	return append(out, to)
}

// LooksAt are looks at these numbers of seeds. The first gets half of [Alpha], each later one half of
// what is left, and the last one all of it. The levels add up to Alpha, so that by Bonferroni's
// inequality any false claim at any look has a probability of at most Alpha.
func LooksAt(seeds []int) []Look {
	looks, left := make([]Look, len(seeds)), Alpha
	for k, n := range seeds {
		if k < len(seeds)-1 {
			left /= 2
		}
		looks[k] = Look{n, left}
	}
	return looks
}

// Sequential returns the p values of paired comparisons of arms over planned looks:
//
//	p = min over looks k of adjusted(k)·Alpha/Level(k), at most 1
//
// where adjusted(k) is [Ordered] over the differences of the first Seeds(k) seeds, with [StudentT]'s
// resolution. A pair is two indexes of arms; an arm has a value a seed, and may have fewer than the
// others, or NaN. A comparison without a value in either arm beyond the look before it has p 1 and
// stays in the family, as do all comparisons of an arm that is out: in a race, an arm that another
// has beaten at a look before. At a look whose comparisons do not have the same seeds the weight is 0.
func Sequential(arms [][]float64, pairs [][2]int, race bool, looks []Look, weight, resolution float64) []float64 {
	out := make([]float64, len(pairs))
	for j := range out {
		out[j] = 1
	}
	isOut := make([]bool, len(arms))
	before := 0
	for _, look := range looks {
		p, q := make([]float64, len(pairs)), make([]float64, len(pairs))
		means := make([]float64, len(pairs))
		own := weight
		var seeds []int // that the first comparison has
		for j, pair := range pairs {
			a, b := arms[pair[0]], arms[pair[1]]
			p[j], q[j] = 1, -1
			d := Differences(a[:min(look.Seeds, len(a))], b[:min(look.Seeds, len(b))])
			if isOut[pair[0]] || isOut[pair[1]] || len(Finite(d[min(before, len(d)):])) == 0 {
				continue
			}
			if e := StudentT(d, resolution); IsFinite(e.P) {
				p[j], q[j], means[j] = e.P, MeanSquare(d), e.Mean
				has := FiniteAt(d)
				if seeds == nil {
					seeds = has
				} else if !slices.Equal(seeds, has) {
					own = 0
				}
			}
		}
		beaten := slices.Clone(isOut)
		for j, adjusted := range Ordered(p, q, own) {
			out[j] = min(out[j], adjusted*Alpha/look.Level)
			switch {
			case !race || adjusted > look.Level:
			case means[j] > 0:
				beaten[pairs[j][1]] = true
			case means[j] < 0:
				beaten[pairs[j][0]] = true
			}
		}
		isOut, before = beaten, look.Seeds
	}
	return out
}

// evenTries is about the number of tries for which [TryLevel] falls slowly.
const evenTries = 10

// TryLevel is the level of the k-th try, from 1, of any number of tries against one incumbent:
//
//	Alpha·m/((k+m-1)·(k+m)),    m = 10
//
// A term is Alpha·(m/(k+m-1) - m/(k+m)), so the levels of all tries add up to Alpha, and by
// Bonferroni's inequality the probability that any try errs is at most Alpha, however the tries depend
// on each other. The first level is Alpha/11, the tenth Alpha/38, the fiftieth Alpha/354.
func TryLevel(k int) float64 {
	return Alpha * evenTries / (float64(k+evenTries-1) * float64(k+evenTries))
}
