package train

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/dataset"
	"grpo/pkg/model"
	"grpo/pkg/rundir"
)

// svampFile is an SVAMP file with n problems.
func svampFile(t *testing.T, n int) string {
	t.Helper()
	var items []string
	for i := range n {
		items = append(items, fmt.Sprintf(`{"ID": "s-%d", "Body": "Ann had %d pens, then 3 more came.", "Question": "How many?", `+
			`"Equation": "( %d.0 + 3.0 )", "Answer": %d.0, "Type": "Addition"}`, i, i, i, i+3))
	}
	return writeText(t, "SVAMP.json", "["+strings.Join(items, ",\n")+"]")
}

func writeText(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	expect.OK(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// withSets is a run that is evaluated on SVAMP and on a file too.
func withSets(t *testing.T, set ...string) config.Config {
	t.Helper()
	hard := writeText(t, "hard.jsonl", `{"question": "What is 70+21?", "answer": "70+21=91\n#### 91"}`+"\n")
	return small(append([]string{"eval.sets=validation,unseen,svamp," + hard, "svamp_file=" + svampFile(t, 5), "set_size=4"}, set...)...)
}

func stepsOf(r *rundir.Run, split string) (steps []int) {
	for _, e := range r.Evals {
		if e.Split == split {
			steps = append(steps, e.Step)
		}
	}
	return steps
}

// The sets of files are evaluated before and after training, and on request in between,
// with counts and categories; the other evaluations keep their bits.
func TestSetsAreEvaluated(t *testing.T) {
	long(t)
	plain := mustRun(t, small(), t.TempDir(), 2)
	for every, want := range map[string][]int{"0": {0, 8}, "6": {0, 6, 8}} {
		r := mustRun(t, withSets(t, "sets_every_n_steps="+every), t.TempDir(), 2)
		for _, split := range []string{"svamp", "hard"} {
			if got := stepsOf(r, split); !slices.Equal(got, want) {
				t.Errorf("every %s steps: %s was evaluated after the steps %v, want %v", every, split, got, want)
			}
		}
		sets := r.Result.Sets
		if len(sets) != 2 || sets[0].Name != "svamp" || sets[1].Name != "hard" || sets[0].Initial.Sampled.N != 4 ||
			sets[1].Final.Greedy == nil || sets[0].Final.Step != 8 || sets[0].Initial.Step != 0 {
			t.Fatalf("the result has the sets %+v", sets)
		}
		if err := sets[0].Final.Check(); err != nil {
			t.Error(err)
		}
		if r.Result.WeightsSHA256 != plain.Result.WeightsSHA256 || r.Result.Final.Sampled.CorrectNum != plain.Result.Final.Sampled.CorrectNum {
			t.Error("the sets change training or validation")
		}
	}
	few := mustRun(t, small("eval.sets=validation"), t.TempDir(), 1)
	if few.Result.Unseen != nil || len(stepsOf(few, rundir.SplitUnseen)) > 0 || few.Result.Test == nil {
		t.Error("unseen problems are evaluated, or test problems are not")
	}
}

// An interrupted run has the same lines and the same result.
func TestSetsResumeExactly(t *testing.T) {
	long(t)
	cfg := withSets(t, "sets_every_n_steps=3")
	want, got := resumesExactly(t, cfg, 4)
	for i, s := range want.Result.Sets {
		again := got.Result.Sets[i]
		err := rundir.CompareEvals([]rundir.Eval{again.Initial, again.Final}, []rundir.Eval{s.Initial, s.Final})
		if err != nil || again.Name != s.Name {
			t.Errorf("the result of set %s: %v", s.Name, err)
		}
	}
}

// A set alone has the numbers that it has among others.
func TestEvaluateCheckpointOnSets(t *testing.T) {
	cfg := withSets(t)
	all, samples, err := evaluateCheckpoint(cfg, "", 1, 1, nil)
	expect.OK(t, err)
	var names []string
	for _, e := range all {
		names = append(names, e.Split)
	}
	if want := []string{"val", "unseen", "svamp", "hard"}; !slices.Equal(names, want) || len(samples) != 8 {
		t.Fatalf("sets %v with %d samples, want %v", names, len(samples), want)
	}
	cfg.Eval.Sets = []string{"validation", "svamp"}
	some, _, err := evaluateCheckpoint(cfg, "", 0, 2, nil)
	if err != nil || len(some) != 2 || some[1].Sampled.Length != all[2].Sampled.Length || some[1].Sampled.FormatReward != all[2].Sampled.FormatReward {
		t.Errorf("svamp is %+v, among others %+v (%v)", some, all[2], err)
	}
}

// Files that can't be sets are refused before the folder exists.
func TestSetsAreRefused(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "nowhere.json")
	cfg := small()
	problems, err := dataset.Load(cfg.Data, cfg.Answers())
	expect.OK(t, err)
	q := problems.Train[0].Question
	for _, tt := range []struct{ name, set, file, want string }{
		{"a missing SVAMP file", "eval.sets=validation,svamp", "svamp_file=" + missing, "nowhere.json: no such file or directory (eval.svamp_file)"},
		{"a missing file", "eval.sets=validation," + missing, "set_size=1", "(eval.sets)"},
		{"not problems", "eval.sets=validation," + writeText(t, "x.jsonl", "{\n"), "set_size=1", "broken JSON"},
		{"a training question", "eval.sets=validation," + writeText(t, "x.jsonl", fmt.Sprintf("{%q: %q, %q: %q}\n", "question", q, "answer", "#### 1")),
			"set_size=1", "x.jsonl are also in the training problems: "},
	} {
		dir := filepath.Join(t.TempDir(), "run")
		expect.Error(t, errorOf(small(tt.set, tt.file), dir), tt.want)
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s: a folder was created", tt.name)
		}
	}
}

