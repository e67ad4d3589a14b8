package train

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/model/hf"
	"grpo/pkg/policy"
	"grpo/pkg/rundir"
)

// A checkpoint leaves out what a continued run has anyway: moments before the first update, and a
// reference model that has not moved.
func TestDecoderCheckpointIsSmall(t *testing.T) {
	long(t)
	every := []string{"output.checkpoint_every_n_steps=1", "output.keep_checkpoints=5", "beta=0.1"}
	for name, tt := range map[string]struct {
		set   []string
		moved []bool // the reference model, after each step
	}{
		"fixed":  {nil, []bool{false, false, false, false}},
		"synced": {[]string{"ref_model_sync_steps=2"}, []bool{false, false, true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := tinyDecoder(t, append(tt.set, every...)...)
			want := mustRun(t, cfg, t.TempDir(), 1)
			for step, moved := range tt.moved {
				file := stepName(step)
				if step == 3 {
					file = rundir.LastFile
				}
				c, _, err := readCheckpoint(filepath.Join(want.Dir, rundir.CheckpointDir, file))
				if err != nil || (c.M != nil) != (step > 0) || (c.Reference != nil) != moved {
					t.Errorf("step %d: moments %v, reference %v, %v", step, c.M != nil, c.Reference != nil, err)
				}
			}
			dir := interrupted(t, cfg, 1)
			remove(t, filepath.Join(dir, rundir.CheckpointDir, rundir.LastFile)) // continue from step 0
			w := &watch{}
			if _, err := Run(context.Background(), cfg, options(dir, w, 1)); err != nil || w.resumed != 0 {
				t.Fatalf("continued after step %d, %v", w.resumed, err)
			}
			sameBits(t, want, open(t, dir))
		})
	}
}

// The best weights are a folder that is a model of its own: it has the weights that were evaluated,
// and the run's base is not needed to read it.
func TestDecoderBestIsAFolder(t *testing.T) {
	long(t)
	cfg := tinyDecoder(t, "output.keep=best") // no answer is right, so the base stays the best
	run := mustRun(t, cfg, t.TempDir(), 1)
	best := filepath.Join(run.Dir, rundir.CheckpointDir, rundir.BestFolder)
	base, err := hf.Open(cfg.Model.Init)
	expect.OK(t, err)
	defer base.Close()
	saved, err := hf.Open(best)
	expect.OK(t, err)
	defer saved.Close()
	names, _ := base.Config.Shapes()
	for _, name := range names {
		x, _ := base.Read(name)
		if y, err := saved.Read(name); err != nil || !slices.Equal(x, y) {
			t.Errorf("%s: other weights, %v", name, err)
		}
	}
	// As if the process had been killed before it removed the others: showing the result does.
	put(t, filepath.Join(run.Dir, rundir.CheckpointDir, rundir.LastFile), []byte("left"))
	mustRun(t, cfg, run.Dir, 1)
	entries, _ := os.ReadDir(filepath.Join(run.Dir, rundir.CheckpointDir))
	if len(entries) != 2 || entries[0].Name() != rundir.BestFolder { // and seal.json
		t.Errorf("output.keep=best left %v", entries)
	}
	remove(t, cfg.Model.Init)
	found, err := policy.FindCheckpoint(run.Dir, "")
	if err != nil || found.File != best || found.HiddenSize != 16 {
		t.Errorf("the run's checkpoint is %+v, %v", found, err)
	}
	again := cfg
	again.Model.Init = found.File
	e, _, err := evaluateCheckpoint(again, "val", 0, 1, nil)
	if err = errors.Join(err, rundir.CompareEvals(e, []rundir.Eval{run.Result.Best})); err != nil {
		t.Error(err)
	}
}

// Damaged best weights are reported when a run continues, and keep the others from being removed.
func TestDecoderBestIsVerified(t *testing.T) {
	long(t)
	cfg := tinyDecoder(t, "output.keep=best", "output.checkpoint_every_n_steps=1")
	for _, name := range []string{"model.safetensors", "tokenizer.json", ""} {
		dir := interrupted(t, cfg, 1)
		best := filepath.Join(dir, rundir.CheckpointDir, rundir.BestFolder)
		if name == "" {
			remove(t, best)
		} else {
			flip(t, filepath.Join(best, name), -5)
		}
		w := watched(t, cfg, dir)
		if notes := strings.Join(w.notes, "\n"); !strings.Contains(notes, "damage: ") || !strings.Contains(notes, filepath.Join(rundir.BestFolder, name)) {
			t.Errorf("%q: notes %q", name, notes)
		}
		slurp(t, filepath.Join(dir, rundir.CheckpointDir, rundir.LastFile))
	}
}

// A process that was killed while it replaced the best weights leaves the old ones or the new ones.
func TestDecoderBestSurvivesAKill(t *testing.T) {
	cfg := tinyDecoder(t, "output.checkpoint_every_n_steps=1")
	dir := interrupted(t, cfg, 1)
	best := filepath.Join(dir, rundir.CheckpointDir, rundir.BestFolder)
	expect.OK(t, os.Rename(best, best+".old"))
	left := filepath.Join(filepath.Dir(best), ".best.1-1.grpo-tmp")
	expect.OK(t, os.Mkdir(left, 0o755))
	put(t, filepath.Join(left, "model.safetensors"), []byte("half"))
	w := &watch{}
	if _, err := Run(context.Background(), cfg, options(dir, w, 1)); err != nil || len(w.notes) > 0 {
		t.Fatal(w.notes, err)
	}
	var names []string
	entries, _ := os.ReadDir(filepath.Dir(best))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "best last.safetensors seal.json step-000002.safetensors" {
		t.Errorf("the folder has %s", got)
	}
}

// What fails while the run goes on ends it.
func TestDecoderSaveFailsInTheBackground(t *testing.T) {
	cfg := tinyDecoder(t, "output.checkpoint_every_n_steps=1")
	dir := filepath.Join(t.TempDir(), "run")
	last := filepath.Join(dir, rundir.CheckpointDir, rundir.LastFile)
	block := func() { // a file can't replace a folder
		remove(t, last)
		if err := os.MkdirAll(filepath.Join(last, "x"), 0o755); err != nil {
			t.Error(err)
		}
	}
	_, err := Run(context.Background(), cfg, options(dir, &atEval{do: block}, 1))
	expect.Error(t, err, last)
	if temps, _ := filepath.Glob(filepath.Join(dir, "*", ".*tmp")); len(temps) > 0 {
		t.Errorf("left behind %q", temps)
	}
}

// atEval is an observer that does something after the evaluation of step 0.
type atEval struct {
	watch
	do func()
}

func (a *atEval) Eval(e rundir.Eval) {
	if e.Step == 0 {
		a.do()
	}
}
