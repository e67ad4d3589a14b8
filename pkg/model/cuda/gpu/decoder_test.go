//go:build withcuda && linux

package gpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
	"grpo/internal/golden"
	"grpo/internal/tinylmtest"
	"grpo/pkg/model"
	"grpo/pkg/model/decoder"
	"grpo/pkg/model/hf"
	"grpo/pkg/rng"
)

// The numbers of transformers, on a GPU.
func TestGPUGoldenDecoder(t *testing.T) {
	g := testGPU(t, "float32")
	decodertest.Folders(t, func(t *testing.T, checkpoint *hf.Checkpoint, c *decodertest.Case) {
		if err := g.Check(checkpoint.Config); err != nil {
			t.Skip(err)
		}
		net, err := decoder.Load(checkpoint)
		expect.OK(t, err)
		c.Check(t, decoder.New(net, decoder.Tokenizer{}, g))
	})
}

// SmolLM2's chats, and the gradient of a step, are those of transformers. On the emulator this takes
// minutes.
func TestGPUGoldenDecoderSmolLM2(t *testing.T) {
	p, err := decoder.Open(golden.SmolLM2(t), false, testGPU(t, "float32"))
	expect.OK(t, err)
	decodertest.CheckChats(t, p, "decoder/smollm2")
	decodertest.CheckGradient(t, p)
}

// decoderCase is a small network with random weights.
type decoderCase struct {
	name string
	hf.Config
	lora hf.LoRA
}

var decoderCases = []decoderCase{
	{name: "llama", Config: hf.Config{Arch: "llama", Hidden: 24, Heads: 4, KVHeads: 2, HeadDim: 8, FFN: 40, Tied: true, Pad: 5}},
	{name: "qwen2", Config: hf.Config{Arch: "qwen2", Hidden: 20, Heads: 2, KVHeads: 1, HeadDim: 12, FFN: 28, QKVBias: true, Pad: -1}},
	{name: "qwen3 with LoRA", Config: hf.Config{Arch: "qwen3", Hidden: 24, Heads: 3, KVHeads: 3, HeadDim: 8, FFN: 32, QKNorm: true, Tied: true, Pad: -1},
		lora: hf.LoRA{Rank: 4, Alpha: 8, Targets: []string{"q_proj", "v_proj", "o_proj", "gate_proj", "down_proj"}}},
	{name: "smollm3", Config: hf.Config{Arch: "smollm3", Hidden: 24, Heads: 4, KVHeads: 2, HeadDim: 8, FFN: 40,
		NoRope: []bool{false, true}, Tied: true, Pad: 5}},
	{name: "olmo2", Config: hf.Config{Arch: "olmo2", Hidden: 20, Heads: 4, KVHeads: 2, HeadDim: 8, FFN: 28, QKNorm: true,
		WholeQKNorm: true, Norms: hf.NormAfter, Pad: -1}},
}

// end is the end token of these networks; their vocabulary has vocab tokens.
const end, vocab = 3, 61

// policies are the network on the CPU and on a GPU.
func (c decoderCase) policies(t *testing.T, g *device) (cpu, onGPU *decoder.Policy) {
	t.Helper()
	cfg := c.Config
	cfg.Layers, cfg.Vocab, cfg.Context, cfg.NormEps, cfg.RopeTheta = 2, vocab, 200, 1e-5, 1e4
	r := rand.New(rand.NewPCG(1, 2))
	weights := decoder.NewNetwork(&cfg).Params
	for _, x := range weights.Tensors() {
		for i := range x.Data {
			if x.Data[i] = float32(r.NormFloat64() * 0.3); len(x.Shape) == 1 {
				x.Data[i]++
			}
		}
	}
	open := func(on model.Device) *decoder.Policy {
		net, read := decoder.NewNetwork(&cfg), map[string][]float32{}
		copy(net.Params.Flat, weights.Flat)
		if c.lora.Rank > 0 {
			for _, x := range weights.Tensors() {
				read[x.Name] = x.Data
			}
			var err error
			net, err = decoder.LoadLoRA(&cfg, false, on, c.lora, 1, func(name string, out []float32) error {
				copy(out, read[name])
				return nil
			})
			expect.OK(t, err)
			r := rand.New(rand.NewPCG(3, 4))
			for i := range net.Params.Flat {
				net.Params.Flat[i] = float32(r.NormFloat64() * 0.2)
			}
		}
		return decoder.New(net, decoder.NewTokenizer(&hf.Checkpoint{Config: &cfg}), on)
	}
	return open(tinylmtest.Pool(t, 1)), open(g)
}

