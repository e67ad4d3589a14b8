package supervised

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/policy"
	"grpo/pkg/rundir"
	"grpo/pkg/train"
)

func mustLoad(t testing.TB, o config.LoadOptions) config.Config {
	t.Helper()
	o.Checkpoint = policy.FindCheckpoint
	r, err := config.Load(o)
	expect.OK(t, err)
	return r.Config
}

// modelOf is the model of a configuration.
func modelOf(t testing.TB, c config.Model, lora config.LoRA) *policy.Model {
	t.Helper()
	m, err := policy.Resolve(c, lora)
	expect.OK(t, err)
	return m
}

// until ends the context of a run after a step.
type until struct {
	step   int // 0 = never
	cancel context.CancelFunc
}

func (until) Begin(int, int)   {}
func (until) Eval(rundir.Eval) {}
func (until) Note(string)      {}
func (u until) Step(m rundir.Metrics) {
	if m.Step == u.step {
		u.cancel()
	}
}

// runUntil trains a run, or continues it, up to a step; 0 = to its end.
func runUntil(t *testing.T, cfg config.Config, dir string, step int) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := train.Run(ctx, cfg, train.Options{Dir: dir, Threads: 1, Now: time.Now, Observer: until{step, cancel}})
	return err
}

func mustRun(t *testing.T, cfg config.Config, dir string) *rundir.Run {
	t.Helper()
	expect.OK(t, runUntil(t, cfg, dir, 0))
	run, err := rundir.Open(dir)
	expect.OK(t, err)
	return run
}

// long marks tests that the race detector (-short) can skip.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("left out with -short")
	}
}

func slurp(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	expect.OK(t, err)
	return data
}

func put(t testing.TB, path string, data []byte) {
	t.Helper()
	expect.OK(t, os.WriteFile(path, data, 0o644))
}

func writeText(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	put(t, path, []byte(text))
	return path
}
