package train

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
)

// judged is a run whose evaluations a custom function judges; training has the reward answer.
func judged(c config.Config, set func(*config.CustomReward)) config.Config {
	c = custom(c, set)
	c.Reward.Functions, c.Eval.Reward = []string{"answer"}, "mine"
	return c
}

// TestJudge: a judge that agrees with the answers changes no weight and no count, and adds the mean of its values.
func TestJudge(t *testing.T) {
	plain := mustRun(t, quick("n_grpo_steps=2", "eval.every_n_steps=1", "eval.samples=2"), t.TempDir(), 2)
	c := quick("n_grpo_steps=2", "eval.every_n_steps=1", "eval.samples=2")
	file := filepath.Join(t.TempDir(), "f")
	for name, set := range map[string]func(*config.CustomReward){
		"expression": expression("right"), "two workers": command(file, 2),
	} {
		run := mustRun(t, judged(c, set), t.TempDir(), 2)
		if run.Result.WeightsSHA256 != plain.Result.WeightsSHA256 {
			t.Errorf("%s: the weights differ", name)
		}
		for i, e := range run.Evals {
			want := plain.Evals[i]
			if e.Sampled.Score == nil || *e.Sampled.Score != e.Sampled.AnswerReward || e.MajorityAnswer != "" {
				t.Errorf("%s: %+v", name, e)
			}
			if e.Sampled.Score = nil; e.Sampled.CorrectNum != want.Sampled.CorrectNum || strings.Join(e.Right, "") != strings.Join(want.Right, "") ||
				e.PassAt[1] != want.PassAt[1] || e.MajorityAt[1] != want.MajorityAt[1] {
				t.Errorf("%s: %+v, want %+v", name, e, want)
			}
		}
	}
}

// TestGradedJudge: other values than 1 are wrong, and choose the best step among evaluations with as many right ones.
func TestGradedJudge(t *testing.T) {
	long(t)
	c := quick("n_grpo_steps=4", "eval.every_n_steps=1")
	c = judged(c, expression("-len(tokens) / max_tokens"))
	c.Reward.Functions = []string{"mine"}
	run := mustRun(t, c, t.TempDir(), 2)
	best := run.Result.Best
	for _, e := range run.Evals {
		if e.Sampled.CorrectNum != 0 || e.Sampled.Score == nil || *e.Sampled.Score >= 0 || *e.Sampled.Score > *best.Sampled.Score {
			t.Errorf("%+v, best %+v", e, best)
		}
	}
	if best.Step == 0 || !strings.Contains(strings.Join(run.Result.Warnings, "\n"), "eval.reward mine gave none the value 1") {
		t.Errorf("best step %d, warnings %q", best.Step, run.Result.Warnings)
	}
	if s := run.Samples[len(run.Samples)-1]; s.AnswerReward != 0 {
		t.Errorf("sample %+v", s)
	}
}

// TestBadJudge: an evaluation needs a value for each completion. A judge without one for a worked answer leaves no folder.
func TestBadJudge(t *testing.T) {
	long(t)
	for text, want := range map[string]string{
		"nil":                       "eval.reward mine: step 0: no value (null) for a completion of problem",
		"step == 1 ? nil : 1":       "evaluate val after step 1: evaluate val, sampled: eval.reward mine: step 1: no value",
		"step == 1 ? 1 / 0.0 : 0.5": "eval.reward: reward mine: step 1: the expression failed for completion 1",
	} {
		dir := filepath.Join(t.TempDir(), "run")
		_, err := Run(t.Context(), judged(quick("n_grpo_steps=1"), expression(text)), options(dir, &watch{}, 2))
		expect.Error(t, err, want)
		if _, stat := os.Stat(dir); text == "nil" && stat == nil {
			t.Error("a judge that can't judge leaves a folder")
		}
	}
}

// TestInterruptedJudge: a run that is interrupted while a judge is at work finishes the evaluation, and continues to the
// same bits.
func TestInterruptedJudge(t *testing.T) {
	long(t)
	file := filepath.Join(t.TempDir(), "f")
	c := judged(quick("n_grpo_steps=4", "eval.every_n_steps=3"), command(file, 1))
	want := mustRun(t, c, t.TempDir(), 2)
	expect.OK(t, os.WriteFile(file+".wait", nil, 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(file + ".asked"); err == nil {
				cancel()
				_ = os.Remove(file + ".wait") // it exists
			}
			time.Sleep(time.Millisecond)
		}
	}()
	dir := t.TempDir()
	_, err := Run(ctx, c, options(dir, &watch{}, 2))
	if !errors.Is(err, rundir.ErrInterrupted) || !strings.Contains(err.Error(), "after step 3 of 4") {
		t.Fatalf("error %v", err)
	}
	sameBits(t, mustRun(t, c, dir, 1), want)
}
