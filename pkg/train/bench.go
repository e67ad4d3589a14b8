package train

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model/cuda/gpu"
	"grpo/pkg/rng"
)

// BenchOptions are the sizes of a measured step: prompts × group completions, with all prompts of
// one length and all completions of one length.
type BenchOptions struct {
	Prompts     int    `json:"prompts"`
	Group       int    `json:"group"`
	PromptLen   int    `json:"prompt_len"`   // tokens, <bos> and newline included; at least 3
	ResponseLen int    `json:"response_len"` // tokens; no completion ends early
	Hidden      int    `json:"hidden"`
	Layers      int    `json:"layers"`
	Steps       int    `json:"steps"`   // measured steps, after one warm-up step
	Threads     int    `json:"threads"` // 0 = one for each core
	Device      string `json:"device"`  // cpu, cuda or auto
	Precision   string `json:"precision"`
	Seed        uint64
	Now         func() time.Time `json:"-"`
	Memory      MemoryCheck      `json:"-"` // nil = no check
}

// BenchResult has means over the measured steps.
type BenchResult struct {
	RolloutS float64 `json:"rollout_s"` // sampling, grading
	UpdateS  float64 `json:"update_s"`  // advantages, forward, loss, backward, AdamW, the sampler's copies
	StepS    float64 `json:"step_s"`
	// Medians over the steps: compare these on a busy machine.
	MedianStepS float64 `json:"median_step_s"`
	MedianS     struct {
		Rollout float64 `json:"rollout"`
		Update  float64 `json:"update"`
	} `json:"median_s"`

	RolloutTokS float64 `json:"rollout_tok_s"` // sampled tokens per second of rollout
	UpdateTokS  float64 `json:"update_tok_s"`  // prompt and completion tokens per second of update
	// GFLOPS is model.Work.Nominal of rollout and update per second of the step; the others are of
	// the update alone.
	GFLOPS         float64 `json:"gflops"`
	UpdateGFLOPS   float64 `json:"update_gflops"`
	UpdateExecuted float64 `json:"update_gflops_executed"`
	// GraphShare is the graph's overhead as a share of a step: the time of its runs minus the
	// arithmetic in its nodes.
	GraphShare    float64 `json:"graph_share"`
	AllocsPerStep float64 `json:"allocs_per_step"`
	BytesPerStep  float64 `json:"bytes_per_step"`
	Params        int     `json:"params"`
	Device        string  `json:"device,omitempty"` // the GPU and its precision
	// DeviceBytes is the GPU memory allocated after the last step. DeviceRequests counts
	// allocations from the driver during the measured steps (0 if no buffer grows). DeviceFree is
	// the card's free memory before and after them.
	DeviceBytes    int   `json:"device_bytes,omitempty"`
	DeviceRequests int   `json:"device_requests"`
	DeviceFree     []int `json:"device_free,omitempty"`
	Threads        int   `json:"threads"`
}

func (o BenchOptions) check() error {
	for _, s := range []struct {
		name     string
		n, least int
	}{
		{"--prompts", o.Prompts, 1}, {"--group", o.Group, 2}, {"--prompt-len", o.PromptLen, 3},
		{"--response-len", o.ResponseLen, 1}, {"--hidden", o.Hidden, 1}, {"--layers", o.Layers, 1},
		{"--steps", o.Steps, 1},
	} {
		if s.n < s.least {
			return fmt.Errorf("%w: measure a step: %s %d must be at least %d", config.ErrConfig, s.name, s.n, s.least)
		}
	}
	return nil
}

