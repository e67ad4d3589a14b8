package train

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/report"
	"grpo/pkg/rundir"
)

// reported is all that a report shows of a run, without pictures.
func reported(r *rundir.Run) (string, error) {
	var b bytes.Buffer
	if err := report.WriteSummary(&b, r); err != nil {
		return "", err
	}
	err := report.WriteMarkdown(&b, []*rundir.Run{r})
	return b.String(), err
}

// Whichever byte of a run folder is damaged: opening and reporting it gives an error that names the
// file, or the same output as before.
func TestEveryByteOfARunIsChecked(t *testing.T) {
	long(t)
	t.Parallel()
	cfg := mini(t)
	for name, dir := range map[string]string{"finished": uninterrupted(t, cfg).Dir, "unfinished": interrupted(t, cfg, 3)} {
		t.Run(name, func(t *testing.T) {
			want := open(t, dir)
			text, err := reported(want)
			expect.OK(t, err)
			for _, path := range filesOf(t, dir) {
				refused, equal, stride := 0, 0, 1
				if isTensors(path) {
					stride = 997 // no reader of the folder opens them
				}
				damages(t, path, stride, func(what string) {
					r, err := rundir.Open(dir)
					if err == nil {
						var got string
						if got, err = reported(r); err == nil {
							if equal++; got != text || !sameData(r, want) {
								t.Errorf("%s: another result, and no word about it", what)
							}
							return
						}
					}
					if refused++; !strings.Contains(err.Error(), filepath.Base(path)) {
						t.Errorf("%s: error %q does not name the file", what, err)
					}
				})
				t.Logf("%s: %d refused, %d as before", filepath.Base(path), refused, equal)
			}
		})
	}
}

// sameData compares the data of all plots.
func sameData(a, b *rundir.Run) bool {
	result := func(r *rundir.Run) string {
		data, _ := rundir.Marshal(r.Result)
		return string(data)
	}
	return bytes.Equal(a.Config, b.Config) && result(a) == result(b) && rundir.CompareMetrics(a.Metrics, b.Metrics) == nil &&
		rundir.CompareEvals(a.Evals, b.Evals) == nil && rundir.CompareSamples(a.Samples, b.Samples) == nil
}

// position is where a run would continue: weights, moments and state.
func position(t testing.TB, r *trainer) string {
	t.Helper()
	s := r.state
	text, err := rundir.Marshal(s)
	expect.OK(t, err)
	return fmt.Sprint(r.Params.Hash(), r.opt.M.Hash(), r.opt.V.Hash(), r.opt.T, string(text))
}

// Whichever byte of an unfinished run is damaged: the run continues from the same point, or from
// the previous checkpoint with a note, or refuses and names the file. Both checkpoints lead to the
// same end, bit for bit.
func TestEveryByteIsCheckedOnResume(t *testing.T) {
	long(t)
	t.Parallel()
	cfg := mini(t)
	dir := interrupted(t, cfg, 3)
	r := &trainer{cfg: config.Resolve(cfg), opts: Options{Dir: dir, Threads: 1, Now: time.Now, Resume: true}}
	expect.OK(t, r.prepare())
	defer r.close()
	text := slurp(t, filepath.Join(dir, rundir.ConfigFile))
	try := func() (string, []string, error) {
		r.notes = nil
		err := r.restore(text)
		return position(t, r), r.notes, err
	}
	newest, notes, err := try()
	if err != nil || len(notes) > 0 {
		t.Fatal(notes, err)
	}
	last := filepath.Join(dir, rundir.CheckpointDir, rundir.LastFile)
	data := slurp(t, last)
	put(t, last, nil)
	before, notes, err := try()
	if err != nil || before == newest || len(notes) != 2 || !strings.Contains(notes[0], rundir.LastFile) || !strings.Contains(notes[1], "step-000002.safetensors, after step 2") {
		t.Fatal(before == newest, notes, err)
	}
	put(t, last, data)
	for _, path := range filesOf(t, dir) {
		base := filepath.Base(path)
		if base == rundir.ConfigFile {
			continue // below
		}
		same, back, refused, stride := 0, 0, 0, 1
		switch {
		case isTensors(path):
			stride = 97 // the next test takes every byte
		case filepath.Ext(path) == ".json":
			stride = 31 // a resume reads none of them
		}
		damages(t, path, stride, func(what string) {
			got, notes, err := try()
			switch said := strings.Contains(strings.Join(notes, "\n"), base); {
			case err != nil:
				if refused++; !strings.Contains(err.Error(), base) {
					t.Errorf("%s: error %q does not name the file", what, err)
				}
			case got == newest:
				if same++; said != (base == rundir.BestFile) {
					t.Errorf("%s: continues without a note, notes %q", what, notes)
				}
			case got == before && said:
				back++
			default:
				t.Errorf("%s: continues from another point, notes %q", what, notes)
			}
		})
		t.Logf("%s: %d from the newest checkpoint, %d from the one before, %d refused", base, same, back, refused)
		if base == rundir.LastFile && (same > 0 || refused > 0) {
			t.Errorf("of a damaged newest checkpoint, %d went on from it and %d were refused", same, refused)
		}
	}
}

