package report

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/analysis"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// sideOf is a side whose runs, in folders below dir, end at these rewards; seeds are 1, 2, ...
func sideOf(t *testing.T, dir string, change func(*config.Config), rewards ...float64) analysis.Side {
	t.Helper()
	s := analysis.Side{Name: dir, Folders: []string{dir}}
	for i, reward := range rewards {
		seed := uint64(i + 1)
		run := poolRun(filepath.Join(dir, fmt.Sprint(seed)), seed, change)
		expect.OK(t, os.MkdirAll(run.Dir, 0o777))
		run.Result.Final.Sampled.AnswerReward = reward
		run.Result.WeightsSHA256 = fmt.Sprintf("%s %v", filepath.Base(dir), reward)
		s.Runs = append(s.Runs, sweepdir.RunState{Entry: sweepdir.Entry{Seed: seed}, State: rundir.StateDone, Run: run})
	}
	return s
}

func rate(v float64) func(*config.Config) {
	return func(c *config.Config) { c.Train.LearningRate = v }
}

func TestDecide(t *testing.T) {
	low := []float64{.70, .72, .71, .69}
	for _, tt := range []struct {
		name        string
		rewards     []float64
		nonInferior bool
		answer, why string
	}{
		{"better", []float64{.80, .83, .81, .795}, false, Keep, "better: difference 10.4 points"},
		{"worse", []float64{.60, .63, .61, .595}, false, Discard, "worse: difference -9.6 points"},
		{"the same within the margin", []float64{.701, .719, .711, .690}, false, Discard, "not better by 2 points: difference 0.0 points"},
		{"better by less than the margin", []float64{.711, .7305, .721, .6995}, false, Keep, "better: difference 1.1 points"},
		{"noisy", []float64{.60, .83, .75, .70}, false, Undecided, "neither shown to be better nor to gain less than 2 points"},
		{"not worse", []float64{.701, .719, .711, .690}, true, Keep, "not worse by 2 points"},
		{"worse, where no gain is asked for", []float64{.60, .63, .61, .595}, true, Discard, "worse"},
		{"noisy, where no gain is asked for", []float64{.60, .83, .75, .70}, true, Undecided, "to lose less than 2 points"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			trial, err := Decide(sideOf(t, dir+"/a", rate(3e-3), tt.rewards...), sideOf(t, dir+"/b", nil, low...), 0, tt.nonInferior)
			expect.OK(t, err)
			if trial.Answer != tt.answer || !strings.HasPrefix(trial.Reason, tt.why) && !strings.Contains(trial.Reason, tt.why) {
				t.Errorf("%s: %s; want %s: %s", trial.Answer, trial.Reason, tt.answer, tt.why)
			}
			if len(trial.Differing) != 1 || trial.Differing[0].Key != "train.learning_rate" || trial.Margin != .02 {
				t.Errorf("they differ in %v, margin %v", trial.Differing, trial.Margin)
			}
		})
	}
	for _, k := range []int{1, 4} { // the last has no pair
		t.Run("diverged", func(t *testing.T) {
			dir := t.TempDir()
			a := sideOf(t, dir+"/a", rate(3e-3), .90, .92, .91, .89, .90)
			a.Runs[k].State, a.Runs[k].Run.Result.Status = rundir.StateDiverged, rundir.StateDiverged
			trial, err := Decide(a, sideOf(t, dir+"/b", nil, low...), 0, false)
			expect.OK(t, err)
			if trial.Answer != Discard || !strings.HasPrefix(trial.Reason, "1 of the candidate's 5 runs diverged") {
				t.Errorf("%s: %s", trial.Answer, trial.Reason)
			}
		})
	}
}

