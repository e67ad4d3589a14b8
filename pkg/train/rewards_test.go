package train

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/reward"
	"grpo/pkg/rundir"
)

// TestMain makes the test binary a reward command: "serve FILE" gives 1 to right completions. It
// makes FILE.asked before it answers for step 3, and waits as long as FILE.wait exists.
func TestMain(m *testing.M) {
	if len(os.Args) != 3 || os.Args[1] != "serve" {
		os.Exit(m.Run())
	}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var r struct {
			ID, Step    int
			Completions []reward.Completion
		}
		if err := json.Unmarshal(line, &r); err != nil {
			panic(err)
		}
		for r.Step == 3 {
			if _, err := os.Stat(os.Args[2] + ".wait"); err != nil {
				break
			}
			if err := os.WriteFile(os.Args[2]+".asked", nil, 0o600); err != nil {
				panic(err)
			}
			time.Sleep(5 * time.Millisecond)
		}
		rewards := make([]float64, len(r.Completions))
		for i, c := range r.Completions {
			rewards[i] = one(c.Right)
		}
		text, _ := json.Marshal(map[string]any{"id": r.ID, "rewards": rewards, "columns": map[string]any{"right": rewards}})
		fmt.Printf("%s\n", text)
	}
}

// quick is a run with hardly any evaluation.
func quick(set ...string) config.Config {
	return small(append(set, "rollout_batch_size=24", "data.val_size=10", "data.test_size=0", "data.unseen_size=0", "eval.greedy=false")...)
}

// custom returns a configuration with a custom function as the only reward.
func custom(c config.Config, set func(*config.CustomReward)) config.Config {
	var f config.CustomReward
	f.SetDefaults()
	f.Name = "mine"
	set(&f)
	c.Reward.Functions, c.Reward.RewardWeights, c.Reward.Custom = []string{"mine"}, []float64{1}, []config.CustomReward{f}
	return c
}

func expression(text string) func(*config.CustomReward) {
	return func(f *config.CustomReward) { f.Expr = text }
}

func command(file string, workers int) func(*config.CustomReward) {
	return func(f *config.CustomReward) { f.Command, f.Workers = []string{os.Args[0], "serve", file}, workers }
}

// TestCustomLikeBuiltin: a custom function with the values of a built-in one trains the same weights,
// by a command, whatever its number of workers, as by an expression.
func TestCustomLikeBuiltin(t *testing.T) {
	long(t)
	c := quick("n_grpo_steps=3")
	want := mustRun(t, c, t.TempDir(), 2).Result.WeightsSHA256
	file := filepath.Join(t.TempDir(), "f")
	for name, set := range map[string]func(*config.CustomReward){
		"expression": expression("right"), "one worker": command(file, 1), "three workers": command(file, 3),
	} {
		run := mustRun(t, custom(c, set), t.TempDir(), 2)
		if run.Result.WeightsSHA256 != want {
			t.Errorf("%s: the weights differ from those with answer", name)
		}
		m, last := run.Metrics[2], run.Samples[len(run.Samples)-1]
		if m.Rewards["mine"].Mean != m.AnswerReward {
			t.Errorf("%s: metrics %+v", name, m)
		}
		if name != "expression" && (m.Columns["mine.right"].Mean != m.AnswerReward || last.Columns["mine.right"] != last.AnswerReward) {
			t.Errorf("%s: columns %v, %v", name, m.Columns, last.Columns)
		}
	}
}

// TestNullsTrain: with every method, completions without a reward leave all numbers finite.
func TestNullsTrain(t *testing.T) {
	long(t)
	// Those that differ in what they do with NaN.
	for _, v := range variants {
		if !strings.Contains("default, leave one out, batch mean, batch std, hybrid, length weighted, greedy baseline, reinforce++, "+
			"pass at k, gdpo, kl in the reward, dynamic sampling, ppo", v.name) {
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			c := custom(quick(append(v.set, "n_grpo_steps=1")...),
				expression("len(tokens) % 3 == 0 ? nil : right ? 1 : 0.1"))
			c.Reward.MultiObjectiveAggregation = small(v.set...).Reward.MultiObjectiveAggregation
			run := mustRun(t, c, t.TempDir(), 1)
			for _, m := range run.Metrics {
				for _, x := range []float64{m.Loss, m.GradNorm, m.Reward.Mean} {
					if math.IsNaN(x) || math.IsInf(x, 0) {
						t.Errorf("step %d: %+v", m.Step, m)
					}
				}
			}
			if run.Result.Status != rundir.StateDone {
				t.Errorf("the run is %s", run.Result.Status)
			}
		})
	}
}

