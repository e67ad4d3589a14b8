package report

import (
	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
)

// Report is an analysis with its verdict in words.
type Report struct {
	*analysis.Analysis
	Verdict Verdict
}

// Verdict is what the data can and can't carry, in words.
type Verdict struct {
	Question string   `json:"question"`
	Headline string   `json:"headline"` // one sentence
	Lines    []string `json:"lines"`    // on the validation reward, then on other figures with a clear trend
	Caveats  []string `json:"caveats"`  // what was held fixed, rates tuned for another arm, the manifest's notes
	Missing  []string `json:"missing"`  // what a half-finished sweep lacks
}

// New puts an analysis into words.
func New(a *analysis.Analysis) *Report {
	r := &Report{Analysis: a}
	r.Verdict = r.verdict()
	return r
}

// comparisonResults are the comparisons with their sentences.
func (a *Report) comparisonResults() []analysis.Comparison {
	out := append([]analysis.Comparison{}, a.Comparisons...)
	for i := range out {
		out[i].Text = a.text(&out[i])
	}
	return out
}

// text is the sentence of a comparison.
func (a *Report) text(c *analysis.Comparison) string {
	if c.Kind == analysis.KindInteraction {
		return a.interactionText(c)
	}
	return a.comparisonText(c)
}

// MarshalJSON writes the analysis and the verdict next to each other.
func (a *Report) MarshalJSON() ([]byte, error) {
	return rundir.Marshal(struct {
		Arms           []analysis.ArmResult  `json:"arms"`
		Best           int                   `json:"best"`
		Comparisons    []analysis.Comparison `json:"comparisons"`
		Verdict        Verdict               `json:"verdict"`
		Base           float64               `json:"base"`
		Majority       float64               `json:"majority"`
		MajorityAnswer string                `json:"majority_answer"`
	}{a.Arms, a.Best, a.comparisonResults(), a.Verdict, a.Base, a.Majority, a.MajorityAnswer})
}
