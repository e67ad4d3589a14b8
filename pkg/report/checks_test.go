package report

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/rundir"
)

// verdicts are checks as "name:ok name:failed".
func verdicts(checks []Check) string {
	var out []string
	for _, c := range checks {
		out = append(out, c.Name+":"+map[bool]string{true: "ok", false: "failed"}[c.OK])
	}
	return strings.Join(out, " ")
}

func runResult(reward float64) *rundir.Result {
	return &rundir.Result{
		Status: rundir.StateDone, WeightsSHA256: "abcdef0123456789",
		Final: rundir.Eval{Sampled: rundir.Counts{N: 100, AnswerReward: reward}},
	}
}

func TestGateOfARun(t *testing.T) {
	half := 0.5
	diverged := runResult(0.5)
	diverged.Status, diverged.DivergedReason = rundir.StateDiverged, "the loss is NaN"
	baseline := &Baseline{"b", map[string]float64{"": 0.56}}
	for _, tt := range []struct {
		name string
		gate Gate
		r    *rundir.Result
		want string
		says string // of an error
	}{
		{"no condition", Gate{}, nil, "", ""},
		{"at the limit", Gate{Below: &half}, runResult(0.5), "fail-below:ok", ""},
		{"below", Gate{Below: &half}, runResult(0.49), "fail-below:failed", "--fail-below 0.5: the final validation reward is 0.490"},
		{"two points are not more than two", Gate{Baseline: baseline, MaxDrop: 2}, runResult(0.54), "max-drop:ok", ""},
		{"more than two points", Gate{Baseline: baseline, MaxDrop: 2}, runResult(0.53), "max-drop:failed", "3 points below 0.560 of the baseline"},
		{"better", Gate{Baseline: baseline}, runResult(0.9), "max-drop:ok", ""},
		{"weights", Gate{Weights: "abcdef01"}, runResult(0), "expect-weights:ok", ""},
		{"other weights", Gate{Weights: "abcdef02"}, runResult(0), "expect-weights:failed", "abcdef0123456789"},
		{"diverged", Gate{Below: &half, Diverged: true}, diverged, "fail-below:ok fail-on-diverged:failed", "the run diverged (the loss is NaN)"},
		{"no result", Gate{Below: &half, Diverged: true}, nil, "results:failed", "no result to check"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checks := tt.gate.Run("", tt.r)
			err := Failed(checks)
			if got := verdicts(checks); got != tt.want || checks == nil {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if (err == nil) != (tt.says == "") || !strings.Contains(fmt.Sprint(err), tt.says) {
				t.Error(err)
			}
		})
	}
}

func TestGateOfASweep(t *testing.T) {
	a := mustReport(t, reporttest.FakeSweep(2, reporttest.FakeArm{Name: "x", Run: reporttest.Around(.9, .01, 1)},
		reporttest.FakeArm{Name: "y", Run: reporttest.Around(.5, .01, 2)}))
	limit := 0.7
	gate := Gate{Below: &limit, Baseline: &Baseline{"b", map[string]float64{"x": 0.95, "p/x": 0.9, "p/y": 0.5}}, MaxDrop: 10}
	checks := gate.Sweep("", a)
	if got := verdicts(checks); got != "results:ok fail-below:ok max-drop:ok results:ok fail-below:failed max-drop:failed" {
		t.Error(got)
	}
	if c := checks[5]; c.Of != a.Arms[1].Name() || c.Value != nil || !strings.Contains(c.failure, `has no reward of it (there are: p/x, p/y, x)`) {
		t.Errorf("%+v", c)
	}
	if got := verdicts(gate.Sweep("p", a)); strings.Count(got, "max-drop:ok") != 2 {
		t.Error(got)
	}
	if checks := gate.Sweep("p", nil); verdicts(checks) != "results:failed" {
		t.Error(checks)
	}
	a.Arms[1].Arm.Control = true
	if got := verdicts(gate.Sweep("", a)); strings.Contains(got, "failed") {
		t.Errorf("a control is checked: %s", got)
	}
}

func TestReadBaseline(t *testing.T) {
	const run = `{"final": {"sampled": {"answer_reward": 0.5}}, "other": 1}`
	const sweep = `{"arms": [{"arm": {"name": "x"}, "final": {"mean": 0.25}}, {"arm": {"name": "y"}, "final": {"mean": null}}]}`
	for _, tt := range []struct {
		text string
		kind rundir.Kind
		key  string
		want float64 // -1: an error
	}{
		{run, rundir.KindRun, "", 0.5},
		{`{"dir": "d", "result": ` + run + `}`, rundir.KindRun, "", 0.5},
		{sweep, rundir.KindSweep, "x", 0.25},
		{`{"dir": "d", "analysis": ` + sweep + `}`, rundir.KindSweep, "x", 0.25},
		{`{"parts": [{"part": "lr", "results": ` + sweep + `}, {"part": "later", "results": null}]}`, rundir.KindStudy, "lr/x", 0.25},
		{`{"results": {"parts": [{"part": "lr", "results": ` + sweep + `}]}}`, rundir.KindStudy, "lr/x", 0.25},
		{sweep, rundir.KindSweep, "y", -1},
		{run, rundir.KindSweep, "", -1},
		{sweep, rundir.KindRun, "", -1},
		{strings.Replace(run, "0.5", "50", 1), rundir.KindRun, "", -1},
		{strings.Replace(run, "0.5", "null", 1), rundir.KindRun, "", -1},
		{`[1]`, rundir.KindRun, "", -1},
		{`{"final"`, rundir.KindRun, "", -1},
	} {
		file := filepath.Join(t.TempDir(), "b.json")
		expect.OK(t, os.WriteFile(file, []byte(tt.text), 0o644))
		b, err := ReadBaseline(file, tt.kind)
		got := -1.0
		if err == nil {
			if v, missing := b.of(tt.key); missing == nil {
				got = v
			}
		}
		if got != tt.want {
			t.Errorf("%s of %s as %s: %v, want %v (%v)", tt.key, tt.text, tt.kind, got, tt.want, err)
		}
	}
}