// TestAllNull: without any reward the weights do not move, and the mean reward is null.
func TestAllNull(t *testing.T) {
	long(t)
	for _, set := range [][]string{nil, {"baseline=none", "normalizer=whiten_tokens"}, {"baseline=greedy", "normalizer=none"}, {"algorithm.type=ppo", "loss_type=grpo_clip"}} {
		c := quick(append(set, "n_grpo_steps=1")...)
		dir := t.TempDir()
		run := mustRun(t, custom(c, expression("nil")), dir, 1)
		if log := string(slurp(t, filepath.Join(dir, rundir.LogFile))); !strings.Contains(log, "step 1: no completion has a reward, ") {
			t.Errorf("%v: log %s", set, log)
		}
		if m := run.Metrics[0]; !math.IsNaN(m.Reward.Mean) || !math.IsNaN(m.Reward.Std) || m.GradNorm != 0 {
			t.Errorf("%v: metrics %+v", set, m)
		}
		if all := strings.Join(run.Result.Warnings, "\n"); !strings.Contains(all, "the weights did not move") {
			t.Errorf("%v: warnings %s", set, all)
		}
	}
}

// TestInterruptedReward: a run that is interrupted while a reward is computed ends at once, after the
// step before, and continues to the same bits.
func TestInterruptedReward(t *testing.T) {
	long(t)
	file := filepath.Join(t.TempDir(), "f")
	c := custom(quick("n_grpo_steps=4"), command(file, 1))
	want := mustRun(t, c, t.TempDir(), 2)
	expect.OK(t, os.WriteFile(file+".wait", nil, 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(file + ".asked"); err == nil {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	dir := t.TempDir()
	_, err := Run(ctx, c, options(dir, &watch{}, 2))
	if !errors.Is(err, rundir.ErrInterrupted) || !strings.Contains(err.Error(), "after step 2 of 4") {
		t.Fatalf("error %v", err)
	}
	// Again, before its first step.
	_, err = Run(ctx, c, options(dir, &watch{}, 2))
	if !errors.Is(err, rundir.ErrInterrupted) || errors.Is(err, rundir.ErrNothingSaved) || !strings.Contains(err.Error(), "after step 2 of 4") {
		t.Errorf("error %v", err)
	}
	expect.OK(t, os.Remove(file+".wait"))
	sameBits(t, mustRun(t, c, dir, 1), want)
}

// TestChangedScript: a run continues, or is shown, only with the files it was made with; before the
// first step they may change.
func TestChangedScript(t *testing.T) {
	long(t)
	file := filepath.Join(t.TempDir(), "f")
	write := func(text string) {
		expect.OK(t, os.WriteFile(file, []byte(text), 0o600))
	}
	c := custom(quick("n_grpo_steps=3"), command(file, 1))
	for _, after := range []int{0, 2, 3} {
		write("first")
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		o := &begun{watch: watch{after: after, cancel: cancel}, stop: after == 0}
		if _, err := Run(ctx, c, options(dir, o, 2)); err != nil && !errors.Is(err, rundir.ErrInterrupted) {
			t.Fatal(err)
		}
		write("second")
		_, err := Run(t.Context(), c, options(dir, &watch{}, 2))
		if after == 0 {
			if err != nil {
				t.Errorf("before the first step: %v", err)
			}
			continue
		}
		expect.Error(t, err, file+", a file of a reward function", "--fresh")
		write("first")
		if _, err := Run(t.Context(), c, options(dir, &watch{}, 2)); err != nil {
			t.Errorf("after step %d, restored: %v", after, err)
		}
	}
}

// begun interrupts a run at its first evaluation.
type begun struct {
	watch
	stop bool
}

func (b *begun) Eval(rundir.Eval) {
	if b.stop {
		b.cancel()
	}
}

// TestBrokenScript: a script that fails leaves no folder.
func TestBrokenScript(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	c := custom(quick(), func(f *config.CustomReward) { f.Command = []string{"go", "no-such-command"} })
	expect.Error(t, errorOf(c, dir), "go no-such-command: unknown command")
	c.Reward.Custom[0].Command[0] = "./no-such-program"
	if err := errorOf(c, dir); !errors.Is(err, config.ErrConfig) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Error("the folder exists")
	}
}

// TestRewardTime: the time of a reward program is reward_s, not rollout_s.
func TestRewardTime(t *testing.T) {
	long(t)
	file := filepath.Join(t.TempDir(), "f")
	expect.OK(t, os.WriteFile(file+".wait", nil, 0o600))
	const pause = 200 * time.Millisecond
	go func() {
		for t.Context().Err() == nil {
			if _, err := os.Stat(file + ".asked"); err == nil {
				time.Sleep(pause)
				os.Remove(file + ".wait")
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	m := mustRun(t, custom(quick("n_grpo_steps=3"), command(file, 1)), t.TempDir(), 1).Metrics[2]
	if m.Time.RewardS < pause.Seconds() {
		t.Errorf("%+v after a reward of %v", m.Time, pause)
	}
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
