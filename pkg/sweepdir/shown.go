package sweepdir

import (
	"slices"
	"strings"

	"grpo/internal/words"
)

// Shown is a value of the axis as readers see it: as it was typed, and else in the notation of the
// others: 1e-4, not 0.0001, next to 1e-5.
func (x Axis) Shown(value string) string {
	i := slices.Index(x.Values, value)
	switch {
	case i < 0:
		return words.Alike([]string{value})[0]
	case len(x.Written) == len(x.Values):
		return x.Written[i]
	}
	return words.Alike(x.Values)[i]
}

// LabelOf is the label of an arm with the values of the axes as [Axis.Shown] writes them.
func (m *Manifest) LabelOf(arm int) string {
	a := m.Arms[arm]
	var stored, shown []string
	for i, value := range a.Point[:min(len(a.Point), len(m.Axes))] {
		stored = append(stored, m.Axes[i].Label+" "+value)
		shown = append(shown, m.Axes[i].Label+" "+m.Axes[i].Shown(value))
	}
	if own, ok := strings.CutSuffix(a.Label, strings.Join(stored, ", ")); ok {
		return own + strings.Join(shown, ", ")
	}
	return a.Label
}
