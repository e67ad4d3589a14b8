package train

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
	"grpo/pkg/model/safetensors"
	"grpo/pkg/rundir"
)

// rewrite changes the metadata of a checkpoint and updates its checksum: it is intact but
// different.
func rewrite(t testing.TB, path string, change func(metadata map[string]string)) {
	t.Helper()
	f, err := safetensors.ReadFile(path)
	expect.OK(t, err)
	change(f.Metadata)
	data, err := safetensors.EncodeChecksummed(f.Tensors, f.Metadata)
	expect.OK(t, err)
	put(t, path, data)
}

func metadataOf(t testing.TB, path string) map[string]string {
	t.Helper()
	c, err := model.ReadCheckpointFile(path)
	expect.OK(t, err)
	return c.Metadata
}

// An intact checkpoint that would give other bits is refused, and the run does not fall back to an
// earlier one.
func TestRefusesCheckpointsOfOthers(t *testing.T) {
	long(t)
	cfg := mini(t)
	set := func(key string, change func(string) string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, rundir.CheckpointDir, rundir.LastFile)
			rewrite(t, path, func(m map[string]string) { m[key] = change(m[key]) })
		}
	}
	replace := func(old, new string) func(string) string {
		return func(s string) string {
			if !strings.Contains(s, old) {
				t.Errorf("%q is not in %q", old, s)
			}
			return strings.Replace(s, old, new, 1)
		}
	}
	for _, tt := range []struct {
		name  string
		harm  func(t *testing.T, dir string)
		want  []string
		usage bool // a mistake of the configuration
	}{
		{"a later format", set(formatKey, func(string) string { return "3" }), []string{"format 3", "continues format " + checkpointFormat}, false},
		{"the first format, without number and checksum", func(t *testing.T, dir string) {
			path := filepath.Join(dir, rundir.CheckpointDir, rundir.LastFile)
			c, err := model.ReadCheckpointFile(path)
			expect.OK(t, err)
			delete(c.Metadata, formatKey)
			data, err := c.Encode()
			expect.OK(t, err)
			put(t, path, data)
		}, []string{"format 1"}, false},
		{"another kernel", set(kernelKey, func(string) string { return "abacus" }), []string{"kernel abacus", "GRPO_KERNEL=abacus"}, false},
		{"another configuration", set(rundir.ConfigKey, replace("learning_rate: 0.001", "learning_rate: 0.002")), []string{"train.learning_rate: 0.002, now 0.001"}, true},
		{"a configuration with other keys", set(rundir.ConfigKey, replace("seed: 1", "seet: 1")), []string{`unknown key "seet"`, "another version"}, true},
		{"another position", set(stateKey, replace(`"epoch":0`, `"epoch":1`)), []string{"not a checkpoint of this run"}, false},
		{"another stream", set(stateKey, replace(`"seed":1`, `"seed":2`)), []string{"not a checkpoint of this run"}, false},
		{"other problems", func(t *testing.T, dir string) {
			f, err := os.OpenFile(cfg.Data.TrainFile, os.O_APPEND|os.O_WRONLY, 0)
			expect.OK(t, err)
			defer f.Close()
			expect.OK(t, expect.Err(f.WriteString(`{"question": "And Tom?", "answer": "3\n#### 3"}`+"\n")))
		}, []string{"the problems or the prompts (data.*)"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := interrupted(t, cfg, 3)
			tt.harm(t, dir)
			_, err := Run(context.Background(), cfg, options(dir, &watch{}, 1))
			if err == nil || errors.Is(err, config.ErrConfig) != tt.usage {
				t.Fatalf("error %v", err)
			}
			for _, want := range append(tt.want, rundir.LastFile, "--fresh") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q, want one with %q", err, want)
				}
			}
		})
	}
}

// AVX2 and AVX-512 give the same bits: a run continues under the other one.
func TestContinuesUnderAKernelOfTheSameBits(t *testing.T) {
	long(t)
	other := map[string]string{"avx2": "avx512", "avx512": "avx2", "neon": "avx2"}[kernel.Name()]
	if other == "" {
		t.Skipf("no other kernel has the bits of %s", kernel.Name())
	}
	cfg := mini(t)
	dir := interrupted(t, cfg, 3)
	rewrite(t, filepath.Join(dir, rundir.CheckpointDir, rundir.LastFile), func(m map[string]string) { m[kernelKey] = other })
	sameBits(t, mustRun(t, cfg, dir, 1), uninterrupted(t, cfg))
	if log := string(slurp(t, filepath.Join(dir, rundir.LogFile))); !strings.Contains(log, "written by the kernel "+other+", this is "+kernel.Name()) {
		t.Errorf("the log does not tell of the kernel:\n%s", log)
	}
	if got := open(t, dir).Meta.Kernel; got != kernel.Name() {
		t.Errorf("meta.json names the kernel %q, want %q", got, kernel.Name())
	}
}