// A try is counted once, the incumbent's arms apart, and later tries ask for more.
func TestTries(t *testing.T) {
	dir := t.TempDir()
	incumbent := sideOf(t, dir+"/b", nil, .70, .72, .71, .69)
	try := func(name string, b analysis.Side, rewards ...float64) *Trial {
		t.Helper()
		trial, err := Decide(sideOf(t, dir+"/"+name, rate(3e-3), rewards...), b, 0, false)
		expect.OK(t, err)
		return trial
	}
	x := []float64{.75, .785, .746, .735}
	first := try("x", incumbent, x...)
	for i := range 8 {
		if k := try(fmt.Sprint("other", i), incumbent, .6, .7, .8, .6+.01*float64(i)).Try; k != i+2 {
			t.Errorf("try %d, want %d", k, i+2)
		}
	}
	again := try("x", incumbent, x...)
	if first.Try != 1 || first.Tries != 1 || again.Try != 1 || again.Tries != 9 || again.Answer != first.Answer || again.AtLeast != first.AtLeast {
		t.Errorf("first %+v, asked again %+v", first, again)
	}
	copied := try("y", incumbent, x...) // other runs with the same rewards
	if copied.Try != 10 || copied.AtLeast >= first.AtLeast || first.Answer != Keep || copied.Answer != Undecided {
		t.Errorf("try 1: %s, at least %v; try %d: %s, at least %v", first.Answer, first.AtLeast, copied.Try, copied.Answer, copied.AtLeast)
	}
	// A side of fewer runs finds the ledger in the folder of any of them.
	fewer := incumbent
	fewer.Runs = slices.Clone(incumbent.Runs[:3])
	slices.Reverse(fewer.Runs)
	if trial := try("x", fewer, x...); trial.Try != 11 || trial.Ledger != filepath.ToSlash(incumbent.Runs[0].Run.Dir)+"/gate.jsonl" {
		t.Errorf("with three seeds: try %d in %s", trial.Try, trial.Ledger)
	}
	arm := incumbent
	arm.Arm, arm.Folders = "one", []string{dir + "/b"}
	other := arm
	other.Arm = "two"
	if k, l := try("x", arm, x...).Try, try("x", other, x...).Try; k != 1 || l != 1 {
		t.Errorf("tries of two arms: %d and %d", k, l)
	}
	if data, err := os.ReadFile(dir + "/b/gate.jsonl"); err != nil || strings.Count(string(data), "\n") != 2 {
		t.Errorf("the ledger of the sweep: %s %v", data, err)
	}
}

// Gates at the same time have different numbers.
func TestTriesAtOnce(t *testing.T) {
	dir := t.TempDir()
	incumbent := sideOf(t, dir+"/b", nil, .70, .72, .71, .69)
	const gates = 8
	tries := make([]int, gates)
	var all sync.WaitGroup
	for i := range gates {
		candidate := sideOf(t, fmt.Sprint(dir, "/", i), rate(3e-3), .7, .7, .7, .7)
		all.Go(func() {
			for {
				trial, err := Decide(candidate, incumbent, 0, false)
				if locked := (*rundir.LockedError)(nil); errors.As(err, &locked) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				tries[i] = trial.Try
				return
			}
		})
	}
	all.Wait()
	slices.Sort(tries)
	if want := []int{1, 2, 3, 4, 5, 6, 7, 8}; !slices.Equal(tries, want) {
		t.Errorf("tries %v, want %v", tries, want)
	}
}

