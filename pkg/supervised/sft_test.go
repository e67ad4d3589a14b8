package supervised

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/model/tinylm"
	"grpo/pkg/model/tinylm/tokenizer"
	"grpo/pkg/policy"
	"grpo/pkg/rl"
	"grpo/pkg/rundir"
)

func TestSchedule(t *testing.T) {
	c := config.Stage{LearningRate: 2, WarmupSteps: 10, Steps: 110, FinalLRRatio: 0.1}
	for _, s := range []struct {
		step int
		want float64
	}{{1, 0.2}, {5, 1}, {10, 2}, {60, 2 * (0.1 + 0.9*0.5)}, {110, 0.2}} {
		if got := schedule(c, s.step); math.Abs(got-s.want) > 1e-12 {
			t.Errorf("step %d: rate %v, want %v", s.step, got, s.want)
		}
	}
}

func TestTokenize(t *testing.T) {
	for _, c := range []struct {
		name    string
		t       gsm8k.Template
		e       gsm8k.Example
		tokens  int
		ended   bool
		weights []float64
	}{
		{"ended", gsm8k.Template{Suffix: "\n"}, gsm8k.Example{Question: "ab", Completion: "12", Ended: true}, 6, true, []float64{0.1, 0.1, 0.1, 1, 1, 1}},
		{"text before the answer", gsm8k.Template{Suffix: "\n", Answer: "w "}, gsm8k.Example{Question: "a", Completion: "1", Ended: true}, 6, true, []float64{0.1, 0.1, 1, 1, 1, 1}},
		{"cut", gsm8k.Template{}, gsm8k.Example{Question: "a", Completion: "12"}, 3, false, []float64{0.1, 1, 1}},
	} {
		r := tokenize(tinylm.New(nil, nil), c.t, c.e, tokenizer.EOS, 0.1)
		if len(r.tokens) != c.tokens || (r.tokens[len(r.tokens)-1] == tokenizer.EOS) != c.ended {
			t.Errorf("%s: tokens %v", c.name, r.tokens)
		}
		for i, w := range c.weights {
			if r.weights[i] != w {
				t.Errorf("%s: weight %d is %v, want %v", c.name, i, r.weights[i], w)
			}
		}
	}
}

// The weighted mean and its gradient, against finite differences.
func TestWeightedNLL(t *testing.T) {
	weights := [][]float64{{0.1, 1, 1}, {0.1, 1}}
	m := model.TokenMatrix{B: 2, T: 3, LogProbs: []float64{-1, -2, -3, -0.5, -0.25, math.NaN()}, DLogProbs: make([]float64, 6)}
	loss, err := tokenLoss(rl.NLL, weights)(&m)
	expect.OK(t, err)
	if want := (0.1*1 + 2 + 3 + 0.1*0.5 + 0.25) / 3.2; math.Abs(loss-want) > 1e-12 {
		t.Errorf("loss %v, want %v", loss, want)
	}
	for i := range 5 {
		const eps = 1e-6
		d := m
		d.DLogProbs = make([]float64, 6)
		d.LogProbs = append([]float64{}, m.LogProbs...)
		d.LogProbs[i] += eps
		up, err := tokenLoss(rl.NLL, weights)(&d)
		expect.OK(t, err)
		if fd := (up - loss) / eps; math.Abs(fd-m.DLogProbs[i]) > 1e-8 {
			t.Errorf("gradient %d is %v, finite difference %v", i, m.DLogProbs[i], fd)
		}
	}
	if m.DLogProbs[5] != 0 {
		t.Error("a place without a token has a gradient")
	}
}

// decoderSFT is a short recipe for the tiny decoder, with chat prompts.
func decoderSFT(t *testing.T, set ...string) config.SFT {
	t.Helper()
	recipe := writeText(t, "sft.yaml", `
model: {init: `+decodertest.Folder(t)+`}
data: {prompt_template: chat, few_shot: 1, system_prompt: Solve it., annotations: strip, val_size: 4, test_size: 2, unseen_size: 2}
stages: [{name: answers, corpus: answers, examples: 12, steps: 12, batch_size: 4, learning_rate: 1e-2, prompt_loss_weight: 0, every_n_steps: 12}]
eval_size: 4
eval_tokens: 4
`)
	r, err := config.LoadSFT(config.LoadOptions{Path: recipe, Checkpoint: policy.FindCheckpoint, Set: set})
	expect.OK(t, err)
	return r.Config
}

