package analysis

import (
	"testing"

	"grpo/pkg/sweepdir"
)

func mustAnalyse(t testing.TB, sw *sweepdir.Sweep) *Analysis {
	t.Helper()
	a, err := Analyse(sw)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
