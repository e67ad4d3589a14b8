package train

import (
	"math"
	"os"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/infer"
	"grpo/pkg/model"
	"grpo/pkg/rng"
)

// The metric is there if and only if something is cut off, and so is the note.
func TestKeptMass(t *testing.T) {
	long(t)
	for _, c := range []struct {
		set       string
		low, high float64
	}{
		{"sampling_top_p=0.9", 0.9, 1},
		{"sampling_top_k=2", 0.01, 0.2},
		{"sampling_min_tokens=4", 0.9, 1},
		{"sampling_top_p=1", 1, 1},
		{"sampling_top_p=0.9 logprobs=sampled", 0.9, 1},
	} {
		t.Run(c.set, func(t *testing.T) {
			cfg, dir := mini(t, append(strings.Fields(c.set), "n_grpo_steps=1")...), t.TempDir()
			w := watched(t, cfg, dir)
			mass := open(t, dir).Metrics[0].KeptMass
			cuts := c.low < 1
			wants := cuts && !strings.Contains(c.set, "logprobs")
			if noted := strings.Contains(strings.Join(w.notes, "\n"), "kept_mass"); noted != wants || (mass != nil) != cuts {
				t.Fatalf("kept mass %v, notes %q", mass, w.notes)
			}
			if cuts && !(*mass >= c.low && *mass < c.high) {
				t.Errorf("kept mass %v, want %v to %v", *mass, c.low, c.high)
			}
		})
	}
}

// The kept mass of the first token, over the draws of one prompt, is that of its distribution: with top-k k
// the sum of the k largest probabilities.
func TestKeptMassOfOneToken(t *testing.T) {
	run := ready(t, mini(t))
	opt := infer.RolloutSampling(run.cfg.Rollout, run.data.template, run.Policy)
	opt.MaxTokens = 1
	prompt, draws := run.data.prompts[:1], model.Draws{Stream: rng.New(1, rng.Rollout)}
	all, err := run.sampler.Sample(prompt, 512, opt, draws)
	expect.OK(t, err)
	probs := map[int]float64{}
	for _, c := range all {
		probs[c.Tokens[0]] = math.Exp(float64(c.LogProbs[0]))
		if c.KeptMass != 0 {
			t.Fatalf("kept mass %v without a cut", c.KeptMass)
		}
	}
	opt.TopK = 1
	first, err := run.sampler.Sample(prompt, 1, opt, draws)
	expect.OK(t, err)
	want := probs[first[0].Tokens[0]]
	if got := first[0].KeptMass; math.Abs(got-want) > 1e-6 {
		t.Errorf("kept mass %v, want the largest probability %v", got, want)
	}
}

// The example of docs/algorithms.md: the gradient with log p differs from the right one by E[A] times the
// gradient of log p(K).
func TestCutSamplingIsBiased(t *testing.T) {
	p, q, reward := []float64{0.5, 0.3, 0.2}, []float64{0.625, 0.375, 0}, []float64{1, 0, 0}
	text, err := os.ReadFile("../../docs/algorithms.md")
	expect.OK(t, err)
	gradient := func(of []float64) (g [3]float64) { // of Σ q A log of, with respect to the logits
		for token, weight := range q {
			for j := range g {
				g[j] -= weight * reward[token] * of[j]
			}
			g[token] += weight * reward[token]
		}
		return g
	}
	right, full := gradient(q), gradient(p)
	const meanAdvantage, mass = 0.625, 0.8
	var difference [3]float64
	for j := range difference {
		difference[j] = meanAdvantage * (q[j] - p[j]) // ∇ log p(K) = q - p
		if math.Abs(full[j]-right[j]-difference[j]) > 1e-12 || math.Abs(q[j]*mass-p[j]) > 1e-12 && q[j] > 0 {
			t.Errorf("logit %d: %v and %v differ by something else than %v", j, full[j], right[j], difference[j])
		}
	}
	for _, row := range [][3]float64{right, full, difference} {
		cells := ""
		for _, x := range row {
			cells += " " + textutil.Number(math.Round(x*1e4)/1e4) + " |"
		}
		if !strings.Contains(string(text), cells) {
			t.Errorf("docs/algorithms.md does not have the row %q", cells)
		}
	}
}

// With the log-probabilities of the sampled distribution sampler and learner agree to the bit, the
// reference model starts at a KL divergence of 0, and several updates of a rollout keep the tokens that
// the old policy kept; resumed, with other threads and in other micro-batches, the bits are the same.
func TestSampledLogProbs(t *testing.T) {
	long(t)
	cuts := []string{"sampling_top_p=0.8", "sampling_min_tokens=2", "loss_type=grpo_clip", "n_grpo_steps=3"}
	cfg := func(set ...string) config.Config { return mini(t, append(set, cuts...)...) }
	sampled := []string{"logprobs=sampled", "epochs_per_rollout_batch=2", "beta=0.05", "entropy_coef=0.01"}
	want, _ := resumesExactly(t, cfg(append(sampled, "output.checkpoint_every_n_steps=1")...), 1)
	full := mustRun(t, cfg(sampled[1:]...), t.TempDir(), 1)
	if want.Result.WeightsSHA256 == full.Result.WeightsSHA256 {
		t.Error("the key changes nothing")
	}
	for i, m := range want.Metrics {
		if *m.SamplerDiff != 0 {
			t.Errorf("step %d: sampler and learner differ by %v", m.Step, *m.SamplerDiff)
		}
		if i == 0 && m.Entropy >= full.Metrics[0].Entropy {
			t.Errorf("entropy %v of the part, %v of the whole", m.Entropy, full.Metrics[0].Entropy)
		}
	}
	first := mustRun(t, cfg("logprobs=sampled", "beta=0.05", "micro_batch_tokens=90"), t.TempDir(), 1).Metrics[0]
	if *first.SamplerDiff != 0 || *first.ReferenceKL != 0 {
		t.Errorf("in micro-batches: difference %v, KL to the reference %v", *first.SamplerDiff, *first.ReferenceKL)
	}
}

// A Llama checkpoint's too, with a recomputed head and LoRA adapters.
func TestSampledLogProbsOfADecoder(t *testing.T) {
	long(t)
	for _, set := range [][]string{{"gradient_checkpointing=true"}, {"train.lora.rank=2", "beta=0.1"}} {
		cfg := tinyDecoder(t, append(set, "logprobs=sampled", "sampling_top_k=5", "loss_type=grpo_clip",
			"epochs_per_rollout_batch=2", "n_grpo_steps=2", "micro_batch_tokens=200")...)
		for _, m := range mustRun(t, cfg, t.TempDir(), 2).Metrics {
			if *m.SamplerDiff != 0 || m.KeptMass == nil {
				t.Errorf("%v, step %d: difference %v, kept mass %v", set, m.Step, *m.SamplerDiff, m.KeptMass)
			}
		}
	}
}