func TestSidesThatCantBeTested(t *testing.T) {
	x := []float64{.75, .78, .75, .735}
	for want, change := range map[string]func(a, b *analysis.Side){
		"they differ in eval.temperature (0.5 and 1)": func(a, _ *analysis.Side) {
			for _, s := range a.Runs {
				s.Run.Config = []byte(strings.Replace(string(s.Run.Config), "eval:\n", "eval:\n", 1))
				c, err := config.LoadText("x", s.Run.Config)
				expect.OK(t, err)
				c.Config.Eval.Temperature = .5
				s.Run.Config = config.Marshal(c.Config)
			}
		},
		"they differ in problems (98765432 and 01234567)": func(a, _ *analysis.Side) {
			for _, s := range a.Runs {
				s.Run.Meta.ProblemsHash = "9876543210"
			}
		},
		"a test needs pairs of runs with the same seed, two at least": func(a, _ *analysis.Side) { a.Runs = a.Runs[:1] },
		"are not seeds of one configuration: they differ in kernel":   func(_, b *analysis.Side) { b.Runs[2].Run.Meta.Kernel = "go" },
		"has two runs with seed 1":                                    func(a, _ *analysis.Side) { a.Runs[1].Seed = 1 },
		"a run is there twice":                                        func(a, b *analysis.Side) { a.Runs[1] = b.Runs[1] },
		"has no config.yaml":                                          func(a, _ *analysis.Side) { a.Runs[0].Run.Config = nil },
		"has no finished run": func(_, b *analysis.Side) {
			for i := range b.Runs {
				b.Runs[i].Run.Result = nil
			}
		},
	} {
		dir := t.TempDir()
		a, b := sideOf(t, dir+"/a", rate(3e-3), x...), sideOf(t, dir+"/b", nil, x...)
		change(&a, &b)
		_, err := NewTest(a, b, 0)
		if !errors.Is(err, config.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
		if _, err := os.Stat(b.Runs[0].Run.Dir + "/gate.jsonl"); err == nil {
			t.Errorf("%s: counted as a try", want)
		}
	}
}

// Sides may differ in what does not change the last sampled evaluation: how often there are others, and what is kept.
func TestSidesEvaluatedAlike(t *testing.T) {
	x := []float64{.75, .78, .75, .735}
	for key, change := range map[string]func(e *config.Eval){
		"":                   func(e *config.Eval) { e.EveryNSteps, e.SaveSamples, e.Greedy = 7, 3, !e.Greedy },
		"eval.temperature":   func(e *config.Eval) { e.Temperature = .5 },
		"eval.top_p":         func(e *config.Eval) { e.TopP = .9 },
		"eval.top_k":         func(e *config.Eval) { e.TopK = 9 },
		"eval.min_tokens":    func(e *config.Eval) { e.MinTokens = 3 },
		"eval.max_tokens":    func(e *config.Eval) { e.MaxTokens = 9 },
		"eval.final_size":    func(e *config.Eval) { e.FinalSize = 2048 },
		"eval.final_samples": func(e *config.Eval) { e.FinalSamples = 4 },
		"eval.samples":       func(e *config.Eval) { e.Samples = 4 },
		"eval.reward":        func(e *config.Eval) { e.Reward = "judge" },
	} {
		dir := t.TempDir()
		a := sideOf(t, dir+"/a", func(c *config.Config) { change(&c.Eval) }, x...)
		_, err := NewTest(a, sideOf(t, dir+"/b", nil, x...), 0)
		if key == "" {
			expect.OK(t, err)
		} else if err == nil || !strings.Contains(err.Error(), "were not evaluated alike") || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// The runs of a side may be of several versions, which a note says; versions that are the sides are what is compared.
func TestSidesOfSeveralVersions(t *testing.T) {
	x := []float64{.75, .78, .75, .735}
	for name, of := range map[string]func(side, i int) string{
		"within": func(_, i int) string { return fmt.Sprint(i % 2) },
		"sides":  func(side, _ int) string { return fmt.Sprint(side) },
	} {
		dir := t.TempDir()
		sides := []analysis.Side{sideOf(t, dir+"/a", rate(3e-3), x...), sideOf(t, dir+"/b", nil, x...)}
		for side, s := range sides {
			for i := range s.Runs {
				s.Runs[i].Run.Meta.Version, s.Runs[i].Run.Meta.Revision = of(side, i), ""
			}
		}
		test, err := NewTest(sides[0], sides[1], 0)
		expect.OK(t, err)
		var b bytes.Buffer
		expect.OK(t, test.WriteLines(&b))
		const note, key = "different versions of grpo (0; 1)", "version (0 and 1)"
		if within := name == "within"; strings.Contains(b.String(), note) != within || strings.Contains(b.String(), key) == within {
			t.Errorf("%s: %s", name, b.String())
		}
	}
}

// A test of two sides has the numbers of the same arms in a sweep.
func TestAgainstIsTheTestOfASweep(t *testing.T) {
	dir := t.TempDir()
	a, b := sideOf(t, dir+"/a", rate(3e-3), .75, .78, .75, .735), sideOf(t, dir+"/b", nil, .70, .72, .71, .69)
	test, err := NewTest(a, b, .06)
	expect.OK(t, err)
	runs := append(analysis.RunsOf(b.Runs), analysis.RunsOf(a.Runs)...)
	sw, err := analysis.ArmsOf(runs, "")
	expect.OK(t, err)
	sw.Manifest.Reference = sw.Manifest.Arms[0].Name
	an, err := analysis.Analyse(sw)
	expect.OK(t, err)
	c, d := test.Comparison, an.Find("final", 1, 0)
	if c.Mean != d.Mean || c.P != d.P || c.PAdjusted != d.PAdjusted || c.Lo != d.Lo || c.Bound != d.Bound || !c.Separable {
		t.Errorf("test %+v, in a sweep %+v", c, d)
	}
	if test.Margin != .06 || c.PSame >= d.PSame || !c.Same {
		t.Errorf("margin %v, TOST p %v and with 2 points %v", test.Margin, c.PSame, d.PSame)
	}
}

// A test leaves out the seeds on which the point of a tuned arm was chosen, as the verdict of its sweep does, and says
// that looks decided the number of seeds.
func TestChosenSeedsAreLeftOut(t *testing.T) {
	dir := t.TempDir()
	a, b := sideOf(t, dir+"/a", rate(3e-3), .99, .99, .75, .78, .75, .735), sideOf(t, dir+"/b", nil, .7, .7, .70, .72, .71, .69)
	a.Chosen, b.Looks = []uint64{1, 2}, true
	a.Runs[0].Run.Result = nil // a run that is not compared need not have ended
	trial, err := Decide(a, b, 0, false)
	expect.OK(t, err)
	notes := strings.Join(trial.Notes, "\n")
	if !slices.Equal(trial.Seeds, []uint64{3, 4, 5, 6}) || math.Abs(trial.Comparison.Mean-.04875) > 1e-9 ||
		!strings.Contains(notes, "/a: seeds 1, 2, on which points were chosen.") || !strings.Contains(notes, "Left out, for want of a pair: 2 runs") ||
		!strings.Contains(notes, "Planned looks at the results decided how many seeds "+b.Name) {
		t.Errorf("seeds %v, mean %v, notes %s", trial.Seeds, trial.Comparison.Mean, notes)
	}
	a.Runs = a.Runs[:2]
	_, err = NewTest(a, b, 0)
	expect.Error(t, err, "no finished run, besides those with the seeds on which points were chosen")

	sweep := sweepFolder(t)
	m, err := sweepdir.ReadManifest(sweep)
	expect.OK(t, err)
	m.Axes, m.BestOver = reporttest.RatesAxis("0.001", "0.01"), analysis.RateKey
	m.Looks = []sweepdir.Look{{Seeds: 1, Choice: true}, {Seeds: 2, Level: .05}}
	m.Hash = m.Identity()
	expect.OK(t, sweepdir.WriteManifest(sweep, m))
	side, err := OpenSide([]string{sweep}, "first", "--arm")
	expect.OK(t, err)
	if !slices.Equal(side.Chosen, []uint64{1}) || side.Looks || len(side.Runs) == 0 {
		t.Errorf("chosen on %v, looks %v, %d runs", side.Chosen, side.Looks, len(side.Runs))
	}
	m.BestOver, m.Looks = "", []sweepdir.Look{{Seeds: 1, Level: .025}, {Seeds: 2, Level: .025}}
	m.Hash = m.Identity()
	expect.OK(t, sweepdir.WriteManifest(sweep, m))
	if side, err = OpenSide([]string{sweep}, "first", "--arm"); err != nil || len(side.Chosen) > 0 || !side.Looks {
		t.Errorf("chosen on %v, looks %v: %v", side.Chosen, side.Looks, err)
	}
	// Tries are counted under the stored name, by which runs of the sweep find them.
	m.Arms[0].Name, m.Arms[0].Point, m.Axes[0].Written = "lr=0.001", []string{"0.001"}, []string{"1e-3", "1e-2"}
	m.Hash = m.Identity()
	expect.OK(t, sweepdir.WriteManifest(sweep, m))
	if side, err = OpenSide([]string{sweep}, "lr=1e-3", "--arm"); err != nil || side.Arm != "lr=0.001" {
		t.Errorf("arm %q: %v", side.Arm, err)
	}
}

func TestDamagedLedger(t *testing.T) {
	for _, text := range []string{"x\n", "{}\n", `{"arm":"","try":1,"pairs":"ab","candidate":"","answer":"keep"}` + "\n"} {
		dir := t.TempDir()
		a, b := sideOf(t, dir+"/a", rate(3e-3), .7, .7), sideOf(t, dir+"/b", nil, .7, .8)
		file := b.Runs[0].Run.Dir + "/gate.jsonl"
		expect.OK(t, os.WriteFile(file, []byte(text), 0o666))
		_, err := Decide(a, b, 0, false)
		if err == nil || !strings.Contains(err.Error(), "gate.jsonl: line 1: ") {
			t.Errorf("%q: error %v", text, err)
		}
		if data, _ := os.ReadFile(file); string(data) != text {
			t.Errorf("the file was changed: %s", data)
		}
	}
}