// Every changed byte of a checkpoint is detected.
func TestEveryByteOfACheckpointIsChecked(t *testing.T) {
	long(t)
	t.Parallel()
	path := filepath.Join(interrupted(t, mini(t), 3), rundir.CheckpointDir, rundir.LastFile)
	damages(t, path, 1, func(what string) {
		if c, s, err := readCheckpoint(path); err == nil {
			t.Errorf("%s: read as a checkpoint (format %q, state %v)", what, c.Metadata[formatKey], s)
		} else if !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %q does not name the file", what, err)
		}
	})
}

// A damaged configuration is refused, or it is the same configuration and is
// rewritten, with a note.
func TestEveryByteOfTheConfigurationIsCheckedOnResume(t *testing.T) {
	long(t)
	t.Parallel()
	cfg := mini(t)
	dir := interrupted(t, cfg, 3)
	path := filepath.Join(dir, rundir.ConfigFile)
	text := slurp(t, path)
	refused, repaired := 0, 0
	damages(t, path, 1, func(what string) {
		// As cmd does for --resume.
		c, err := config.Load(config.LoadOptions{Path: path})
		if err == nil {
			r := &trainer{cfg: c.Config, opts: Options{Dir: dir, Threads: 1, Now: time.Now, Resume: true}}
			if err = r.prepare(); err == nil {
				var old []byte
				if old, err = r.sameRun(); err == nil {
					err = r.noteRewrite(old)
				}
				if err == nil {
					err = r.restore(slurp(t, path))
				}
				if err == nil {
					if repaired++; !bytes.Equal(config.Marshal(c.Config), text) || !strings.Contains(strings.Join(r.notes, "\n"), path) {
						t.Errorf("%s: continues with another configuration, notes %q", what, r.notes)
					}
				}
			} else {
				err = fmt.Errorf("%s: %w", path, err) // what it names is not there: it names that
			}
			r.close()
		}
		if err != nil {
			if refused++; !strings.Contains(err.Error(), rundir.ConfigFile) {
				t.Errorf("%s: error %q does not name the file", what, err)
			}
		}
	})
	t.Logf("%d refused, %d repaired", refused, repaired)
	if refused == 0 || repaired == 0 && os.Getenv("GRPO_LONG") != "" { // a part of the bytes may have no such case
		t.Error("the cases test nothing")
	}
}

