package train

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"testing"

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
			if _, err := Run(context.Background(), cfg, options(dir, &watch{}, 1)); err != nil {
				t.Fatal(err)
			}
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
	if _, err := Run(context.Background(), cfg, options(dir, &watch{}, 1)); err != nil {
		t.Fatal(err)
	}
	check(t, dir)
}
