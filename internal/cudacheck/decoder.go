package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"grpo/internal/randommodel"
)

// shape is the shape of a network, as config.json has it.
type shape struct {
	name, arch                                 string
	vocab, hidden, ffn, layers, heads, kv, dim int
	theta                                      float64
}

var (
	smollm2Shape = shape{"smollm2", "llama", 49152, 576, 1536, 30, 9, 3, 64, 1e5}
	qwenShape    = shape{"qwen2.5-1.5b", "qwen2", 151936, 1536, 8960, 28, 12, 2, 128, 1e6}
	tinyShape    = shape{"tiny", "qwen2", 260, 24, 40, 2, 4, 2, 8, 1e4}
)

func (s shape) config() map[string]any {
	return map[string]any{
		"model_type": s.arch, "vocab_size": s.vocab, "hidden_size": s.hidden, "intermediate_size": s.ffn,
		"num_hidden_layers": s.layers, "num_attention_heads": s.heads, "num_key_value_heads": s.kv, "head_dim": s.dim,
		"max_position_embeddings": 8192, "rms_norm_eps": 1e-6,
		"hidden_act": "silu", "tie_word_embeddings": true, "eos_token_id": randommodel.End, "rope_theta": s.theta,
	}
}

// randomNetwork writes a network with random weights in bf16 into a temporary folder. Remove it.
func (c *check) randomNetwork(s shape) (dir string, err error) {
	if dir, err = os.MkdirTemp("", "grpo-"+s.name+"-"); err != nil {
		return "", err
	}
	r, noise := rand.New(rand.NewPCG(1, 2)), make([]float32, 1_000_003) // repeated: billions would take a minute
	for i := range noise {
		noise[i] = 0.07 * (r.Float32() - 0.5) // a standard deviation of 0.02
	}
	err = randommodel.Write(dir, s.config(), "BF16", func(_ int, name string, x []float32) {
		if strings.Contains(name, "norm") {
			for i := range x {
				x[i] = 1
			}
			return
		}
		for n := copy(x, noise[r.IntN(len(noise)):]); n < len(x); {
			n += copy(x[n:], noise)
		}
	})
	if err != nil {
		_ = os.RemoveAll(dir)
	}
	return dir, err
}

// decoderStep is a step of a random network that grpo and PyTorch take.
type decoderStep struct {
	shape                                  shape
	prompts, group, promptLen, responseLen int
	rank, steps                            int
	microTokens, microGroups, chunk        int // of an update of grpo; of PyTorch's; tokens of its logits
}

// tiny makes a step that the emulator takes in a second.
func (c *check) tinyStep(s decoderStep) decoderStep {
	if c.tiny {
		s.shape, s.prompts, s.group, s.promptLen, s.responseLen, s.steps = tinyShape, 3, 2, 5, 6, 1
		s.rank, s.microTokens, s.microGroups = min(2, s.rank), 20, 2
	}
	return s
}

// measure compares both programs.
func (c *check) measure(s decoderStep, model, precision string) (ours *stepOf, theirs *torchOf, err error) {
	n := func(x int) string { return fmt.Sprint(x) }
	sizes := []string{"--prompts", n(s.prompts), "--group", n(s.group), "--prompt-len", n(s.promptLen),
		"--response-len", n(s.responseLen), "--steps", n(s.steps), "--precision", precision, "--json"}
	grpo := []string{"bench", "step", "--model", model, "--device", "cuda",
		"--set", "train.micro_batch_tokens=" + n(s.microTokens), "--set", "train.lora.rank=" + n(s.rank)}
	torch := []string{filepath.Join(c.bin, "torch_gpu_decoder.py"), "--shape", s.shape.name, "--lora-rank", n(s.rank),
		"--micro-groups", n(s.microGroups), "--chunk", n(s.chunk)}
	return c.alternate(append(grpo, sizes...), append(torch, sizes...))
}

// compare measures a step in some precisions and returns the table.
func (c *check) compare(s decoderStep, precisions ...string) (*table, error) {
	t := newTable("precision", "grpo: rollout + update = step, s", "PyTorch: rollout + update = step, s", "faster by",
		"tokens/s of the rollout: grpo, PyTorch", "tokens/s of the update", "memory, GiB")
	s = c.tinyStep(s)
	model, err := c.randomNetwork(s.shape)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(model)
	sampled := float64(s.prompts * s.group * s.responseLen)
	all := sampled + float64(s.prompts*s.promptLen)
	both := func(digits int, a, b float64) string { return fmt.Sprintf("%.*f, %.*f", digits, a, digits, b) }
	for _, p := range precisions {
		ours, theirs, err := c.measure(s, model, p)
		if err != nil { // the other precisions may work
			t.fails("%s: %v", p, err)
		}
		if ours == nil {
			continue
		}
		if theirs == nil {
			theirs = &torchOf{}
		}
		t.row(p, fmt.Sprintf("%.3f + %.3f = %.3f", ours.MedianS.Rollout, ours.MedianS.Update, ours.MedianStepS),
			fmt.Sprintf("%.3f (%s) + %.3f (%s) = %.3f", theirs.Rollout, theirs.HowR, theirs.Update, theirs.HowU, theirs.Step),
			fmt.Sprintf("%.2f", theirs.Step/ours.MedianStepS), both(0, sampled/ours.MedianS.Rollout, sampled/theirs.Rollout),
			both(0, all/ours.MedianS.Update, all/theirs.Update),
			both(1, float64(ours.DeviceBytes)/(1<<30), theirs.Bytes/(1<<30)))
		var out []string
		for way, why := range theirs.LeftOut {
			out = append(out, way+": "+why)
		}
		if slices.Sort(out); len(out) > 0 {
			t.note("In %s PyTorch fails in these ways, which are left out: %s.", p, strings.Join(out, "; "))
		}
		if t.step = ours.MedianStepS; p == precisions[0] {
			t.note("A random network of the shape of %s, %s; %d prompts of %d tokens, %d completions of each of %d tokens. "+
				"PyTorch %s.", s.shape.name, trained(s.rank), s.prompts, s.promptLen, s.group, s.responseLen, theirs.Torch)
		}
	}
	return t, nil
}

