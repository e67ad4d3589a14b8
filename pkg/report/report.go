package report

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
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
	for i := range a.Findings {
		if f := &a.Findings[i]; f.Kind == analysis.GainSources {
			gain := asSentence(a.sentence(f))
			lines = slices.DeleteFunc(lines, func(line string) bool { return line == gain })
		}
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
