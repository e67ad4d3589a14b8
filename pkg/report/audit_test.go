package report

import (
	"math"
	"testing"

	"grpo/pkg/analysis"
)

// Numbers of problems say on which side of 0 they are, have no negative zero, and are absent without an interval.
func TestAuditProblems(t *testing.T) {
	nan := math.NaN()
	for _, tt := range []struct {
		i              analysis.Interval
		problems, cell string
	}{
		{analysis.Interval{Mean: 4, Lo: -3.2, Hi: 9.4}, "-3 to 9 of 128", "4.0 [-3.2, 9.4] of 128: 5.0 observed, 1.0 by chance"},
		{analysis.Interval{Mean: 4, Lo: .3, Hi: 9.4}, "0.3 to 9 of 128", "4.0 [0.3, 9.4] of 128: 5.0 observed, 1.0 by chance"},
		{analysis.Interval{Mean: -.01, Lo: -.4, Hi: 0}, "-0.4 to 0 of 128", "0.0 [-0.4, 0.0] of 128: 5.0 observed, 1.0 by chance"},
		{analysis.Interval{Mean: 1, Lo: -.01, Hi: 3}, "0.0 to 3 of 128", "1.0 [0.0, 3.0] of 128: 5.0 observed, 1.0 by chance"},
		{analysis.Interval{Mean: 1, Lo: nan, Hi: nan}, "n/a", "1.0 of 128: 5.0 observed, 1.0 by chance"},
	} {
		a := &Audit{}
		a.Problems, a.New = 128, analysis.AuditSolved{Beyond: tt.i, Observed: 5, ByChance: 1}
		if got := a.problems(tt.i); got != tt.problems {
			t.Errorf("%+v: %s, want %s", tt.i, got, tt.problems)
		}
		if a.solved(); a.Answers[0].Result != tt.cell {
			t.Errorf("%+v: %s, want %s", tt.i, a.Answers[0].Result, tt.cell)
		}
	}
}