func trained(rank int) string {
	if rank == 0 {
		return "all weights trained"
	}
	return fmt.Sprintf("LoRA of rank %d on all linear layers", rank)
}

func smollm2Step(c *check) (*table, error) {
	return c.compare(decoderStep{shape: smollm2Shape, prompts: 32, group: 8, promptLen: 128, responseLen: 128, steps: 5,
		microTokens: 65536, microGroups: 16, chunk: 8192}, "float32", "tf32", "bf16")
}

// assignmentStep has the sizes of a step of CS336's assignment, and a goal for an H200.
func assignmentStep(c *check) (*table, error) {
	t, err := c.compare(decoderStep{shape: qwenShape, prompts: 32, group: 8, promptLen: 150, responseLen: 300, rank: 16,
		steps: 3, microTokens: 24576, microGroups: 8, chunk: 4096}, "bf16")
	const goal = 8 // seconds
	if err == nil && t.step >= goal {
		t.fails("a step takes %.1f s, not less than %d", t.step, goal)
	}
	return t, err
}

// smollm2Env names the environment variable with the path of SmolLM2-135M.
const smollm2Env = "GRPO_SMOLLM2"

// smollm2 is the run of the preset, or a short one of a random network of the shape of SmolLM2.
func smollm2(c *check) (*table, error) {
	t := newTable("precision", "steps", "before", "after", "a step: rollout + rest, s",
		"sampler and learner differ by at most", "the run, s")
	model, set := os.Getenv(smollm2Env), []string{}
	what := "The weights of SmolLM2-135M-Instruct, the whole run of the preset."
	if model == "" {
		s := smollm2Shape
		if c.tiny {
			s = tinyShape
		}
		dir, err := c.randomNetwork(s)
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		model, what = dir, "Random weights, a tokenizer of bytes, and a random reward besides the answer's: "+
			smollm2Env+" named no file with the real ones."
		values := "n_grpo_steps=10 every_n_steps=10 val_size=32 test_size=8 unseen_size=8 few_shot=0 " +
			"reward.functions=answer,random reward.reward_weights=1,1"
		if c.tiny {
			values += " n_grpo_steps=2 warmup_steps=1 every_n_steps=2 val_size=2 test_size=1 unseen_size=1 " +
				"rollout_batch_size=8 group_size=4 sampling_max_tokens=4 eval.max_tokens=4"
		}
		for _, kv := range strings.Fields(values) {
			set = append(set, "--set", kv)
		}
	}
	t.note("%s", what)
	for _, p := range []string{"float32", "bf16"} {
		dir := filepath.Join(c.out, "smollm2-"+p)
		r, err := c.train(dir, append([]string{"-c", "smollm2", "--model", model, "--device", "cuda",
			"--set", "model.precision=" + p}, set...)...)
		if err != nil {
			return t, err
		}
		rollout, rest, differ, steps, err := timesOf(filepath.Join(dir, "metrics.jsonl"))
		if err != nil {
			return t, err
		}
		_ = os.RemoveAll(dir)
		before, after := r.Result.Initial.Sampled.AnswerReward, r.Result.Final.Sampled.AnswerReward
		t.row(p, steps, fmt.Sprintf("%.3f", before), fmt.Sprintf("%.3f", after), fmt.Sprintf("%.3f + %.3f", rollout, rest),
			fmt.Sprintf("%.1e", differ), fmt.Sprintf("%.1f", r.Result.WallS))
		if r.Result.Status != "done" {
			t.fails("%s: the run ended as %s", p, r.Result.Status)
		}
		if len(set) == 0 && after <= before {
			t.fails("%s: the answer reward goes from %.3f to %.3f", p, before, after)
		}
	}
	return t, nil
}

// timesOf returns medians over the steps of a run after the first, and the largest difference of
// sampler and learner.
func timesOf(metrics string) (rollout, rest, differ float64, steps int, err error) {
	data, err := os.ReadFile(metrics)
	if err != nil {
		return 0, 0, 0, 0, err
	}
	var rollouts, others []float64
	for line := range strings.Lines(string(data)) {
		var m struct {
			Differ float64 `json:"sampler_logprob_max_diff"`
			Time   struct {
				Rollout float64 `json:"rollout_s"`
				Reward  float64 `json:"reward_s"`
				Update  float64 `json:"update_s"`
			} `json:"time"`
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			return 0, 0, 0, 0, fmt.Errorf("%s: %w", metrics, err)
		}
		rollouts, others = append(rollouts, m.Time.Rollout), append(others, m.Time.Reward+m.Time.Update)
		differ = max(differ, m.Differ)
	}
	median := func(x []float64) float64 {
		x = slices.SortedFunc(slices.Values(x[min(1, len(x)-1):]), cmp.Compare)
		return x[len(x)/2]
	}
	if len(rollouts) == 0 {
		return 0, 0, 0, 0, fmt.Errorf("%s has no steps", metrics)
	}
	return median(rollouts), median(others), differ, len(rollouts), nil
}