// Runs that continue after damage end like the uninterrupted one, bit for bit.
func TestFallingBackIsExact(t *testing.T) {
	long(t)
	cfg := mini(t, "output.keep_checkpoints=3", "n_grpo_steps=6")
	want := uninterrupted(t, cfg)
	ck := func(name string) string { return filepath.Join(rundir.CheckpointDir, name) }
	for _, tt := range []struct {
		name    string
		harm    func(t *testing.T, dir string)
		resumed int
		note    string
		refuse  string
	}{
		{"nothing", func(*testing.T, string) {}, 5, "", ""},
		{"the newest", func(t *testing.T, dir string) { flip(t, filepath.Join(dir, ck(rundir.LastFile)), -1) }, 4, rundir.LastFile, ""},
		{"the newest two", func(t *testing.T, dir string) {
			flip(t, filepath.Join(dir, ck(rundir.LastFile)), 100)
			flip(t, filepath.Join(dir, ck(stepName(4))), -5)
		}, 2, stepName(4), ""},
		{"the newest is missing", func(t *testing.T, dir string) { remove(t, filepath.Join(dir, ck(rundir.LastFile))) }, 4, "", ""},
		{"all of them", func(t *testing.T, dir string) {
			for _, name := range []string{rundir.LastFile, stepName(4), stepName(2)} {
				flip(t, filepath.Join(dir, ck(name)), -1)
			}
		}, 0, "", "can be continued"},
		{"no checkpoint", func(t *testing.T, dir string) { remove(t, filepath.Join(dir, rundir.CheckpointDir)) }, 0, "", "has steps, but there is no checkpoint"},
		{"a damaged line after the previous checkpoint", func(t *testing.T, dir string) { flip(t, filepath.Join(dir, rundir.MetricsFile), -20) }, 4, rundir.MetricsFile, ""},
		{"the end of a log", func(t *testing.T, dir string) { cutOff(t, filepath.Join(dir, rundir.MetricsFile), 30) }, 4, rundir.MetricsFile, ""},
		{"the first line", func(t *testing.T, dir string) { flip(t, filepath.Join(dir, rundir.MetricsFile), 40) }, 0, "", rundir.MetricsFile},
		{"a log is missing", func(t *testing.T, dir string) { remove(t, filepath.Join(dir, rundir.EvalFile)) }, 0, "", rundir.EvalFile},
		{"the best weights", func(t *testing.T, dir string) { flip(t, filepath.Join(dir, ck(rundir.BestFile)), -1) }, 5, rundir.BestFile, ""},
		{"the checksums", func(t *testing.T, dir string) { put(t, filepath.Join(dir, ck(rundir.ChecksumsFile)), []byte("{")) }, 5, "", ""},
		{"a leftover of a killed writer", func(t *testing.T, dir string) {
			put(t, filepath.Join(dir, rundir.CheckpointDir, ".last.safetensors.1-1.grpo-tmp"), []byte("half"))
			put(t, filepath.Join(dir, ".status.json.1-1.grpo-tmp"), []byte("half"))
		}, 5, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := interrupted(t, cfg, 5)
			tt.harm(t, dir)
			before := map[string][]byte{}
			for _, path := range filesOf(t, dir) {
				before[path] = slurp(t, path)
			}
			w := &watch{}
			_, err := Run(context.Background(), cfg, options(dir, w, 1))
			if tt.refuse != "" {
				expect.Error(t, err, tt.refuse, "--fresh")
				for path, data := range before {
					if !bytes.Equal(slurp(t, path), data) {
						t.Errorf("%s was changed by a run that was refused", path)
					}
				}
				return
			}
			expect.OK(t, err)
			if w.resumed != tt.resumed {
				t.Errorf("continues after step %d, want %d", w.resumed, tt.resumed)
			}
			if notes := strings.Join(w.notes, "\n"); !strings.Contains(notes, tt.note) || tt.note == "" && notes != "" {
				t.Errorf("notes %q, want %q", notes, tt.note)
			}
			if log := string(slurp(t, filepath.Join(dir, rundir.LogFile))); !strings.Contains(log, tt.note) {
				t.Errorf("run.log does not contain %q", tt.note)
			}
			got := open(t, dir)
			sameBits(t, want, got)
			if got.Result.Checks != want.Result.Checks {
				t.Errorf("%d checks, want %d", got.Result.Checks, want.Result.Checks)
			}
			files := filesOf(t, dir)
			for _, path := range files {
				if !isTensors(path) {
					continue
				}
				if c, err := model.ReadCheckpointFile(path); tt.note != rundir.BestFile && (err != nil || !c.Checksummed) {
					t.Errorf("%s: sealed %v, %v", path, c != nil && c.Checksummed, err)
				}
			}
			if len(files) != len(filesOf(t, want.Dir)) {
				t.Errorf("the files are %q, an uninterrupted run has %d", files, len(filesOf(t, want.Dir)))
			}
		})
	}
}
