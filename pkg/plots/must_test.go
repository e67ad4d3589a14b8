package plots

import (
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/analysis"
	"grpo/pkg/sweepdir"
)

func mustAnalyse(t testing.TB, sw *sweepdir.Sweep) *analysis.Analysis {
	t.Helper()
	a, err := analysis.Analyse(sw)
	expect.OK(t, err)
	return a
}
