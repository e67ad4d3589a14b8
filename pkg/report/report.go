// Package report writes what package analysis finds: tables as text, Markdown, CSV
// and HTML ([Table]), the sentences of the verdict, results.json, and the HTML page
// of a sweep or a study. It reads run folders and knows nothing of how a run is
// made. The same input gives the same bytes.
package report

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// Report is an analysis with its verdict.
type Report struct {
	*analysis.Analysis
	Verdict Verdict `json:"verdict"`
}

// MarshalJSON writes the fields of the analysis, then the verdict.
func (a *Report) MarshalJSON() ([]byte, error) {
	data, err := rundir.Marshal(a.Analysis)
	if err != nil {
		return nil, err
	}
	verdict, err := rundir.Marshal(a.Verdict)
	return fmt.Appendf(bytes.TrimSuffix(data, []byte("}")), `,"verdict":%s}`, verdict), err
}

// Verdict is the findings of an analysis as sentences.
type Verdict struct {
	Question string   `json:"question"`
	Headline string   `json:"headline"` // one sentence
	Lines    []string `json:"lines"`    // on the validation reward, then on other metrics with a clear trend
	Caveats  []string `json:"caveats"`  // what the numbers are, what was held fixed, the manifest's notes
	Missing  []string `json:"missing"`  // what an unfinished sweep lacks
}

// New puts an analysis into words: its findings and its comparisons.
func New(a *analysis.Analysis) *Report {
	inner := *a
	inner.Comparisons = slices.Clone(a.Comparisons)
	r := &Report{Analysis: &inner}
	for i := range inner.Comparisons {
		c := &inner.Comparisons[i]
		c.Text = r.text(c)
	}
	v := Verdict{Lines: []string{}, Caveats: []string{}, Missing: []string{}}
	v.Question = a.Sweep.Manifest.Question
	for i := range a.Findings {
		f := &a.Findings[i]
		switch s := r.sentence(f); f.Section {
		case analysis.Headline:
			v.Headline += s
		case analysis.Line:
			v.Lines = append(v.Lines, asSentence(s))
		case analysis.Caveat:
			v.Caveats = append(v.Caveats, asSentence(s))
		case analysis.Missing:
			v.Missing = append(v.Missing, asSentence(s))
		}
	}
	v.Headline = asSentence(v.Headline)
	r.Verdict = v
	return r
}

// otherLines are the lines of the verdict without the gains, which the table of gains has.
func (a *Report) otherLines() []string {
	lines := slices.Clone(a.Verdict.Lines)
	for _, f := range a.FindingsOf(analysis.GainSources) {
		gain := asSentence(a.sentence(f))
		lines = slices.DeleteFunc(lines, func(line string) bool { return line == gain })
	}
	return lines
}

// text is the sentence of a comparison, without its full stop.
func (a *Report) text(c *analysis.Comparison) string {
	f := a.FindingOf(c)
	if f.Kind == analysis.Difference {
		return metricLabel(c.Metric) + ": " + a.sentence(&f)
	}
	return capital(a.sentence(&f))
}

// asSentence gives a sentence its capital and its full stop.
func asSentence(s string) string { return capital(strings.TrimSuffix(s, ".") + ".") }

func capital(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:]
}

// BestValue is the value on an axis (by its full key) of the best arm, which a later
// sweep may take over, and why it is that one. It is an error when there is no best
// arm, or when seeds of it are missing: means over different seeds are no ground for a
// choice. Test problems have no say.
func (a *Report) BestValue(key string) (value, why string, err error) {
	m := &a.Sweep.Manifest
	k := slices.IndexFunc(m.Axes, func(x sweepdir.Axis) bool { return x.Key == key })
	switch {
	case k < 0:
		return "", "", fmt.Errorf("%s is not an axis of sweep %s", key, m.Name)
	case a.Finished() == 0:
		return "", "", fmt.Errorf("no results yet (0 of %s finished)", textutil.Count(a.Runs(), "run"))
	case a.Best < 0 && a.AllDiverged():
		return "", "", fmt.Errorf("no value of %s is left: each diverged in at least one seed", m.Axes[k].Label)
	case a.Best < 0:
		return "", "", fmt.Errorf("no value of %s with a result can be chosen", m.Axes[k].Label)
	}
	best := a.Arms[a.Best]
	final := best.Of(analysis.FinalMetric)
	if lacks := best.Trained() - final.N; lacks > 0 {
		return "", "", fmt.Errorf("the best so far, %s, lacks %d of %s",
			best.Name(), lacks, textutil.Count(best.Trained(), "seed"))
	}
	why = fmt.Sprintf("the best mean final validation reward of part %s, %s, %s",
		m.Name, analysis.Reward(final), textutil.Count(final.N, "seed"))
	var diverged, short []string
	for _, r := range a.Arms {
		switch {
		case r.Diverged > 0:
			diverged = append(diverged, m.Axes[k].Shown(r.Arm.Point[k]))
		case r.Of(analysis.FinalMetric).N < r.Trained():
			short = append(short, m.Axes[k].Shown(r.Arm.Point[k]))
		}
	}
	if len(diverged) > 0 {
		why += "; " + listed(diverged) + " diverged and could not be chosen"
	}
	if len(short) > 0 {
		why += "; seeds of " + listed(short) + " were missing then"
	}
	return best.Arm.Point[k], why, nil
}
