package plots

import (
	"testing"

	"grpo/pkg/analysis"
	"grpo/pkg/sweepdir"
)

func mustAnalyse(t testing.TB, sw *sweepdir.Sweep) *analysis.Analysis {
	t.Helper()
	a, err := analysis.Analyse(sw)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