// Bench measures training steps with random weights, random prompts, and a random reward added to
// the answer's so that every group is informative.
func Bench(ctx context.Context, o BenchOptions) (*BenchResult, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Threads <= 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	t, err := newBench(o)
	defer t.close()
	if err != nil {
		return nil, err
	}
	var rollouts, updates, steps []float64 // seconds
	var before, after runtime.MemStats
	var memory gpu.Memory
	graph := t.learner.(interface { // every network is a graph that times its parts
		Watch(now func() time.Time)
		Watched() (runs, arithmetic time.Duration)
	})
	for i := range o.Steps + 1 {
		if ctx.Err() != nil {
			return nil, ErrNothingSaved
		}
		if i == 1 { // builds graph and buffers
			graph.Watch(o.Now)
			runtime.ReadMemStats(&before)
			if t.device.gpu != nil {
				memory = t.device.gpu.Memory()
			}
		}
		_, m, err := t.trainStep(i+1, newStopwatch(o.Now).lap)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			rollouts, updates = append(rollouts, m.Time.RolloutS), append(updates, m.Time.RewardS+m.Time.UpdateS)
			steps = append(steps, m.Time.RolloutS+m.Time.RewardS+m.Time.UpdateS)
		}
	}
	runtime.ReadMemStats(&after)

	n := float64(o.Steps)
	prompts, rows := o.Prompts*o.PromptLen, o.Prompts*o.Group
	inputs, predictions := prompts+rows*(o.ResponseLen-1), rows*o.ResponseLen
	sample := t.policy.Size().Forward(inputs, predictions)
	update := sample.Update()
	r := &BenchResult{
		RolloutS: mean(rollouts), UpdateS: mean(updates), StepS: mean(steps), MedianStepS: median(steps),
		AllocsPerStep: float64(after.Mallocs-before.Mallocs) / n,
		BytesPerStep:  float64(after.TotalAlloc-before.TotalAlloc) / n,
		Params:        t.params.Count(), Threads: o.Threads, Device: t.device.String(),
	}
	if t.device.gpu != nil {
		now := t.device.gpu.Memory()
		r.DeviceBytes, r.DeviceRequests = now.InUse, now.Requests-memory.Requests
		r.DeviceFree = []int{memory.Free, now.Free}
	}
	r.MedianS.Rollout, r.MedianS.Update = median(rollouts), median(updates)
	r.RolloutTokS = float64(predictions) / r.RolloutS
	r.UpdateTokS = float64(prompts+predictions) / r.UpdateS
	r.GFLOPS = (sample.Nominal + update.Nominal) / r.StepS / 1e9
	r.UpdateGFLOPS, r.UpdateExecuted = update.Nominal/r.UpdateS/1e9, update.Executed/r.UpdateS/1e9
	runs, arithmetic := graph.Watched()
	r.GraphShare = (runs - arithmetic).Seconds() / (n * r.StepS)
	return r, nil
}

// newBench returns a trainer without a folder. Close it even after an error.
func newBench(o BenchOptions) (*trainer, error) {
	cfg := config.Default()
	cfg.Seed = o.Seed
	cfg.Model.Init, cfg.Model.HiddenSize, cfg.Model.NumLayers = "random", o.Hidden, o.Layers
	if o.Device != "" {
		cfg.Model.Device = o.Device
	}
	if o.Precision != "" {
		cfg.Model.Precision = o.Precision
	}
	cfg.Rollout.RolloutBatchSize, cfg.Rollout.GroupSize = o.Prompts*o.Group, o.Group
	cfg.Rollout.SamplingMinTokens, cfg.Rollout.SamplingMaxTokens = o.ResponseLen, o.ResponseLen
	cfg.Reward.Functions, cfg.Reward.RewardWeights = []string{"answer", "random"}, []float64{1, 1}
	cfg = config.Resolve(cfg)
	if err := config.Validate(&cfg); err != nil {
		return new(trainer), fmt.Errorf("measure a step: %w", err)
	}
	t := &trainer{cfg: cfg, opts: Options{Threads: o.Threads, Now: o.Now}}
	var err error
	if t.data.template, err = templateOf(cfg.Data, cfg.Model); err != nil {
		return t, err
	}
	// The question fills the rest of the prompt.
	around := len(encodePrompts(tokenizerOf(cfg.Model), t.data.template, []gsm8k.Problem{{}})[0])
	t.data.problems = &Problems{}
	stream := rng.New(o.Seed, rng.Order)
	for i := range 4 * o.Prompts { // so that steps differ
		q := make([]byte, max(0, o.PromptLen-around))
		for j := range q {
			q[j] = byte('a' + int(26*stream.Float64(uint32(i), uint32(j), 0, 0)))
		}
		t.data.problems.Train = append(t.data.problems.Train,
			gsm8k.Problem{ID: fmt.Sprintf("bench-%d", i), Question: string(q), Answer: "#### 1", Gold: "1"})
	}
	m, err := MemoryOf(cfg, t.data.problems, o.Threads)
	if err != nil {
		return t, err
	}
	if err := o.Memory.pass(m); err != nil {
		return t, err
	}
	if err := t.build(); err != nil {
		return t, err
	}
	for _, p := range t.data.prompts {
		if len(p) != o.PromptLen {
			return t, fmt.Errorf("measure a step: a prompt has %d tokens instead of %d", len(p), o.PromptLen)
		}
	}
	t.sampler = t.policy.NewSampler()
	return t, nil
}

func mean(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

func median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}
