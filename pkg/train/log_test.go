package train

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"grpo/internal/expect"
	"grpo/pkg/rundir"
	"grpo/pkg/tensorboard"
)

// A run writes its event file while it trains. Continued after an interruption or a crash, the file
// has every step and evaluation once, as if it were made from the logs.
func TestEventFile(t *testing.T) {
	long(t)
	cfg := mini(t, "output.tensorboard=true", "data.test_file=", "n_grpo_steps=6")
	check := func(t *testing.T, dir string) {
		t.Helper()
		run := open(t, dir)
		want, _ := tensorboard.Run(run)
		if got := slurp(t, filepath.Join(dir, rundir.EventsFile)); !bytes.Equal(got, want) || len(run.Metrics) != 6 {
			t.Errorf("%d bytes of events, want %d, of %d steps", len(got), len(want), len(run.Metrics))
		}
		if got := slurp(t, filepath.Join(dir, rundir.TableFile)); !bytes.Equal(got, run.CSV("", fmt.Sprint(run.Result.Seed))) {
			t.Errorf("%s is not that of the run", rundir.TableFile)
		}
	}
	check(t, uninterrupted(t, cfg).Dir)
	for name, harm := range map[string]func(t *testing.T, path string){
		"interrupted": func(*testing.T, string) {},
		"crashed": func(t *testing.T, path string) { // it has events after the checkpoint, the last of them cut
			data := slurp(t, path)
			put(t, path, append(data, data[:len(data)-5]...))
		},
		"lost": func(t *testing.T, path string) { remove(t, path) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := interrupted(t, cfg, 3)
			harm(t, filepath.Join(dir, rundir.EventsFile))
			mustRun(t, cfg, dir, 1)
			check(t, dir)
			if meta := open(t, dir).Meta; meta.ElapsedS <= 0 {
				t.Errorf("%v seconds before the last start", meta.ElapsedS)
			}
		})
	}
	// Switched on later, it has the steps before, too.
	off := cfg
	off.Output.TensorBoard = false
	dir := interrupted(t, off, 3)
	mustRun(t, cfg, dir, 1)
	check(t, dir)
}

// If the clock jumps, no time is negative, and only times change.
func TestClockJumps(t *testing.T) {
	cfg := mini(t)
	want := uninterrupted(t, cfg)
	clock, calls := time.Unix(1e9, 0), 0
	jumps := []time.Duration{time.Second, -time.Hour, 30 * time.Minute, -24 * time.Hour, 0, 48 * time.Hour, -time.Nanosecond}
	now := func() time.Time {
		calls++
		clock = clock.Add(jumps[calls%len(jumps)])
		return clock
	}
	dir := filepath.Join(t.TempDir(), "run")
	ctx, cancel := context.WithCancel(context.Background())
	opts := options(dir, &watch{after: 2, cancel: cancel}, 1)
	opts.Now = now
	if _, err := Run(ctx, cfg, opts); !errors.Is(err, rundir.ErrInterrupted) {
		t.Fatal(err)
	}
	clock = time.Unix(1, 0) // before everything
	opts.Observer = &watch{}
	expect.OK(t, expect.Err(Run(context.Background(), cfg, opts)))
	got := open(t, dir)
	sameBits(t, want, got)
	elapsed := 0.0
	for _, m := range got.Metrics {
		for name, s := range map[string]float64{"rollout": m.Time.RolloutS, "reward": m.Time.RewardS, "update": m.Time.UpdateS, "eval": m.Time.EvalS, "tokens": m.Time.TokensPerS} {
			if s < 0 {
				t.Errorf("step %d: %s time %v", m.Step, name, s)
			}
		}
		if m.Time.ElapsedS < elapsed {
			t.Errorf("step %d: %v elapsed, %v before", m.Step, m.Time.ElapsedS, elapsed)
		}
		elapsed = m.Time.ElapsedS
	}
	if got.Result.WallS < elapsed {
		t.Errorf("wall time %v, %v before", got.Result.WallS, elapsed)
	}
}
