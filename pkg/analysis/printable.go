package analysis

import (
	"slices"

	"grpo/internal/textutil"
	"grpo/pkg/sweepdir"
)

// A sweep's folder may come from anyone. What its manifest says goes into tables,
// sentences, figures and pages, so it is made printable once, before the analysis.
// Command lines (Argv) stay as they are: they are quoted for a shell where they are
// shown. The strings of runs are made printable where they are used.

// printable replaces strings by what may be shown of them.
func printable(all ...*string) {
	for _, s := range all {
		*s = textutil.Printable(*s, 0)
	}
}

// printableSweep is sw with a manifest and with errors that can be shown.
func printableSweep(sw *sweepdir.Sweep) *sweepdir.Sweep {
	out := *sw
	m := &out.Manifest
	printable(&m.Command, &m.Name, &m.Title, &m.Question, &m.Reference, &m.BestOver)
	m.Base = textutil.Text(m.Base)
	m.Notes, m.Varied, m.Fixed = printableAll(m.Notes), printableAll(m.Varied), printableOverrides(m.Fixed)
	m.Axes, m.Arms, out.Runs = slices.Clone(m.Axes), slices.Clone(m.Arms), slices.Clone(sw.Runs)
	for i := range m.Axes {
		x := &m.Axes[i]
		printable(&x.Key, &x.Label, &x.Short)
		x.Values, x.Written = printableAll(x.Values), printableAll(x.Written)
	}
	for i := range m.Arms {
		a := &m.Arms[i]
		printable(&a.Name, &a.Label)
		a.Set, a.Point = printableOverrides(a.Set), printableAll(a.Point)
	}
	for i := range out.Runs {
		printable(&out.Runs[i].State, &out.Runs[i].Error)
	}
	return &out
}

// PrintableStudy is st with strings that can be shown.
func PrintableStudy(st sweepdir.Study) sweepdir.Study {
	printable(&st.Name, &st.Title)
	st.Parts = slices.Clone(st.Parts)
	for i := range st.Parts {
		p := &st.Parts[i]
		printable(&p.Name, &p.Question, &p.Chosen)
		p.Set = printableOverrides(p.Set)
	}
	return st
}

func printableAll(list []string) []string {
	list = slices.Clone(list)
	for i := range list {
		printable(&list[i])
	}
	return list
}

func printableOverrides(list []sweepdir.Override) []sweepdir.Override {
	list = slices.Clone(list)
	for i := range list {
		printable(&list[i].Key, &list[i].Value)
	}
	return list
}
