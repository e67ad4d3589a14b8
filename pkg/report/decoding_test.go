package report

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"grpo/internal/reporttest"
	"grpo/pkg/analysis"

	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// configured gives every run of an arm a configuration, in the manifest and in its
// folder.
func configured(sw *sweepdir.Sweep, of func(arm int) string) *sweepdir.Sweep {
	for i, e := range sw.Manifest.Runs {
		sw.Manifest.Runs[i].Config = of(e.Arm)
	}
	for i, s := range sw.Runs {
		sw.Runs[i].Entry.Config = of(s.Arm)
		if s.Run != nil {
			s.Run.Config = []byte(of(s.Arm))
		}
	}
	return sw
}

func TestEvalSettings(t *testing.T) {
	for _, test := range []struct{ config, want string }{
		{"eval: {temperature: 1, top_p: 1, top_k: 0, min_tokens: 0, max_tokens: 64}\nrollout: {sampling_temperature: 1.3}\n", "temperature 1, at most 64 tokens"},
		{"eval: {temperature: 0.7, top_p: 0.9, top_k: 5, min_tokens: 2, max_tokens: 32}\n", "temperature 0.7, top-p 0.9, top-k 5, at least 2 tokens, at most 32 tokens"},
		{"eval: {greedy: true}\nrollout: {sampling_temperature: 1.3, sampling_top_p: 1, sampling_max_tokens: 64}\n", "temperature 1.3, at most 64 tokens"}, // of the first release
		{"seed: 1\n", ""},
		{"]: {", ""},
	} {
		if got := analysis.EvalSettings([]byte(test.config)); got != test.want {
			t.Errorf("%q: %q, want %q", test.config, got, test.want)
		}
	}
}

// TestClipFractionOfALossWithoutClip: off-policy is not on-policy because the loss
// does not clip.
func TestClipFractionOfALossWithoutClip(t *testing.T) {
	m := rundir.Metrics{Step: 1}
	if s := lastMetrics(&rundir.Run{Metrics: []rundir.Metrics{m}}); !strings.Contains(s, "clip fraction n/a (on-policy)") {
		t.Error(s)
	}
	ratio := 1.01
	m.RatioMean = &ratio
	if s := lastMetrics(&rundir.Run{Metrics: []rundir.Metrics{m}}); !strings.Contains(s, "clip fraction n/a (the loss has no clip)") {
		t.Error(s)
	}
	m.ClipFraction, m.SamplerDiff = &ratio, &ratio
	if s := lastMetrics(&rundir.Run{Metrics: []rundir.Metrics{m}}); strings.Contains(s, "n/a") {
		t.Error(s)
	}
}

// temperatures is a sweep over the sampling temperature: what the first release
// made of it with eval empty.
func temperatures(eval string) *sweepdir.Sweep {
	a := reporttest.With(reporttest.Around(0.94, 0.01, 1), func(f *reporttest.FakeRun) { f.Entropy = 0.1 })
	b := reporttest.With(reporttest.Around(0.85, 0.01, 2), func(f *reporttest.FakeRun) { f.Entropy = 0.5 })
	return configured(reporttest.FakeSweep(4, reporttest.FakeArm{Name: "t=1", Run: a}, reporttest.FakeArm{Name: "t=1.3", Run: b}), func(arm int) string {
		return fmt.Sprintf("rollout: {sampling_temperature: %s}\n%s", []string{"1", "1.3"}[arm], eval)
	})
}

// TestArmsEvaluatedDifferently: a sweep of the first release whose arms were
// evaluated as they sample is no comparison, and the report says so first.
func TestArmsEvaluatedDifferently(t *testing.T) {
	a := mustReport(t, temperatures(""))
	wantFinding(t, a, finding{Section: analysis.Headline, Kind: analysis.NotComparable})
	wantFinding(t, a, finding{Section: analysis.Headline, Kind: analysis.Beats, Arms: []int{0, 1}})
	wantFinding(t, a, finding{Section: analysis.Caveat, Kind: analysis.EvaluationsDiffer, Values: []string{"temperature 1", "temperature 1.3"}})
	if h := a.Verdict.Headline; !strings.HasPrefix(h, "The arms were evaluated with different settings and are not comparable.") {
		t.Errorf("headline %s", h)
	}
	a = mustReport(t, temperatures("eval: {temperature: 1}\n"))
	if f := a.Findings[0]; f.Kind != analysis.Beats {
		t.Errorf("headline %+v", f)
	}
}

