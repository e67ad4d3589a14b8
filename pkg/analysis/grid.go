package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"
)

// A factor is a key of a grid with its two values, also as readers see them.
type factor struct {
	Label         string
	Values, Shown [2]string
}

// grid is a sweep of two keys with two values each: Arms[i][j] has value i of the
// first factor and value j of the second.
type grid struct {
	Factors [2]factor
	Arms    [2][2]int
}

// gridOf finds the grid in a manifest: two axes with two values each, or four arms
// that set the same two keys to all combinations of two values. nil where there is
// none.
func gridOf(m *sweepdir.Manifest) *grid {
	for i := range m.Arms {
		if m.StoppedAt(i) > 0 {
			return nil
		}
	}
	if m.BestOver != "" || len(m.Arms) != 4 {
		return nil
	}
	var labels, keys []string
	for _, axis := range m.Axes {
		labels = append(labels, cmp.Or(axis.Label, axis.Key))
	}
	if len(m.Axes) == 0 {
		for _, o := range m.Arms[0].Set {
			labels, keys = append(labels, lastPart(o.Key)), append(keys, o.Key)
		}
	}
	if len(labels) != 2 {
		return nil
	}
	g := &grid{Factors: [2]factor{{Label: labels[0]}, {Label: labels[1]}}}
	var values [2][]string
	taken := map[[2]int]bool{}
	for i, arm := range m.Arms {
		point := arm.Point
		if keys != nil {
			point = valuesOf(arm.Set, keys)
		}
		if len(point) != 2 {
			return nil
		}
		var at [2]int
		for k, value := range point {
			if at[k] = slices.Index(values[k], value); at[k] < 0 {
				at[k] = len(values[k])
				values[k] = append(values[k], value)
			}
		}
		if at[0] > 1 || at[1] > 1 || taken[at] {
			return nil
		}
		taken[at] = true
		g.Arms[at[0]][at[1]] = i
	}
	for k := range g.Factors {
		f := &g.Factors[k]
		f.Values, f.Shown = [2]string(values[k]), [2]string(values[k])
		for i, value := range f.Values {
			if keys == nil {
				f.Shown[i] = m.Axes[k].Shown(value)
			}
		}
	}
	return g
}

// valuesOf are the values of the keys; nil unless just these are set.
func valuesOf(set []sweepdir.Override, keys []string) []string {
	var out []string
	for _, key := range keys {
		i := slices.IndexFunc(set, func(o sweepdir.Override) bool { return o.Key == key })
		if i < 0 || len(set) != len(keys) {
			return nil
		}
		out = append(out, set[i].Value)
	}
	return out
}

// lastPart is "loss_type" of "algorithm.loss_type".
func lastPart(key string) string { return key[strings.LastIndex(key, ".")+1:] }

// effect is the difference in the final reward, seed by seed, between the second
// and the first value of the first key, at value j of the second key.
func (a *Analysis) effect(g *grid, j int) []float64 {
	second, first := &a.Arms[g.Arms[1][j]], &a.Arms[g.Arms[0][j]]
	return stats.Differences(second.Of(FinalMetric).Values, first.Of(FinalMetric).Values)
}

// interaction is the effect of the first key of a grid at the first value of the
// second key, minus the same at its second value, seed by seed.
func (a *Analysis) interaction(g *grid) Comparison {
	resolution := 0.0
	for i := range a.Arms {
		resolution = max(resolution, FinalMetric.resolution(&a.Arms[i]))
	}
	x, y := g.Factors[0], g.Factors[1]
	c := newComparison(stats.Differences(a.effect(g, 0), a.effect(g, 1)), resolution)
	effect := func(value string) string {
		return fmt.Sprintf("%s: %s - %s, at %s %s", x.Label, x.Shown[1], x.Shown[0], y.Label, value)
	}
	c.Kind, c.Metric, c.ArmA, c.ArmB, c.Family = KindInteraction, FinalMetric.Name, -1, -1, 1
	c.A, c.B = effect(y.Shown[0]), effect(y.Shown[1])
	c.adjust(c.P)
	return c
}