// The last evaluation has more problems and samples; what is before it keeps its bits, and so does a run
// that ends inside of it and is continued.
func TestLastEvaluation(t *testing.T) {
	long(t)
	cfg := small("eval.final_size=40", "eval.final_samples=3", "n_grpo_steps=4")
	plain, r := mustRun(t, small("n_grpo_steps=4"), t.TempDir(), 2), mustRun(t, cfg, t.TempDir(), 2)
	curve := func(r *rundir.Run) []rundir.Eval {
		return slices.DeleteFunc(slices.Clone(r.Evals), func(e rundir.Eval) bool {
			return e.Split == rundir.SplitFinal || e.Split == rundir.SplitTest
		})
	}
	expect.OK(t, rundir.CompareEvals(curve(plain), curve(r)))
	a, b := plain.Result, r.Result
	if a.WeightsSHA256 != b.WeightsSHA256 || a.BestStep != b.BestStep || a.Best.Sampled.N != b.Best.Sampled.N {
		t.Error("the last evaluation changes training or the choice of the best step")
	}
	for _, tt := range []struct {
		name                              string
		e                                 *rundir.Eval
		step, problems, samples, saved, n int
	}{
		{"initial", &b.Initial, 0, 40, 1, 0, 40},
		{"final", &b.Final, 4, 40, 3, 3, 120},
		{"test", b.Test, 4, 12, 3, 3, 36},
		{"best", &b.Best, b.BestStep, 24, 1, 0, 24},
		{"plain final", &a.Final, 4, 24, 1, 0, 24},
	} {
		e := tt.e
		if e.Step != tt.step || e.Problems() != tt.problems || e.Samples != tt.saved || e.Sampled.N != tt.n ||
			e.Greedy.N != tt.problems || len(e.Right) != tt.samples {
			t.Errorf("%s: %+v", tt.name, e)
		}
		for decoding, want := range map[string]float64{
			rundir.DecodingSampled: e.Sampled.AnswerReward, rundir.DecodingGreedy: e.Greedy.AnswerReward,
		} {
			sum := 0.0
			for _, share := range e.Shares(decoding) {
				sum += share
			}
			if got := sum / float64(tt.problems); got < want-1e-9 || got > want+1e-9 {
				t.Errorf("%s, %s: the shares have the mean %v, the reward is %v", tt.name, decoding, got, want)
			}
		}
	}
	if s := b.Final.Right; s[0] == s[1] || s[1] == s[2] {
		t.Errorf("the samples of a problem are the same: %q", s)
	}
	if b.Initial.Split != rundir.SplitFinal || !slices.Equal(stepsOf(r, rundir.SplitFinal), []int{0, 4}) {
		t.Errorf("evaluated after the steps %v", stepsOf(r, rundir.SplitFinal))
	}
	// Only more samples: the first evaluation has the same problems already.
	only := mustRun(t, small("eval.final_samples=2", "n_grpo_steps=1"), t.TempDir(), 1).Result
	if only.Initial.Split != rundir.SplitVal || only.Final.Sampled.N != 48 || only.Final.Problems() != only.Initial.Problems() {
		t.Errorf("initial %+v\nfinal %+v", only.Initial, only.Final)
	}

	for _, during := range []string{"evaluating val_final", "evaluating test"} {
		dir := endedDuring(t, cfg, during)
		again := mustRun(t, cfg, dir, 1)
		expect.OK(t, rundir.CompareEvals(again.Evals, r.Evals))
		expect.OK(t, rundir.CompareEvals([]rundir.Eval{again.Result.Initial, again.Result.Final, *again.Result.Test},
			[]rundir.Eval{b.Initial, b.Final, *b.Test}))
	}
	again := mustRun(t, cfg, interrupted(t, cfg, 3), 1)
	expect.OK(t, rundir.CompareEvals(again.Evals, r.Evals))
}

// endedDuring is the folder of a run that ends like a crash in an activity after its last step.
func endedDuring(t *testing.T, cfg config.Config, activity string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	opts := options(dir, &watch{}, 1)
	opts.Progress = func(a model.Activity) {
		text, _ := os.ReadFile(filepath.Join(dir, rundir.MetricsFile))
		if a.What == activity && strings.Count(string(text), "\n") == cfg.Train.NGRPOSteps {
			panic(activity)
		}
	}
	defer func() {
		if recover() == nil {
			t.Fatalf("the run is never %s", activity)
		}
	}()
	expect.OK(t, expect.Err(Run(context.Background(), cfg, opts)))
	return dir
}