// TestEntropyOfTemperatures: entropies at different temperatures are not compared,
// and the verdict explains why.
func TestEntropyOfTemperatures(t *testing.T) {
	a := mustReport(t, temperatures("eval: {temperature: 1}\n"))
	if c := a.Find("entropy", 0, 1); c != nil {
		t.Errorf("entropies are compared: %+v", c)
	}
	wantFinding(t, a, finding{Section: analysis.Caveat, Kind: analysis.EntropyDiffers, Metric: "entropy", Values: []string{"1", "1.3"}})
	same := mustReport(t, configured(temperatures(""), func(int) string { return "rollout: {sampling_temperature: 1.3}\n" }))
	if same.Find("entropy", 0, 1) == nil {
		t.Error("arms of one temperature are not compared")
	}
	neverFinding(t, same, analysis.EntropyDiffers, analysis.EvaluationsDiffer, analysis.NotComparable)
}

// TestIdenticalArms: arms whose runs end with the same weights and evaluations are
// one experiment, which "not separable" would hide.
func TestIdenticalArms(t *testing.T) {
	sweep := func() *sweepdir.Sweep {
		sw := reporttest.FakeSweep(4, reporttest.FakeArm{Name: "a", Run: reporttest.Around(0.9, 0.02, 1)}, reporttest.FakeArm{Name: "b", Run: reporttest.Around(0.9, 0.02, 1)}, reporttest.FakeArm{Name: "c", Run: reporttest.Around(0.8, 0.02, 2)})
		for _, s := range sw.Runs {
			s.Run.Result.WeightsSHA256 = fmt.Sprintf("%s%d", []string{"ab", "ab", "c"}[s.Arm], s.Seed)
		}
		sw.Manifest.Reference = "a"
		return sw
	}
	a := mustReport(t, sweep())
	wantFinding(t, a, finding{Section: analysis.Line, Kind: analysis.Identical, Arms: []int{1, 0}})
	wantFinding(t, a, finding{Section: analysis.Headline, Kind: analysis.Ranking, Arms: []int{0},
		Parts: []finding{{Kind: analysis.Identical}, {Kind: analysis.BeatenBy}}})
	for name, change := range map[string]func(*rundir.Run){
		"other weights":         func(r *rundir.Run) { r.Result.WeightsSHA256 = "x" },
		"no hash":               func(r *rundir.Run) { r.Result.WeightsSHA256 = "" },
		"evaluations that move": func(r *rundir.Run) { r.Evals[3].Sampled.Length++ },
	} {
		sw := sweep()
		change(sw.Runs[1].Run)
		t.Log(name)
		neverFinding(t, mustReport(t, sw), analysis.Identical)
	}
}

// TestRewardsOfTheLastStep: a run that trains on more than the answer shows what it trains on.
func TestRewardsOfTheLastStep(t *testing.T) {
	answer, own := rundir.Stat{Mean: 0.25}, rundir.Stat{Mean: 0.875}
	for _, test := range []struct {
		name    string
		rewards map[string]rundir.Stat
		want    string
	}{
		{"answer alone", map[string]rundir.Stat{"answer": answer}, ""},
		{"two", map[string]rundir.Stat{"brevity": own, "answer": answer},
			"\n  reward as trained on 0.688, of its functions: answer 0.25, brevity 0.875\n"},
		{"own alone", map[string]rundir.Stat{"brevity": own},
			"\n  reward as trained on 0.688, of its functions: brevity 0.875\n"},
		{"no completion has a reward", map[string]rundir.Stat{"brevity": {Mean: math.NaN()}},
			"\n  reward as trained on 0.688, of its functions: brevity n/a\n"},
	} {
		m := rundir.Metrics{Step: 1, Reward: rundir.Stat{Mean: 0.6875}, Rewards: test.rewards}
		s := lastMetrics(&rundir.Run{Metrics: []rundir.Metrics{m}})
		if test.want == "" && strings.Contains(s, "trained on") || !strings.Contains(s, test.want) {
			t.Errorf("%s: %q", test.name, s)
		}
	}
}
