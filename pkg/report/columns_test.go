package report

import (
	"math"
	"testing"

	"grpo/pkg/analysis"
)

func TestSigned(t *testing.T) {
	nan := math.NaN()
	for want, s := range map[string]analysis.Summary{
		"+0.250 [0.000, +10.000]":   {Mean: 0.25, Lo: -0.0001, Hi: 10},
		"-10.000 [-20.000, +0.001]": {Mean: -10, Lo: -20, Hi: 0.001},
		"0.000":                     {Mean: 0.0004, Lo: nan, Hi: nan},
		analysis.Absent:             {Mean: nan},
	} {
		if got := signed(s); got != want {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
}
