package report

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
)

// facts is the line below a page's title: model, parameters, problems, machine, date and version, of
// all runs. A part that no run has is left out; different values are listed.
func facts(runs []*rundir.Run) []string {
	var out []string
	for _, part := range []func(*rundir.Run) string{
		modelOf, parametersOf, problemsOf, machineOf, dateOf, versionOf,
	} {
		const most = 3
		values := analysis.Unique(runs, part)
		slices.Sort(values)
		switch n := len(values); {
		case n > most:
			out = append(out, fmt.Sprintf("%s to %s (%d different)", values[0], values[n-1], n))
		case n > 0:
			out = append(out, strings.Join(values, " / "))
		}
	}
	return out
}

func modelOf(r *rundir.Run) string {
	info, err := analysis.ReadInfo(r)
	m := info.Model
	if err != nil || m.Init == "" {
		return ""
	}
	out := fmt.Sprintf("TinyLM, %d layers of width %d", m.Layers, m.Width)
	if m.Init != "base" && m.Init != "random" {
		out = path.Base(filepath.ToSlash(m.Init))
	} else if m.Init == "random" {
		out += ", random weights"
	}
	if n := info.Train.LoRA.Rank; n > 0 {
		out += fmt.Sprintf(" with LoRA of rank %d", n)
	}
	return out
}

func parametersOf(r *rundir.Run) string {
	if r.Result == nil || r.Result.Parameters == 0 {
		return ""
	}
	return thousands(r.Result.Parameters) + " trained parameters"
}

// problemsOf is "generated problems (1,024 validation, 512 unseen facts, 1,024 test)".
func problemsOf(r *rundir.Run) string {
	info, err := analysis.ReadInfo(r)
	if err != nil || info.Data.Source == "" {
		return ""
	}
	var sets []string
	for _, set := range analysis.SetsOf(r) {
		sets = append(sets, thousands(analysis.AnyEvaluation(r, set).Problems())+" "+splitName(set))
	}
	out := info.Data.Source + " problems"
	if len(sets) > 0 {
		out += " (" + strings.Join(sets, ", ") + ")"
	}
	return out
}

var machineOf = analysis.OfMeta(func(m *rundir.Meta) string {
	parts := []string{strings.Trim(m.OS+"/"+m.Arch, "/"), m.Kernel, m.Device}
	if m.Threads > 0 {
		parts = append(parts, textutil.Count(m.Threads, "thread")+" a run")
	}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	return textutil.Printable(strings.Join(parts, ", "), 0)
})

// dateOf is the day on which the run was last started, in UTC.
var dateOf = analysis.OfMeta(func(m *rundir.Meta) string {
	day, _, _ := strings.Cut(m.Started, "T")
	return textutil.Printable(day, 0)
})

var versionOf = analysis.OfMeta(func(m *rundir.Meta) string {
	if m.Version == "" {
		return ""
	}
	return textutil.Printable("grpo "+m.Version, 0)
})

// thousands writes a count with commas: 62,820.
func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
