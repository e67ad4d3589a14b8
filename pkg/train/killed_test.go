package train

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"grpo/internal/expect"
	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
)

// killedRun trains until a step whose observer panics, as a process that is killed: it leaves the folder
// with the status "running". A step takes four minutes.
func killedRun(t *testing.T, opts Options, at int, set ...string) (dir string, notes []string) {
	t.Helper()
	w := &slowSteps{at: at, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	opts.Dir, opts.Observer, opts.Now, opts.Threads = t.TempDir(), w, func() time.Time { return w.now }, 1
	defer func() {
		if recover() == nil {
			t.Fatalf("the run did not reach step %d", at)
		}
		dir, notes = opts.Dir, w.notes
	}()
	_, err := Run(context.Background(), small(set...), opts)
	t.Fatal(err)
	return "", nil
}

type slowSteps struct {
	watch
	at  int
	now time.Time
}

func (s *slowSteps) Step(m rundir.Metrics) {
	s.now = s.now.Add(4 * time.Minute)
	if m.Step == s.at {
		panic("killed")
	}
}

// A run whose only checkpoints by steps are the first and the last saves by time as well. After it was
// killed, it continues with the same bits and says what happened.
func TestCheckpointsByTime(t *testing.T) {
	long(t)
	set := []string{"eval.every_n_steps=8", "output.checkpoint_every_minutes=10"}
	dir, _ := killedRun(t, Options{}, 7, set...)
	if got := rundir.SavedStep(dir); got != 4 {
		t.Errorf("the last checkpoint is after step %d, want 4", got)
	}
	if r := open(t, dir); r.Status.State != rundir.StateRunning || r.Status.Step != 6 {
		t.Errorf("status %+v, want running after step 6", *r.Status)
	}
	w := &watch{}
	expect.OK(t, expect.Err(Run(context.Background(), small(set...), options(dir, w, 2))))
	said := strings.Join(w.notes, "\n")
	for _, want := range []string{"step 7 of 8", "after step 4", "train.gradient_accumulation_steps", "the estimate is"} {
		if !strings.Contains(said, want) {
			t.Errorf("the notes lack %q: %s", want, said)
		}
	}
	if w.resumed != 4 {
		t.Errorf("continued after step %d, want 4", w.resumed)
	}
	sameBits(t, uninterrupted(t, small("eval.every_n_steps=8")), open(t, dir))
}

// A checkpoint by time that has no room on the disk is skipped with a note.
func TestCheckpointByTimeWithoutRoom(t *testing.T) {
	long(t)
	calls := 0
	disk := func(string, float64) error {
		if calls++; calls > 1 { // the first is for the run
			return errors.New("no room")
		}
		return nil
	}
	dir, notes := killedRun(t, Options{Disk: disk}, 5, "eval.every_n_steps=8", "output.checkpoint_every_minutes=10")
	if got := rundir.SavedStep(dir); got != 0 || len(notes) != 1 || !strings.Contains(notes[0], "no room") {
		t.Errorf("saved after step %d, notes %q", got, notes)
	}
}

// The estimate of the space of a small Llama is not that of the tokenizer of a large one.
func TestDiskOfSmallModel(t *testing.T) {
	cfg := tinyDecoder(t)
	if need := budget.DiskOf(modelOf(t, cfg.Model, cfg.Train.LoRA), cfg).Peak; need > 8<<20 {
		t.Errorf("%s for a model of some kilobytes", budget.Bytes(need))
	}
}

// What helps most against a lack of memory comes first.
func TestNeedLess(t *testing.T) {
	needLess := func(cfg config.Config) string { return budget.NeedLess(modelOf(t, cfg.Model, cfg.Train.LoRA), cfg) }
	if got := needLess(tinyDecoder(t)); !strings.HasPrefix(got, "train adapters (train.lora.rank") {
		t.Error(got)
	}
	for _, cfg := range []config.Config{tinyDecoder(t, "train.lora.rank=2"), small()} {
		if got := needLess(cfg); strings.Contains(got, "lora") || !strings.Contains(got, "rollout_batch_size") {
			t.Error(got)
		}
	}
}