// decoderBatch has prompts with a common beginning, and completions of several lengths: some have one
// token, and a prompt and a completion have more than a tile of attention.
func decoderBatch() *model.Batch {
	r := rand.New(rand.NewPCG(5, 6))
	tokens := func(n int) []int {
		out := make([]int, n)
		for i := range out {
			out[i] = r.IntN(vocab)
		}
		return out
	}
	b, shared := &model.Batch{}, tokens(9)
	for p, n := range []int{3, 1, 70} {
		b.Prompts = append(b.Prompts, slices.Concat(shared, tokens(n)))
		for _, length := range []int{1, 5, 2} {
			b.Rows = append(b.Rows, model.Row{Prompt: p, Tokens: tokens(length + p)})
		}
	}
	b.Rows = append(b.Rows, model.Row{Prompt: 1, Tokens: tokens(67)})
	return b
}

// close64 fails if numbers differ by more than tolerance times the largest.
func close64[T float32 | float64](t *testing.T, what string, got, want []T, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, the CPU's %d", what, len(got), len(want))
	}
	largest := 1e-6
	for _, w := range want {
		largest = max(largest, math.Abs(float64(w)))
	}
	for i, w := range want {
		if d := math.Abs(float64(got[i] - w)); !(d <= tolerance*largest) {
			t.Fatalf("%s: number %d of %d is %v, the CPU's %v (largest %v)", what, i, len(want), got[i], w, largest)
		}
	}
}

// pulled are parameters or gradients on the host.
func pulled(t *testing.T, p *model.Params) []float32 {
	t.Helper()
	expect.OK(t, p.Pull())
	return p.Flat
}

// lossOf is an objective whose gradients differ from token to token. It keeps the numbers it got.
func lossOf(logps, entropies *[]float64) model.Objective {
	return func(m *model.TokenMatrix) (float64, error) {
		*logps, *entropies = append(*logps, m.LogProbs...), append(*entropies, m.Entropy...)
		for i, ok := range m.Mask {
			if ok {
				m.DLogProbs[i], m.DEntropy[i] = math.Sin(float64(i)), math.Cos(float64(3*i))/4
			}
		}
		return 0, nil
	}
}

// A GPU computes the CPU's log-probabilities, entropies, gradients of two batches, update, scores and
// values, but for rounding.
func TestGPUDecoderIsTheCPUs(t *testing.T) {
	for precision, tolerance := range map[string]float64{"float32": 2e-5, "bf16": 0.1} {
		for _, c := range decoderCases {
			for _, checkpointing := range []bool{false, true} {
				if checkpointing && precision != "float32" {
					continue // the same code
				}
				t.Run(fmt.Sprintf("%s in %s, checkpointing %v", c.name, precision, checkpointing), func(t *testing.T) {
					if checkpointing {
						defer func(n int) { lossLogits = n }(lossLogits)
						lossLogits = 100 * vocab // several parts
					}
					cpu, onGPU := c.policies(t, testGPU(t, precision))
					type result struct {
						logps, entropies, scores, values []float64
						gradient, weights, critic        []float32
						norm                             float64
					}
					run := func(p *decoder.Policy) (r result) {
						options := model.AdamWOptions{Beta1: 0.9, Beta2: 0.95, Eps: 1e-3, WeightDecay: 0.01}
						learner, err := p.NewLearner(1.2, checkpointing)
						expect.OK(t, err)
						defer learner.Close()
						learner.ZeroGrads()
						batch := decoderBatch()
						for _, b := range []*model.Batch{batch, {Prompts: batch.Prompts[1:2], Rows: []model.Row{{Tokens: []int{5, 3, 5}}}}} {
							expect.OK(t, expect.Err(learner.Accumulate(b, lossOf(&r.logps, &r.entropies))))
						}
						r.gradient = pulled(t, learner.Grads())
						reference := p.Copy()
						optimizer := model.NewAdamW(p.Params(), options)
						r.norm, err = optimizer.Step(p.Params(), learner.Grads(), 1e-2, 1)
						expect.OK(t, err)
						r.weights = pulled(t, p.Params())
						for _, scored := range []model.Policy{p, reference} {
							scorer, err := scored.NewScorer(0.9)
							expect.OK(t, err)
							m, err := scorer.Score(batch)
							expect.OK(t, err)
							r.scores = append(append(r.scores, m.LogProbs...), m.Entropy...)
						}
						critic, err := p.NewCritic(options, checkpointing)
						expect.OK(t, err)
						for range 2 {
							critic.ZeroGrads()
							if _, err := critic.Accumulate(batch, func(m *model.ValueMatrix) (float64, error) {
								for i := range m.DValues {
									m.DValues[i] = math.Sin(float64(i))
								}
								return 0, nil
							}); err != nil {
								t.Fatal(err)
							}
							expect.OK(t, expect.Err(critic.Step(1e-2, 0)))
						}
						v, err := critic.Values(batch)
						expect.OK(t, err)
						r.values, r.critic = v.Values, pulled(t, critic.State().Params)
						return r
					}
					want, got := run(cpu), run(onGPU)
					close64(t, "log-probabilities", got.logps, want.logps, tolerance)
					close64(t, "entropies", got.entropies, want.entropies, tolerance)
					close64(t, "gradients", got.gradient, want.gradient, tolerance)
					close64(t, "the norm", []float64{got.norm}, []float64{want.norm}, tolerance)
					close64(t, "weights", got.weights, want.weights, tolerance)
					close64(t, "scores", got.scores, want.scores, tolerance)
					if precision == "float32" {
						close64(t, "values", got.values, want.values, 10*tolerance)
						close64(t, "the critic's weights", got.critic, want.critic, 10*tolerance)
					}
				})
			}
		}
	}
}

