package train

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/model/tinylm"
	"grpo/pkg/model/tinylm/tokenizer"
	"grpo/pkg/policy"
	"grpo/pkg/rundir"
)

// writeWeights writes a model of a size, changed by spoil, as a file of weights.
func writeWeights(t *testing.T, path string, hidden, layers int, spoil func(*tinylm.Weights)) {
	t.Helper()
	p, err := tinylm.NewWeights(tinylm.Spec{Vocab: tokenizer.VocabSize, Hidden: hidden, Layers: layers})
	expect.OK(t, err)
	p.Init(1)
	if spoil != nil {
		spoil(p)
	}
	data, err := (&model.Checkpoint{Params: p.Params}).Encode()
	expect.OK(t, err)
	expect.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
	expect.OK(t, os.WriteFile(path, data, 0o644))
}

// Weights with NaN or Inf are refused wherever they come from, with the tensor and the index: an
// evaluation of them would count 0 correct answers.
func TestWeightsThatAreNotFinite(t *testing.T) {
	for name, v := range map[string]float64{"NaN": math.NaN(), "+Inf": math.Inf(1), "-Inf": math.Inf(-1)} {
		path := filepath.Join(t.TempDir(), "w.safetensors")
		writeWeights(t, path, 8, 2, func(p *tinylm.Weights) { p.Layer[1].Whh[19] = float32(v) })
		want := []string{path, `tensor "rnn.weight_hh_l1" has ` + name + " at [2 3]"}
		check := func(what string, err error) {
			t.Helper()
			if err == nil {
				t.Errorf("%s: no error", what)
				return
			}
			for _, w := range want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%s: error %q does not contain %q", what, err, w)
				}
			}
		}
		cfg := mini(t, "model.init="+path, "hidden_size=8", "num_layers=2")
		dir := filepath.Join(t.TempDir(), "run")
		_, err := Run(t.Context(), cfg, options(dir, &watch{}, 1))
		check("model.init", err)
		if _, err := os.Stat(dir); err == nil {
			t.Error("a folder was created")
		}
		_, _, err = evaluateCheckpoint(cfg, "val", 0, 1, nil)
		check("evaluation", err)
		_, err = Run(t.Context(), mini(t, "teacher="+path, "loss_type=grpo_clip"), options(t.TempDir(), &watch{}, 1))
		check("teacher", err)
	}
}

// A checkpoint with NaN or Inf weights is damage: the run continues from the previous one, unless
// it stopped because of such numbers.
func TestResumeRefusesWeightsThatAreNotFinite(t *testing.T) {
	cfg := mini(t, "output.keep_checkpoints=1")
	dir := interrupted(t, cfg, 3)
	path := filepath.Join(dir, rundir.CheckpointDir, rundir.LastFile)
	c, err := model.ReadCheckpointFile(path)
	expect.OK(t, err)
	c.Params.Flat[0] = float32(math.Inf(1))
	data, err := c.EncodeChecksummed()
	expect.OK(t, err)
	expect.OK(t, os.WriteFile(path, data, 0o644))
	expect.Error(t, errorOf(cfg, dir), `tensor "embed.weight" has +Inf at [0 0]`)
}

// The width and depth of a model are its checkpoint's, in every form in which model.init names one,
// and the resolved configuration has them.
func TestModelSizeFollowsTheCheckpoint(t *testing.T) {
	t.Chdir(t.TempDir())
	writeWeights(t, "base16/model.safetensors", 16, 1, nil)
	writeWeights(t, "run/checkpoint/last.safetensors", 24, 3, nil)
	writeWeights(t, "run/checkpoint/best.safetensors", 24, 2, nil)
	writeWeights(t, "kept/checkpoint/best.safetensors", 12, 2, nil)
	writeWeights(t, "bare", 10, 1, nil)
	expect.OK(t, os.MkdirAll("empty", 0o755))
	load := func(set ...string) (config.Config, error) {
		r, err := config.Load(config.LoadOptions{Path: "smoke", Set: set, Checkpoint: policy.FindCheckpoint})
		if err != nil {
			return config.Config{}, err
		}
		return r.Config, nil
	}
	for init, want := range map[string]config.Model{
		"base16":                          {Init: "base16/model.safetensors", HiddenSize: 16, NumLayers: 1},
		"./base16/":                       {Init: "base16/model.safetensors", HiddenSize: 16, NumLayers: 1},
		"./base16/model.safetensors":      {Init: "./base16/model.safetensors", HiddenSize: 16, NumLayers: 1},
		"run":                             {Init: "run/checkpoint/last.safetensors", HiddenSize: 24, NumLayers: 3},
		"kept":                            {Init: "kept/checkpoint/best.safetensors", HiddenSize: 12, NumLayers: 2},
		"run/checkpoint/best.safetensors": {Init: "run/checkpoint/best.safetensors", HiddenSize: 24, NumLayers: 2},
		"bare":                            {Init: "./bare", HiddenSize: 10, NumLayers: 1},
		"base":                            {Init: "base", HiddenSize: 64, NumLayers: 2},
	} {
		c, err := load("model.init=" + init)
		if err != nil {
			t.Errorf("%s: %v", init, err)
			continue
		}
		if m := c.Model; m.Init != want.Init || m.HiddenSize != want.HiddenSize || m.NumLayers != want.NumLayers {
			t.Errorf("%s: %+v, want %+v", init, m, want)
		}
		again, err := config.LoadText("config.yaml", config.Marshal(c))
		if err != nil || again.Config.Model != c.Model {
			t.Errorf("%s: the resolved configuration does not repeat: %v", init, err)
		}
		if _, err := modelOf(t, c.Model, config.LoRA{}).Open(1, 1, 0, nil); err != nil {
			t.Errorf("%s: %v", init, err)
		}
	}
	if _, err := load("model.init=base16", "hidden_size=16"); err != nil {
		t.Errorf("the same size twice: %v", err)
	}
	for _, tt := range map[string]struct {
		set  []string
		want string
	}{
		"another width":   {[]string{"model.init=base16", "hidden_size=64"}, "model.hidden_size (64, --set hidden_size) contradicts model.init (base16/model.safetensors, --set model.init): the model there has 16"},
		"another depth":   {[]string{"model.init=base16", "num_layers=2"}, "model.num_layers (2, --set num_layers) contradicts model.init"},
		"an empty folder": {[]string{"model.init=empty"}, "model.init (empty, --set model.init): no weights in this folder: none of model.safetensors, checkpoint/last.safetensors, checkpoint/best.safetensors"},
		"a slip":          {[]string{"model.init=bas"}, `did you mean "base"?`},
	} {
		expect.Error(t, expect.Err(load(tt.set...)), tt.want)
	}
	if c, err := load("teacher=base16", "loss_type=grpo_clip"); err != nil || c.Algorithm.Teacher != "base16/model.safetensors" || c.Model.HiddenSize != 64 {
		t.Errorf("teacher: %+v, %v", c.Algorithm.Teacher, err)
	}
}

// A teacher may be larger than the policy.
func TestTeacherOfAnotherSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.safetensors")
	writeWeights(t, path, 24, 1, nil)
	res := mustRun(t, mini(t, "teacher="+path, "loss_type=grpo_clip", "n_grpo_steps=1"), t.TempDir(), 1).Result
	if res.Steps != 1 {
		t.Errorf("%+v", res)
	}
}
