package report

import (
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/rundir"
)

// pass@k and maj@k are in the tables and files of a sweep whose runs have them, and in no other.
func TestAtKInResults(t *testing.T) {
	files := func(often bool) (csv, markdown, jsonText string) {
		sw := reporttest.DrawnSweep(3, nil, reporttest.ManyArms(2)...)
		for i := range sw.Runs {
			if r := sw.Runs[i].Run.Result; often {
				r.Initial.PassAt = []rundir.AtK{{K: 4, Mean: 0.5, Lo: 0.4, Hi: 0.6}}
				r.Final.PassAt = []rundir.AtK{{K: 4, Mean: 0.75 + 0.01*float64(i%3), Lo: 0.6, Hi: 0.9}}
				r.Final.MajorityAt = []rundir.AtK{{K: 4, Mean: 0.25, Lo: 0.2, Hi: 0.3}}
			}
		}
		a := New(mustAnalyse(t, sw))
		table := a.resultsTable()
		text, err := rundir.Marshal(a.Results())
		expect.OK(t, err)
		return string(table.CSV()), a.Markdown(), string(text)
	}
	csv, markdown, text := files(true)
	for _, want := range []string{",pass_at_4_mean,", ",majority_at_4_lo,", ",initial_pass_at_4_hi,"} {
		if !strings.Contains(csv, want) {
			t.Errorf("results.csv has no %s", want)
		}
	}
	if strings.Contains(csv, "initial_majority_at") {
		t.Error("results.csv has a column that no run fills")
	}
	if !strings.Contains(markdown, "pass@k and maj@k") || !strings.Contains(markdown, "0.760 [0.735, 0.785]") {
		t.Errorf("results.md: %s", markdown)
	}
	if !strings.Contains(text, `"at_k":`) || !strings.Contains(text, `"initial_pass_at_4":`) {
		t.Error("results.json has no at_k")
	}
	csv, markdown, text = files(false)
	if strings.Contains(csv+markdown+text, "pass_at") || strings.Contains(markdown, "pass@k") {
		t.Error("a sweep without pass@k has a part about it")
	}
}