// A decoder learns the worked answers, with the same bits on any number of threads, with
// the prompt in the loss or not; runs, teachers and further stages start from the folder.
func TestSFTOfADecoder(t *testing.T) {
	long(t)
	for _, weight := range []string{"0", "0.1"} {
		cfg := decoderSFT(t, "stages.0.prompt_loss_weight="+weight)
		dir, seen := t.TempDir(), &sftLines{}
		rec, err := RunSFT(context.Background(), cfg, sftOptions(dir, 2, seen))
		expect.OK(t, err)
		if last := seen.steps[len(seen.steps)-1]; !(last.Loss < 0.8*seen.steps[0].Loss) || rec.Initial == nil || rec.Initial.Sampled.N != 4 {
			t.Errorf("prompt weight %s: losses %v, before %+v", weight, seen.steps, rec.Initial)
		}
		again, err := RunSFT(context.Background(), cfg, sftOptions(t.TempDir(), 1, &sftLines{}))
		if err != nil || again.Weights != rec.Weights {
			t.Errorf("prompt weight %s: on one thread the weights are %v (%v), on two %v", weight, again, err, rec.Weights)
		}
		if weight != "0" {
			continue
		}
		found, err := policy.FindCheckpoint(dir, "")
		if err != nil || found.File != filepath.Join(dir, rundir.ModelFile) || found.HiddenSize != 16 {
			t.Fatalf("the folder is %+v, %v", found, err)
		}
		run := mustLoad(t, config.LoadOptions{Set: []string{"model.init=" + dir, "teacher=" + dir, "n_grpo_steps=1",
			"eval.every_n_steps=1", "prompt_template=chat", "val_size=4", "test_size=2", "unseen_size=2", "train_size=8",
			"rollout_batch_size=4", "group_size=2", "sampling_max_tokens=5", "reward.functions=random"}})
		if got := mustRun(t, run, t.TempDir()); got.Meta.InitHash != rec.Weights {
			t.Errorf("a run starts from the weights %v, the stages ended with %v", got.Meta.InitHash, rec.Weights)
		}
		next := decoderSFT(t, "model.init="+dir)
		end := t.TempDir()
		expect.OK(t, expect.Err(RunSFT(context.Background(), next, sftOptions(end, 1, &sftLines{}))))
		if got := modelOf(t, config.Model{Init: filepath.Join(end, rundir.ModelFile)}, config.LoRA{}).Base(); got != cfg.Model.Init {
			t.Errorf("after two trainings the network is that of %q, want %q", got, cfg.Model.Init)
		}
	}
}

// device stands for the memory of a GPU: an update places the moments there.
type device struct {
	model.Storage // nil
	moments       []*model.Params
}

func (d *device) Pull() error  { return nil }
func (d *device) Push() error  { return nil }
func (d *device) Finite() bool { return true }
func (d *device) Release()     {}

func (d *device) Update(a *model.AdamW, w, g *model.Params, lr, maxNorm float64) (float64, error) {
	if a.T == 0 {
		a.M.Store(d)
		a.V.Store(d)
		d.moments = append(d.moments, a.M, a.V)
	}
	w.Store(nil)
	defer w.Store(d)
	return a.Step(w, g, lr, maxNorm)
}

// onDevice is a run with its weights on a device.
type onDevice struct {
	*sft
	*device
}

func (o onDevice) build() error {
	err := o.sft.build()
	if err == nil {
		o.Params.Store(o.device)
	}
	return err
}

// A stage leaves no moments in the memory of a GPU.
func TestSFTReleasesMoments(t *testing.T) {
	long(t)
	s, d := &sft{}, &device{}
	s.cfg, s.opts, s.kind, s.log = config.Resolve(decoderSFT(t, "stages.0.steps=2")), sftOptions(t.TempDir(), 1, &sftLines{}), rundir.KindSFT, SFTLogFile
	expect.OK(t, expect.Err(s.run(t.Context(), onDevice{s, d})))
	if len(d.moments) != 2 || d.moments[0].Storage() != nil || d.moments[1].Storage() != nil {
		t.Errorf("%d moments were placed on the device, and some are still there", len(d.moments))
	}
}

// A folder that names itself is no checkpoint.
func TestDecoderOfItself(t *testing.T) {
	file := filepath.Join(t.TempDir(), rundir.ModelFile)
	expect.OK(t, os.WriteFile(filepath.Join(filepath.Dir(file), rundir.ConfigFile), []byte("model: {init: "+file+"}\n"), 0o644))
	if got, err := policy.Resolve(config.Model{Init: file}, config.LoRA{}); got != nil || err == nil {
		t.Errorf("it is the decoder %+v", got)
	}
}

// Equal prompts are in a batch once; a prompt without weight is not in the loss.
func TestSFTBatch(t *testing.T) {
	tok := tinylm.New(nil, nil)
	e := gsm8k.Example{Question: "ab", Completion: "12", Ended: true}
	for weight, prompt := range map[float64]int{0: 4, 0.1: 1} {
		r := tokenize(tok, gsm8k.Template{Suffix: "\n"}, e, tok.End()[0], weight)
		batch, weights := sftBatch([]sftRow{r, r})
		if len(batch.Prompts) != 1 || len(batch.Prompts[0]) != prompt || len(weights) != 2 ||
			len(batch.Rows[1].Tokens)+prompt != 7 || len(weights[1]) != len(batch.Rows[1].Tokens) {
			t.Errorf("prompt weight %v: %+v, weights %v", weight, batch, weights)
		}
	}
}
