package analysis

import (
	"slices"

	"grpo/internal/textutil"
	"grpo/pkg/sweepdir"
)

// A sweep's folder may come from anyone. What its manifest says goes into
// tables, sentences, figures and pages, so it is made printable once, before
// anything is made of it. Command lines (Argv) stay as they are: they are quoted
// for a shell where they are shown. The texts of runs are made printable where
// they are used.

// printableSweep is sw with a manifest and with errors that can be shown.
func printableSweep(sw *sweepdir.Sweep) *sweepdir.Sweep {
	out := *sw
	m := &out.Manifest
	for _, s := range []*string{&m.Command, &m.Name, &m.Title, &m.Question, &m.Reference, &m.BestOver} {
		*s = textutil.Printable(*s, 0)
	}
	m.Base = textutil.Text(m.Base)
	m.Notes, m.Varied = printableAll(m.Notes), printableAll(m.Varied)
	m.Fixed = printableOverrides(m.Fixed)
	m.Axes = slices.Clone(m.Axes)
	for i := range m.Axes {
		x := &m.Axes[i]
		x.Key, x.Label, x.Short = textutil.Printable(x.Key, 0), textutil.Printable(x.Label, 0), textutil.Printable(x.Short, 0)
		x.Values = printableAll(x.Values)
	}
	m.Arms = slices.Clone(m.Arms)
	for i := range m.Arms {
		a := &m.Arms[i]
		a.Name, a.Label = textutil.Printable(a.Name, 0), textutil.Printable(a.Label, 0)
		a.Set, a.Point = printableOverrides(a.Set), printableAll(a.Point)
	}
	out.Runs = slices.Clone(sw.Runs)
	for i := range out.Runs {
		r := &out.Runs[i]
		r.State, r.Error = textutil.Printable(r.State, 0), textutil.Printable(r.Error, 0)
	}
	return &out
}

// PrintableStudy is [printableSweep] for a study.
func PrintableStudy(st sweepdir.Study) sweepdir.Study {
	st.Name, st.Title = textutil.Printable(st.Name, 0), textutil.Printable(st.Title, 0)
	st.Parts = slices.Clone(st.Parts)
	for i := range st.Parts {
		p := &st.Parts[i]
		p.Name, p.Question, p.Chosen = textutil.Printable(p.Name, 0), textutil.Printable(p.Question, 0), textutil.Printable(p.Chosen, 0)
		p.Set = printableOverrides(p.Set)
	}
	return st
}

func printableAll(list []string) []string {
	list = slices.Clone(list)
	for i, s := range list {
		list[i] = textutil.Printable(s, 0)
	}
	return list
}

func printableOverrides(list []sweepdir.Override) []sweepdir.Override {
	list = slices.Clone(list)
	for i, o := range list {
		list[i] = sweepdir.Override{Key: textutil.Printable(o.Key, 0), Value: textutil.Printable(o.Value, 0)}
	}
	return list
}
