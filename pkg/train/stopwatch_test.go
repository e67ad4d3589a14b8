package train

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"
)

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
	if _, err := Run(ctx, cfg, opts); !errors.Is(err, ErrInterrupted) {
		t.Fatal(err)
	}
	clock = time.Unix(1, 0) // before everything
	opts.Observer = &watch{}
	if _, err := Run(context.Background(), cfg, opts); err != nil {
		t.Fatal(err)
	}
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
