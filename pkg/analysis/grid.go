package analysis

import (
	"fmt"
	"slices"
	"strings"

	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"
)

// factor is a key of a grid with its two values.
type factor struct {
	Label  string
	Values [2]string
}

// grid is a sweep of two keys with two values each: arms[i][j] has value i of
// the first factor and value j of the second.
type grid struct {
	Factors [2]factor
	Arms    [2][2]int
}

// GridOf finds the grid in a manifest: two axes with two values each, or four
// arms that set the same two keys to all combinations of two values. nil where
// there is none.
func GridOf(m *sweepdir.Manifest) *grid {
	if m.BestOver != "" || len(m.Arms) != 4 || len(m.Axes) != 0 && len(m.Axes) != 2 {
		return nil
	}
	var g grid
	var points [4][2]string
	if len(m.Axes) == 2 {
		for k, axis := range m.Axes {
			g.Factors[k].Label = axis.Label
			if axis.Label == "" {
				g.Factors[k].Label = axis.Key
			}
		}
		for i, arm := range m.Arms {
			if len(arm.Point) != 2 {
				return nil
			}
			points[i] = [2]string(arm.Point)
		}
	} else {
		first := m.Arms[0].Set
		if len(first) != 2 {
			return nil
		}
		for k, o := range first {
			g.Factors[k].Label = lastPart(o.Key)
		}
		for i, arm := range m.Arms {
			if len(arm.Set) != 2 {
				return nil
			}
			for k, o := range first {
				j := slices.IndexFunc(arm.Set, func(p sweepdir.Override) bool { return p.Key == o.Key })
				if j < 0 {
					return nil
				}
				points[i][k] = arm.Set[j].Value
			}
		}
	}
	return g.place(points)
}

// place puts the arms where their values say; nil unless each place is taken
// once.
func (g *grid) place(points [4][2]string) *grid {
	for k := range g.Factors {
		var values []string
		for _, p := range points {
			if !slices.Contains(values, p[k]) {
				values = append(values, p[k])
			}
		}
		if len(values) != 2 {
			return nil
		}
		g.Factors[k].Values = [2]string(values)
	}
	taken := map[[2]int]bool{}
	for i, p := range points {
		x, y := slices.Index(g.Factors[0].Values[:], p[0]), slices.Index(g.Factors[1].Values[:], p[1])
		if taken[[2]int{x, y}] {
			return nil
		}
		taken[[2]int{x, y}] = true
		g.Arms[x][y] = i
	}
	return g
}

// lastPart is "loss_type" of "algorithm.loss_type".
func lastPart(key string) string { return key[strings.LastIndex(key, ".")+1:] }

// Effects are the differences in the final reward, seed by seed, between the
// second and the first value of the first key: at the first value of the second
// key, then at its second value.
func (a *Analysis) Effects(g *grid) (first, second []float64) {
	at := func(y int) []float64 {
		return stats.Differences(a.Arms[g.Arms[1][y]].Of(FinalMetric).Values, a.Arms[g.Arms[0][y]].Of(FinalMetric).Values)
	}
	return at(0), at(1)
}

// interaction is the difference of differences of a grid in the final reward,
// seed by seed: the effect of the first key (second value less first) at the
// first value of the second key, less the same at its second value.
func (a *Analysis) interaction(facts []armFacts, g *grid) Comparison {
	resolution := 0.0
	for _, f := range facts {
		resolution = max(resolution, FinalMetric.resolution(&f))
	}
	x, y := g.Factors[0], g.Factors[1]
	first, second := a.Effects(g)
	c := newComparison(stats.Differences(first, second), resolution)
	effect := func(value string) string {
		return fmt.Sprintf("%s: %s - %s, at %s %s", x.Label, x.Values[1], x.Values[0], y.Label, value)
	}
	c.Kind, c.Metric, c.ArmA, c.ArmB, c.Family = KindInteraction, "final", -1, -1, 1
	c.A, c.B = effect(y.Values[0]), effect(y.Values[1])
	c.adjust(c.P)
	return c
}
