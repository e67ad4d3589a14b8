package sweep

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
	"grpo/pkg/sweepdir"
	"grpo/pkg/train"
)

// quiet is an observer that does nothing.
type quiet struct{}

func (quiet) Begin(int, int)      {}
func (quiet) Step(rundir.Metrics) {}
func (quiet) Eval(rundir.Eval)    {}
func (quiet) Note(string)         {}

func taskOptions() TaskOptions { return TaskOptions{Threads: 1, Now: time.Now, Observer: quiet{}} }

func TestTask(t *testing.T) {
	long(t)
	m := realManifest(t, []string{"0.001"}, 1)
	dir := writeSweep(t, m)
	// What a process leaves that is killed while it writes a checkpoint.
	leftover := filepath.Join(m.Runs[0].Path(dir), rundir.CheckpointDir, ".last.safetensors.1-1.grpo-tmp")
	expect.OK(t, os.MkdirAll(filepath.Dir(leftover), 0o755))
	expect.OK(t, os.WriteFile(leftover, []byte("half"), 0o644))
	res, err := Task(t.Context(), dir, 0, taskOptions())
	expect.OK(t, err)
	if _, err := os.Stat(leftover); err == nil {
		t.Error("the leftover of a killed process is still there")
	}
	s := sweepdir.StateOf(dir, m.Runs[0])
	if s.State != rundir.StateDone || s.Run.Result.WeightsSHA256 != res.WeightsSHA256 || string(s.Run.Config) != m.Runs[0].Config {
		t.Errorf("state %s, result %+v", s.State, s.Run.Result)
	}
	// It is what `grpo train` makes of the same configuration.
	plain := t.TempDir()
	cfg, err := frozen(m.Runs[0])
	expect.OK(t, err)
	want, err := train.Run(t.Context(), cfg, train.Options{Dir: plain, Threads: 2, Now: time.Now, Observer: quiet{}})
	if err != nil || want.WeightsSHA256 != res.WeightsSHA256 {
		t.Errorf("plain training: %v, %v", want, err)
	}
}

func TestTaskRefuses(t *testing.T) {
	whole := realManifest(t, []string{"0.001"}, 1)
	tests := []struct {
		name    string
		index   int
		damage  func(m *sweepdir.Manifest)
		want    string
		reports bool // also reported in the folder
	}{
		{"a run that is not there", 1, func(*sweepdir.Manifest) {}, "there is no run 1 (the sweep has runs 0 to 0)", false},
		{"a negative index", -1, func(*sweepdir.Manifest) {}, "there is no run -1", false},
		{"an edited configuration", 0, func(m *sweepdir.Manifest) {
			m.Runs[0].Config = strings.Replace(m.Runs[0].Config, "n_grpo_steps: 8", "n_grpo_steps: 9", 1)
		}, "has the hash", true},
		{"an unknown key", 0, func(m *sweepdir.Manifest) { m.Runs[0].Config += "new_key: 1\n" }, "new_key", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := whole
			m.Runs = append([]sweepdir.Entry(nil), whole.Runs...)
			tt.damage(&m)
			m.Hash = m.Identity()
			dir := writeSweep(t, m)
			_, err := Task(t.Context(), dir, tt.index, taskOptions())
			invalid(t, "task", err, tt.want)
			s := sweepdir.StateOf(dir, m.Runs[0])
			if got := s.State == rundir.StateFailed && s.Run != nil && strings.Contains(s.Error, tt.want); got != tt.reports {
				t.Errorf("state %s, error %q", s.State, s.Error)
			}
		})
	}
	_, err := Task(t.Context(), t.TempDir(), 0, taskOptions())
	invalid(t, "a folder without a manifest", err, "is not the folder of a sweep")
}

// A failure before the run can begin is reported in its folder too.
func TestTaskReportsAFailure(t *testing.T) {
	file := filepath.Join(t.TempDir(), "problems.jsonl")
	m := realManifest(t, []string{"0.001"}, 1, "data.source=gsm8k", "data.train_file="+file, "data.val_file="+file)
	dir := writeSweep(t, m)
	_, err := Task(t.Context(), dir, 0, taskOptions())
	if !errors.Is(err, os.ErrNotExist) || !errors.Is(err, config.ErrConfig) {
		t.Fatalf("error %v", err)
	}
	s := sweepdir.StateOf(dir, m.Runs[0])
	if s.State != rundir.StateFailed || s.Error != err.Error() || s.Run.Status.PID != os.Getpid() {
		t.Errorf("state %s, error %q", s.State, s.Error)
	}
}

func TestTaskInterrupted(t *testing.T) {
	m := realManifest(t, []string{"0.001"}, 1)
	dir := writeSweep(t, m)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Task(ctx, dir, 0, taskOptions()); !errors.Is(err, rundir.ErrInterrupted) {
		t.Errorf("error %v", err)
	}
	if s := sweepdir.StateOf(dir, m.Runs[0]); s.State != rundir.StateInterrupted {
		t.Errorf("state %s: %s", s.State, s.Error)
	}
}

// Another process at the same run is no failure of the run.
func TestTaskElsewhere(t *testing.T) {
	m := realManifest(t, []string{"0.001"}, 1)
	dir := writeSweep(t, m)
	unlock, err := rundir.Claim(m.Runs[0].Path(dir), rundir.KindRun, nil)
	expect.OK(t, err)
	_, err = Task(t.Context(), dir, 0, taskOptions())
	if !errors.Is(err, rundir.ErrInterrupted) || errors.Is(err, rundir.ErrNothingSaved) || !strings.Contains(err.Error(), "is writing to this folder") {
		t.Errorf("error %v", err)
	}
	expect.OK(t, unlock())
	if s := sweepdir.StateOf(dir, m.Runs[0]); s.State != sweepdir.Missing {
		t.Errorf("state %s: %s", s.State, s.Error)
	}
}
