package sweepdir

import (
	"path/filepath"
	"slices"
	"strings"

	"grpo/internal/textutil"
)

// Arms are the names of the arms of runs by their folders, by the folder of their sweep. Each manifest
// is read once.
type Arms map[string]map[string]string

// Of is the name of the arm whose run is in the folder dir; empty for a run outside of a sweep.
func (a Arms) Of(dir string) string {
	path, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	sweep := filepath.Dir(filepath.Dir(path))
	names, known := a[sweep]
	if !known {
		names = map[string]string{}
		m, _ := ReadManifest(sweep) // no runs if it can't be read
		for _, e := range m.Runs {
			names[e.Path(sweep)] = m.Arms[e.Arm].Name
		}
		a[sweep] = names
	}
	return names[path]
}

// Shown is a value of the axis as readers see it: as it was typed, and else in the notation of the
// others: 1e-4, not 0.0001, next to 1e-5.
func (x Axis) Shown(value string) string {
	i := slices.Index(x.Values, value)
	switch {
	case i < 0:
		return textutil.Alike([]string{value})[0]
	case len(x.Written) == len(x.Values):
		return x.Written[i]
	}
	return textutil.Alike(x.Values)[i]
}

// LabelOf is the label of an arm with the values of the axes as [Axis.Shown] writes them.
func (m *Manifest) LabelOf(arm int) string {
	return m.shown(arm, m.Arms[arm].Label, ", ", func(x Axis, value string) string { return x.Label + " " + value })
}

// NameOf is the name of an arm in the same way. Files and other programs get the name itself.
func (m *Manifest) NameOf(arm int) string {
	return m.shown(arm, m.Arms[arm].Name, ",", func(x Axis, value string) string { return x.Short + "=" + value })
}

// shown replaces the values at the end of a text, where part is a value with its axis.
func (m *Manifest) shown(arm int, text, sep string, part func(Axis, string) string) string {
	point := m.Arms[arm].Point
	var stored, shown []string
	for i, value := range point[:min(len(point), len(m.Axes))] {
		stored = append(stored, part(m.Axes[i], value))
		shown = append(shown, part(m.Axes[i], m.Axes[i].Shown(value)))
	}
	if own, ok := strings.CutSuffix(text, strings.Join(stored, sep)); ok {
		return own + strings.Join(shown, sep)
	}
	return text
}