// A checkpoint has the documented contents.
func TestCheckpointContents(t *testing.T) {
	long(t)
	cfg := small("algorithm.type=ppo", "loss_type=grpo_clip", "beta=0.01", "kl_in=reward", "n_grpo_steps=2", "eval.every_n_steps=1", "data.val_size=10", "seed=5", "save_samples=2")
	dir := filepath.Join(t.TempDir(), "run")
	mustRun(t, cfg, dir, 1)
	c, s, err := readCheckpoint(filepath.Join(dir, rundir.CheckpointDir, rundir.LastFile))
	expect.OK(t, err)
	if c.M == nil || c.V == nil || c.Reference == nil || c.Critic == nil || !c.Checksummed {
		t.Errorf("moments, reference or critic are missing: %+v", c)
	}
	if got := c.Metadata[rundir.ConfigKey]; got != string(config.Marshal(cfg)) || got != string(slurp(t, filepath.Join(dir, rundir.ConfigFile))) {
		t.Error("the configuration is not the run's")
	}
	if s.Step != 2 || s.Updates != 2 || s.Seed != 5 || s.Drawn != 2*48/8 || s.Best.Step > 2 || s.Test == nil || s.Checks == 0 || s.Inputs.Init == "" || s.Inputs.Problems == "" {
		t.Errorf("state %+v", *s)
	}
	for _, name := range []string{rundir.MetricsFile, rundir.EvalFile, rundir.SamplesFile} {
		if s.Logs[name] != rundir.PrefixOf(slurp(t, filepath.Join(dir, name))) {
			t.Errorf("%s: %+v does not match the file", name, s.Logs[name])
		}
	}
	best := metadataOf(t, filepath.Join(dir, rundir.CheckpointDir, rundir.BestFile))
	if best[hashKey] != config.Hash(cfg) || best[stepKey] == "" {
		t.Errorf("best weights with %v", best)
	}
}

// Checkpoints at their own interval, keeping the newest few; the run is the same.
func TestCheckpointInterval(t *testing.T) {
	long(t)
	base := []string{"n_grpo_steps=6"}
	want := uninterrupted(t, mini(t, base...))
	for _, tt := range []struct {
		set   []string
		files string
	}{
		{nil, "best last step-000004"},
		{[]string{"output.keep_checkpoints=1"}, "best last"},
		{[]string{"output.keep_checkpoints=9"}, "best last step-000000 step-000002 step-000004"},
		{[]string{"output.checkpoint_every_n_steps=1", "output.keep_checkpoints=3"}, "best last step-000004 step-000005"},
		{[]string{"output.checkpoint_every_n_steps=5", "output.keep_checkpoints=9"}, "best last step-000000 step-000005"},
		{[]string{"output.keep=best"}, "best"},
	} {
		got := uninterrupted(t, mini(t, append(tt.set, base...)...))
		sameBits(t, want, got)
		var names []string
		for _, path := range filesOf(t, got.Dir) {
			if isTensors(path) {
				names = append(names, strings.TrimSuffix(filepath.Base(path), ".safetensors"))
			}
		}
		if files := strings.Join(names, " "); files != tt.files {
			t.Errorf("%v: %s, want %s", tt.set, files, tt.files)
		}
	}
}

// A run keeps what it continues from until it is done, and only then the best weights alone; the
// same command again shows its result, and removes the leftovers of a crash after result.json.
func TestKeepBest(t *testing.T) {
	long(t)
	cfg := mini(t, "n_grpo_steps=6", "output.keep=best")
	all := cfg
	all.Output.Keep = "all"
	if config.Hash(all) != config.Hash(cfg) {
		t.Error("output.keep is in the hash")
	}
	dir := interrupted(t, cfg, 3)
	last := filepath.Join(dir, rundir.CheckpointDir, rundir.LastFile)
	slurp(t, last)
	mustRun(t, cfg, dir, 1)
	for range 2 {
		if names, err := filepath.Glob(filepath.Join(dir, rundir.CheckpointDir, "*.safetensors")); err != nil || len(names) != 1 || filepath.Base(names[0]) != rundir.BestFile {
			t.Errorf("left: %v, %v", names, err)
		}
		expect.OK(t, os.WriteFile(last, []byte("left by a crash"), 0o644))
		mustRun(t, cfg, dir, 1)
	}
	// Unreadable weights, or those of another run, must not cause the loss of the others.
	best := filepath.Join(dir, rundir.CheckpointDir, rundir.BestFile)
	put(t, last, slurp(t, best))
	other := mini(t, "n_grpo_steps=6", "output.keep=best", "seed=99")
	otherDir := t.TempDir()
	mustRun(t, other, otherDir, 1)
	for _, weights := range [][]byte{[]byte("damaged"), slurp(t, filepath.Join(otherDir, rundir.CheckpointDir, rundir.BestFile))} {
		put(t, best, weights)
		mustRun(t, cfg, dir, 1)
		slurp(t, last)
	}
}

// A run without a checkpoint yet has only seal.json to record its settings.
func TestResumeBeforeTheFirstCheckpoint(t *testing.T) {
	cfg := mini(t)
	dir := interrupted(t, cfg, 1)
	for _, path := range filesOf(t, dir) {
		if isTensors(path) || filepath.Ext(path) == ".jsonl" {
			remove(t, path)
		}
	}
	opts := options(dir, &watch{}, 1)
	opts.Resume = true
	other := cfg
	other.Train.LearningRate = 0.5
	path := filepath.Join(dir, rundir.ConfigFile)
	put(t, path, config.Marshal(other))
	expect.Error(t, expect.Err(Run(context.Background(), other, opts)), path)
	put(t, path, config.Marshal(cfg))
	expect.OK(t, expect.Err(Run(context.Background(), cfg, opts)))
	sameBits(t, uninterrupted(t, cfg), open(t, dir))
}
