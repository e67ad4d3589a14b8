package report

import (
	"fmt"
	"slices"
	"strings"

	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"
)

// factor is a key of a grid with its two values.
type factor struct {
	label  string
	values [2]string
}

// grid is a sweep of two keys with two values each: arms[i][j] has value i of
// the first factor and value j of the second.
type grid struct {
	factors [2]factor
	arms    [2][2]int
}

// gridOf finds the grid in a manifest: two axes with two values each, or four
// arms that set the same two keys to all combinations of two values. nil where
// there is none.
func gridOf(m *sweepdir.Manifest) *grid {
	if m.BestOver != "" || len(m.Arms) != 4 || len(m.Axes) != 0 && len(m.Axes) != 2 {
		return nil
	}
	var g grid
	var points [4][2]string
	if len(m.Axes) == 2 {
		for k, axis := range m.Axes {
			g.factors[k].label = axis.Label
			if axis.Label == "" {
				g.factors[k].label = axis.Key
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
			g.factors[k].label = lastPart(o.Key)
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
	for k := range g.factors {
		var values []string
		for _, p := range points {
			if !slices.Contains(values, p[k]) {
				values = append(values, p[k])
			}
		}
		if len(values) != 2 {
			return nil
		}
		g.factors[k].values = [2]string(values)
	}
	taken := map[[2]int]bool{}
	for i, p := range points {
		x, y := slices.Index(g.factors[0].values[:], p[0]), slices.Index(g.factors[1].values[:], p[1])
		if taken[[2]int{x, y}] {
			return nil
		}
		taken[[2]int{x, y}] = true
		g.arms[x][y] = i
	}
	return g
}

// lastPart is "loss_type" of "algorithm.loss_type".
func lastPart(key string) string { return key[strings.LastIndex(key, ".")+1:] }

// effects are the differences in the final reward, seed by seed, between the
// second and the first value of the first key: at the first value of the second
// key, then at its second value.
func (a *Analysis) effects(g *grid) (first, second []float64) {
	at := func(y int) []float64 {
		return stats.Differences(a.Arms[g.arms[1][y]].of(finalMetric).Values, a.Arms[g.arms[0][y]].of(finalMetric).Values)
	}
	return at(0), at(1)
}

// interaction is the difference of differences of a grid in the final reward,
// seed by seed: the effect of the first key (second value less first) at the
// first value of the second key, less the same at its second value.
func (a *Analysis) interaction(facts []armFacts, g *grid) Comparison {
	resolution := 0.0
	for _, f := range facts {
		resolution = max(resolution, finalMetric.resolution(&f))
	}
	x, y := g.factors[0], g.factors[1]
	first, second := a.effects(g)
	c := newComparison(stats.Differences(first, second), resolution)
	effect := func(value string) string {
		return fmt.Sprintf("%s: %s - %s, at %s %s", x.label, x.values[1], x.values[0], y.label, value)
	}
	c.Kind, c.Metric, c.a, c.b, c.family = KindInteraction, "final", -1, -1, 1
	c.A, c.B = effect(y.values[0]), effect(y.values[1])
	c.adjust(c.P)
	return c
}
