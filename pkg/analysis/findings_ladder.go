package analysis

import (
	"cmp"
	"slices"
	"strconv"

	"grpo/pkg/stats"
)

// DifficultyKey is the key whose sweep is read as a ladder: what is the highest difficulty at which training converges?
const DifficultyKey = "data.difficulty"

// ConvergedReward is the final validation reward from which on a seed of a ladder counts as converged.
const ConvergedReward = 0.9

// Rung is a difficulty of a ladder with its arm.
type Rung struct {
	Arm, Difficulty int
	Converged, Of   int // seeds that end at ConvergedReward or more, of those with a result
}

// Ladder are the difficulties of a sweep over these alone, from the lowest to the highest; nil for other sweeps.
func (a *Analysis) Ladder() []Rung {
	m := &a.Sweep.Manifest
	if len(m.Axes) != 1 || m.Axes[0].Key != DifficultyKey || len(m.Arms) < 2 {
		return nil
	}
	var out []Rung
	for i := range a.Arms {
		point := a.Arms[i].Arm.Point
		if len(point) != 1 {
			return nil
		}
		difficulty, err := strconv.Atoi(point[0])
		if err != nil {
			return nil
		}
		rung := Rung{Arm: i, Difficulty: difficulty}
		for _, reward := range stats.Finite(a.Arms[i].Of(FinalMetric).Values) {
			rung.Of++
			if reward >= ConvergedReward {
				rung.Converged++
			}
		}
		out = append(out, rung)
	}
	slices.SortFunc(out, func(x, y Rung) int { return cmp.Compare(x.Difficulty, y.Difficulty) })
	return out
}

// ladder answers a sweep over difficulties: the highest one that converges in most seeds. Its arms have different
// problems, so none of them is the best.
func (a *Analysis) ladder() Finding {
	f := Finding{Kind: LadderTop, Metric: FinalMetric.Name}
	for _, r := range a.Ladder() {
		part := a.armFinding(RungConverged, r.Arm, FinalMetric)
		part.Count, part.Of, part.Values = r.Converged, r.Of, []string{strconv.Itoa(r.Difficulty)}
		if 2*r.Converged > r.Of {
			f.Values = part.Values
		}
		f.Parts = append(f.Parts, part)
	}
	return f
}