// A GPU samples the CPU's tokens with the same random numbers, in one call with several settings, and
// the learner computes the sampled log-probabilities again.
func TestGPUDecoderSamplesTheCPUsTokens(t *testing.T) {
	draws := model.Draws{Stream: rng.New(3, rng.Rollout), A: 7, B: 1 << 20, C: 2}
	opts := []model.Sampling{
		{Temperature: 1, TopP: 1, MaxTokens: 12},
		{Temperature: 0.7, TopP: 1, MinTokens: 6, MaxTokens: 9},
		{Greedy: true, TopP: 1, MaxTokens: 8},
		{Temperature: 1.3, TopP: 0.8, TopK: 20, MinTokens: 2, MaxTokens: 10},
		{Temperature: 1, TopP: 1, MaxTokens: 1},
		{Temperature: 1, TopP: 1, MaxTokens: 12, Stop: model.NewStop([]string{"1"}, digits)},
		{Greedy: true, TopP: 1, MaxTokens: 8, Stop: model.NewStop([]string{"1"}, digits)},
	}
	for _, c := range decoderCases {
		t.Run(c.name, func(t *testing.T) {
			c.End = []int32{end, end + 1}
			cpu, onGPU := c.policies(t, testGPU(t, "float32"))
			prompts := decoderBatch().Prompts
			sample := func(p *decoder.Policy) [][]model.Completion {
				s := p.NewSampler()
				defer s.Close()
				out, err := model.SampleEach(s, prompts, 3, opts, draws)
				expect.OK(t, err)
				return out
			}
			want, got := sample(cpu), sample(onGPU)
			for i := range opts {
				sameCompletions(t, fmt.Sprintf("setting %d", i), got[i], want[i])
			}
			for i, o := range got[0] {
				close64(t, fmt.Sprintf("entropies of completion %d", i), o.Entropies, want[0][i].Entropies, 1e-4)
			}
			scorer, err := onGPU.NewScorer(1)
			expect.OK(t, err)
			batch := &model.Batch{Prompts: prompts}
			for i, o := range got[0] {
				batch.Rows = append(batch.Rows, model.Row{Prompt: i / 3, Tokens: o.Tokens})
			}
			m, err := scorer.Score(batch)
			expect.OK(t, err)
			for i, o := range got[0] {
				for j, lp := range o.LogProbs {
					if d := math.Abs(m.LogProbs[i*m.T+j] - float64(lp)); d > 1e-5 {
						t.Fatalf("completion %d, token %d: sampled with %v, scored %v", i, j, lp, m.LogProbs[i*m.T+j])
					}
				}
			}
		})
	}
}

// digits is a text of tokens.
func digits(tokens []int) string { return fmt.Sprint(tokens) }

// A network with a part that the GPU lacks is refused by the part's name.
func TestGPURefusesParts(t *testing.T) {
	g := testGPU(t, "float32")
	good := hf.Config{Heads: 4, KVHeads: 2, HeadDim: 8, Context: 64, Layers: 2}
	expect.OK(t, g.Check(&good))
	for part, change := range map[string]func(c *hf.Config){
		"sliding-window attention": func(c *hf.Config) { c.Window, c.Sliding = 8, []bool{false, true} },
		"scale 1 + w":              func(c *hf.Config) { c.OffsetNorms = true },
		"scaled embedding":         func(c *hf.Config) { c.ScaledEmbed = true },
		"GELU":                     func(c *hf.Config) { c.GELU = true },
		"soft cap":                 func(c *hf.Config) { c.FinalSoftcap = 30 },
		"heads of 7":               func(c *hf.Config) { c.HeadDim = 7 },
	} {
		c := good
		change(&c)
		expect.Error(t, g.Check(&c), part)
	}
}
