package infer

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/yamldoc"
	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/rundir"
)

// auditConfig is a small audit of the base model against itself.
func auditConfig(t *testing.T) AuditOptions {
	t.Helper()
	r, err := config.Load(config.LoadOptions{Path: "smoke", Set: []string{"data.val_size=12", "eval.temperature=1.5"}})
	expect.OK(t, err)
	return AuditOptions{Options: Options{Config: r.Config, Note: func(string) {}}, Split: "val", Samples: 100,
		Trained: []Trained{{Name: "itself", Config: r.Config}}}
}

// TestAudit: an audit that is interrupted and goes on, with other batches and threads, has the same draws as a whole
// one; draws differ from each other; a policy has not drifted from itself.
func TestAudit(t *testing.T) {
	run := func(dir string, o AuditOptions, ctx context.Context) (*Audited, error) {
		logs, err := rundir.ReadAudit(dir)
		expect.OK(t, err)
		defer func() { expect.OK(t, logs.Close()) }()
		o.Logs = logs
		return Audit(ctx, o)
	}
	whole, cut := t.TempDir(), t.TempDir()
	o := auditConfig(t)
	want, err := run(whole, o, context.Background())
	expect.OK(t, err)

	ctx, cancel := context.WithCancel(context.Background())
	o.Progress = func(a model.Activity) {
		if a.Done > 500 && a.What == "draw 2 of 3, the initial policy" {
			cancel()
		}
	}
	if _, err = run(cut, o, ctx); !errors.Is(err, rundir.ErrInterrupted) {
		t.Fatalf("interrupted: %v", err)
	}
	logs, err := rundir.ReadAudit(cut)
	expect.OK(t, err)
	if n := len(logs.Draws); n < 2 || n > 4 {
		t.Errorf("%d lines are left of an interrupted audit", n)
	}
	o.Threads, o.Progress = 3, nil
	got, err := run(cut, o, context.Background())
	expect.OK(t, err)
	if !reflect.DeepEqual(got.Base, want.Base) || !reflect.DeepEqual(got.Trained, want.Trained) ||
		!reflect.DeepEqual(got.Drift, want.Drift) {
		t.Error("an audit that was interrupted has other results")
	}
	if data, err := rundir.ReadAudit(whole); err != nil || len(data.Draws) != 6 || len(data.Drifts) != 1 {
		t.Errorf("%d draws, %v", len(data.Draws), err)
	}
	o.Progress = func(a model.Activity) {
		if a.Of > 0 {
			t.Errorf("an audit that is complete does %s", a.What)
		}
	}
	_, err = run(whole, o, context.Background())
	expect.OK(t, err)

	o.Progress, o.Problems = nil, 5
	few, err := run(t.TempDir(), o, context.Background())
	expect.OK(t, err)
	if !reflect.DeepEqual(few.Trained[0].Votes, want.Trained[0].Votes[:5]) || len(few.Problems) != 5 {
		t.Errorf("5 of 12 problems have other draws: %v", few.Trained[0].Votes)
	}

	votes := [][][]int{want.Base[0].Votes, want.Base[1].Votes, want.Trained[0].Votes}
	for i := range votes {
		if len(votes[i]) != 12 || reflect.DeepEqual(votes[i], votes[(i+1)%3]) {
			t.Errorf("draw %d: %v", i, votes[i])
		}
	}
	d := want.Drift[0]
	if len(d.Tokens) != 12 || slices.ContainsFunc(d.LogRatio, func(v float64) bool { return v != 0 }) ||
		!reflect.DeepEqual(d.Entropy, d.BaseEntropy) || *d.Changed != 0 || *d.Distance != 0 || !(d.Entropy[0] > 0) {
		t.Errorf("a policy has drifted from itself: %+v", d)
	}
	c := want.Base[0].Counts
	if c.N != 1200 || !(c.Length > 1) || math.Abs(c.AnswerReward-float64(c.CorrectNum)/1200) > 1e-12 {
		t.Errorf("%+v", c)
	}
}

// TestAuditStops: completions of an audit end at the texts of data.stop, and draws without them are not taken for these.
func TestAuditStops(t *testing.T) {
	logs, err := rundir.ReadAudit(t.TempDir())
	expect.OK(t, err)
	defer func() { expect.OK(t, logs.Close()) }()
	o := auditConfig(t)
	o.Samples, o.Logs = 4, logs
	whole, err := Audit(t.Context(), o)
	expect.OK(t, err)
	o.Config.Data.Stop = []yamldoc.Text{"="}
	o.Trained[0].Config = o.Config
	got, err := Audit(t.Context(), o)
	expect.OK(t, err)
	for i, draw := range []rundir.AuditDraw{got.Base[0], got.Base[1], got.Trained[0]} {
		if !(draw.Counts.Length < whole.Base[0].Counts.Length/2) {
			t.Errorf("draw %d has %g tokens in the mean, %g without a text to stop at", i, draw.Counts.Length, whole.Base[0].Counts.Length)
		}
	}
	if d, w := got.Drift[0].Tokens, whole.Drift[0].Tokens; reflect.DeepEqual(d, w) {
		t.Errorf("the drift is of completions of %v tokens with and without it", d)
	}
}

// TestAuditRefuses: a policy that was trained from other weights than the configuration's.
func TestAuditRefuses(t *testing.T) {
	o := auditConfig(t)
	o.Trained[0].InitHash = "0123456789"
	o.Logs = &rundir.AuditLogs{}
	_, err := Audit(context.Background(), o)
	expect.Error(t, err, "audit itself: it was trained from other weights (01234567)")
	if !errors.Is(err, config.ErrConfig) {
		t.Error(err)
	}
	_, err = rundir.ReadAudit(filepath.Join(t.TempDir(), "none"))
	expect.OK(t, err)
}
