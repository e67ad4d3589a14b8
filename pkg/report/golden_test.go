package report

import (
	"bytes"
	"flag"
	"math"
	"os"
	"path/filepath"
	"testing"

	"gonum.org/v1/plot/cmpimg"

	"grpo/pkg/rundir"
)

var update = flag.Bool("update", false, "write the golden files anew; look at them before you commit them")

// golden compares got with a file in testdata. Pictures may differ by a hair:
// processors with fused multiply-add round anti-aliased edges otherwise.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if filepath.Ext(name) == ".png" {
		if ok, err := cmpimg.EqualApprox("png", got, want, 0.05); err != nil || !ok {
			failed := filepath.Join(os.TempDir(), "grpo-report-"+name)
			os.WriteFile(failed, got, 0o644)
			t.Errorf("the picture is not that of %s (%v); it is in %s", path, err, failed)
		}
		return
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got\n%s\nwant (%s)\n%s", got, path, want)
	}
}

// divergedRun stopped at step 37 with a gradient that is not finite.
func divergedRun(t *testing.T) *rundir.Run {
	r := synthRun(t, 3, 37)
	r.Metrics[36].GradNorm, r.Metrics[36].Loss, r.Metrics[36].Entropy = math.Inf(1), math.NaN(), math.NaN()
	r.Missing, r.Status = nil, nil
	last := r.Evals[len(r.Evals)-1]
	r.Result = &rundir.Result{
		Status: rundir.StateDiverged, DivergedAt: ptr(37), DivergedReason: "the gradient is not finite",
		Warnings: []string{"the weights were not updated after step 36"},
		Name:     "default", Seed: 3, LearningRate: 1e-5, Steps: 200, Updates: 36, Parameters: 62820, WallS: math.NaN(),
		Initial: r.Evals[0], Final: last, BestStep: last.Step, Best: last,
	}
	return r
}

// offPolicyRun has a clip fraction, no greedy decoding and no right completion
// in its last step.
func offPolicyRun(t *testing.T) *rundir.Run {
	r := synthRun(t, 2, 200)
	for i := range r.Metrics {
		r.Metrics[i].ClipFraction = ptr(0.125)
		r.Metrics[i].LengthRight = nil
	}
	for i := range r.Evals {
		r.Evals[i].Greedy = nil
	}
	for _, e := range []*rundir.Eval{&r.Result.Initial, &r.Result.Final, &r.Result.Best, r.Result.Unseen, r.Result.Test} {
		e.Greedy = nil
	}
	return r
}

// freshRun has evaluated the base model and made no step.
func freshRun(t *testing.T) *rundir.Run { return synthRun(t, 5, 0) }

// bareRun has a configuration and nothing else, as when it has just begun.
func bareRun(t *testing.T) *rundir.Run {
	full := synthFolder(t, 6, 0)
	dir := filepath.Join(t.TempDir(), "train-6")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join(full, rundir.ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, rundir.ConfigFile), config, 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := rundir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// halfRun died while it wrote a line of metrics.
func halfRun(t *testing.T) *rundir.Run {
	dir := synthFolder(t, 1, 37)
	f, err := os.OpenFile(filepath.Join(dir, rundir.MetricsFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"step":38,"upd`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	r, err := rundir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
