package train

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/rundir"
)

// A diverged run that is killed between its last checkpoint and its result gets the same result
// when continued.
func TestDivergenceIsRemembered(t *testing.T) {
	cfg := mini(t, "learning_rate=1e38", "adam_eps=1e-30", "reward.functions=random", "n_grpo_steps=6")
	want := uninterrupted(t, cfg)
	if want.Result.Status != rundir.StateDiverged || want.Result.Steps == 6 {
		t.Fatalf("the case tests nothing: %+v", want.Result)
	}
	for _, gone := range []string{rundir.ResultFile, filepath.Join(rundir.CheckpointDir, rundir.LastFile)} {
		remove(t, filepath.Join(want.Dir, rundir.ResultFile))
		remove(t, filepath.Join(want.Dir, gone))
		got := mustRun(t, cfg, want.Dir, 1)
		sameBits(t, want, got)
		if *got.Result.DivergedAt != *want.Result.DivergedAt || got.Result.DivergedReason != want.Result.DivergedReason || got.Result.Checks != want.Result.Checks {
			t.Errorf("without %s: %+v, want %+v", gone, got.Result, want.Result)
		}
	}
}

// The last evaluation of a run that diverges between two updates of a step is of the weights that it leaves.
func TestDivergenceWithinStep(t *testing.T) {
	cfg := small("learning_rate=1e19", "adam_eps=1e-30", "max_grad_norm=0", "train_batch_size=12", "n_grpo_steps=6")
	r := mustRun(t, cfg, t.TempDir(), 1)
	if r.Result.Status != rundir.StateDiverged || r.Result.Updates%4 == 0 {
		t.Fatalf("the case tests nothing: %s after %d updates", r.Result.Status, r.Result.Updates)
	}
	cfg.Model.Init = filepath.Join(r.Dir, rundir.CheckpointDir, rundir.LastFile)
	evals, _, err := evaluateCheckpoint(cfg, rundir.SplitTest, 0, 1, nil)
	expect.OK(t, err)
	if got, want := *r.Result.Test.Greedy, *evals[0].Greedy; !reflect.DeepEqual(got, want) {
		t.Errorf("the test problems' evaluation %+v, of its weights %+v", got, want)
	}
}

// A collapse is noted; with stop_on_divergence it ends the run, also if the run is continued from
// exactly there.
func TestStopOnDivergence(t *testing.T) {
	long(t)
	base := []string{"learning_rate=0.1", "data.val_size=150", "n_grpo_steps=7"}
	dir := t.TempDir()
	w := watched(t, small(base...), dir)
	on := open(t, dir)
	if on.Result.Status != rundir.StateDiverged || on.Result.Steps != 7 || !strings.Contains(strings.Join(w.notes, "\n"), "the run continues") {
		t.Errorf("%s after %d steps, notes %q", on.Result.Status, on.Result.Steps, w.notes)
	}
	cfg := small(append(base, "stop_on_divergence=true")...)
	dir = t.TempDir()
	w = watched(t, cfg, dir)
	off := open(t, dir)
	at := *off.Result.DivergedAt
	if off.Result.Steps != at || at >= 7 || len(off.Metrics) != at || off.Result.Final.Step != at || !strings.Contains(strings.Join(w.notes, "\n"), "the run ends here") {
		t.Errorf("diverged at %d, ended after %d steps, notes %q", at, off.Result.Steps, w.notes)
	}
	// As if killed after the checkpoint of that step.
	remove(t, filepath.Join(dir, rundir.ResultFile))
	sameBits(t, off, mustRun(t, cfg, dir, 1))
}

// The rule of a collapse counts problems: completions of one problem are not independent.
func TestCollapseOfProblems(t *testing.T) {
	counts := func(right int) rundir.Counts {
		return rundir.Counts{N: 800, CorrectNum: right, AnswerReward: float64(right) / 800}
	}
	for samples, want := range map[int]bool{0: true, 8: false} {
		s := state{Best: rundir.Eval{Samples: samples, Sampled: counts(200)}}
		s.collapse(rundir.Eval{Step: 3, Samples: samples, Sampled: counts(44)})
		if got := s.DivergedAt != nil; got != want {
			t.Errorf("%d completions of a problem: collapse %v", samples, got)
		}
	}
}
