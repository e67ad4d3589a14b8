package train

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"grpo/internal/cores"
	"grpo/internal/textutil"
	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
	"grpo/pkg/rundir"
)

// BenchOptions are the sizes of a measured step: prompts × group completions, with all prompts of
// one length and all completions of one length.
type BenchOptions struct {
	// Model is the Hugging Face folder or GGUF file of a model that takes the steps of the smollm2
	// configuration; empty = a TinyLM with random weights. Hidden and Layers are TinyLM's.
	Model string `json:"model,omitempty"`
	// Set has more keys of that configuration, as in --set.
	Set []string `json:"set,omitempty"`
	// Algorithm is "" or "grpo", or "dpo": each two completions of a group are then a pair, and the
	// update includes the pass of the reference policy.
	Algorithm   string `json:"algorithm,omitempty"`
	Prompts     int    `json:"prompts"`
	Group       int    `json:"group"`
	PromptLen   int    `json:"prompt_len"`   // tokens, <bos> and newline included; at least 3
	ResponseLen int    `json:"response_len"` // tokens; no completion ends early (0: of Model, when they end)
	Hidden      int    `json:"hidden"`
	Layers      int    `json:"layers"`
	Steps       int    `json:"steps"`   // measured steps, after one warm-up step
	Threads     int    `json:"threads"` // 0 = one for each fast core
	Device      string `json:"device"`  // cpu, cuda or auto
	Precision   string `json:"precision"`
	Seed        uint64
	Now         func() time.Time   `json:"-"`
	Memory      budget.MemoryCheck `json:"-"` // nil = no check
	Progress    model.Progress     `json:"-"`
}

// BenchResult has means over the measured steps.
type BenchResult struct {
	RolloutS float64 `json:"rollout_s"` // sampling, grading
	UpdateS  float64 `json:"update_s"`  // advantages, forward, loss, backward, AdamW, the sampler's copies
	// ReferenceS is the part of UpdateS that scores the pairs under the reference policy, for dpo.
	ReferenceS float64 `json:"reference_s,omitempty"`
	StepS      float64 `json:"step_s"`
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
	RolloutGFLOPS  float64 `json:"rollout_gflops"` // model.Work.Executed per second of rollout
	// Peak is the rate of a core's multiply-adds on registers, in the precision of the matmuls. The
	// shares are of Peak times the threads. 0 = unknown (a GPU, or a CPU without assembly).
	Peak         float64 `json:"peak_gflops"`
	UpdateShare  float64 `json:"update_share_of_peak"`
	RolloutShare float64 `json:"rollout_share_of_peak"`
	// Tokens of a step, means: distinct tokens of prompts (a prefix that all share counts once), and
	// sampled tokens.
	PromptTokens float64 `json:"prompt_tokens"`
	Tokens       float64 `json:"tokens"`
	Kernel       string  `json:"kernel,omitempty"` // on the CPU
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

func (o BenchOptions) isDPO() bool { return o.Algorithm == "dpo" }

func (o BenchOptions) check() error {
	switch {
	case !slices.Contains([]string{"", "grpo", "dpo"}, o.Algorithm):
		return fmt.Errorf("%w: measure a step: --algorithm %s must be grpo or dpo",
			config.ErrConfig, textutil.Show(o.Algorithm))
	case o.isDPO() && o.Group%2 != 0:
		return fmt.Errorf("%w: measure a step: --group %d must be even: each two completions are a pair",
			config.ErrConfig, o.Group)
	}
	for _, s := range []struct {
		name     string
		n, least int
		tiny     bool // of TinyLM alone
	}{
		{"--prompts", o.Prompts, 1, false}, {"--group", o.Group, 1, false},
		{"--prompt-len", o.PromptLen, 0, false}, {"--prompt-len", o.PromptLen, 3, true},
		{"--response-len", o.ResponseLen, 0, false}, {"--response-len", o.ResponseLen, 1, true},
		{"--hidden", o.Hidden, 1, true}, {"--layers", o.Layers, 1, true}, {"--steps", o.Steps, 1, false},
	} {
		if s.n < s.least && !(s.tiny && o.Model != "") {
			return fmt.Errorf("%w: measure a step: %s %d must be at least %d", config.ErrConfig, s.name, s.n, s.least)
		}
	}
	return nil
}

// Bench measures training steps. A random reward is added to the answer's so that every group is
// informative. A TinyLM has random weights and random prompts; the weights of a Model do not change.
func Bench(ctx context.Context, o BenchOptions) (*BenchResult, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	o.Threads = cmp.Or(o.Threads, cores.Threads())
	t, err := newBench(o)
	defer t.close()
	if err != nil {
		return nil, err
	}
	graph, watched := t.learner.(interface { // TinyLM is a graph that times its parts
		Watch(now func() time.Time)
		Watched() (runs, arithmetic time.Duration)
	})
	if _, err := t.benchSteps(ctx, o, 0, 1); err != nil { // builds graph and buffers
		return nil, err
	}
	if watched {
		graph.Watch(o.Now)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	memory := t.Device.Memory()
	m, err := t.benchSteps(ctx, o, 1, o.Steps)
	if err != nil {
		return nil, err
	}
	runtime.ReadMemStats(&after)

	n := float64(o.Steps)
	r := m.result(o)
	r.AllocsPerStep = float64(after.Mallocs-before.Mallocs) / n
	r.BytesPerStep = float64(after.TotalAlloc-before.TotalAlloc) / n
	r.Params, r.Device = t.Params.Count(), t.Device.String()
	if t.Device.GPU != nil {
		now := t.Device.Memory()
		r.DeviceBytes, r.DeviceRequests = now.InUse, now.Requests-memory.Requests
		r.DeviceFree = []int{memory.Free, now.Free}
	} else {
		r.Kernel = t.model.Kernel()
		if r.Peak = peak(r.Kernel, o.Now); r.Peak > 0 {
			all := r.Peak * float64(r.Threads)
			r.UpdateShare, r.RolloutShare = r.UpdateExecuted/all, r.RolloutGFLOPS/all
		}
	}
	if watched {
		runs, arithmetic := graph.Watched()
		r.GraphShare = (runs - arithmetic).Seconds() / (n * r.StepS)
	}
	return r, nil
}

// measured are the times of some steps, and sums of what they did.
type measured struct {
	rollouts, updates, reference, steps []float64  // seconds of each step
	work                                model.Work // of sampling
	prompts, predictions                int        // tokens
}

// benchSteps takes n steps after the given one.
func (t *trainer) benchSteps(ctx context.Context, o BenchOptions, after, n int) (*measured, error) {
	out := &measured{}
	step := t.trainStep
	if o.isDPO() {
		step = t.benchPairs
	}
	for i := range n {
		if ctx.Err() != nil {
			return nil, rundir.ErrNothingSaved
		}
		r, m, err := step(after+i+1, newStopwatch(o.Now).lap)
		if err != nil {
			return nil, err
		}
		out.rollouts = append(out.rollouts, m.Time.RolloutS)
		out.updates = append(out.updates, m.Time.RewardS+m.Time.UpdateS)
		out.reference = append(out.reference, m.Time.RewardS)
		out.steps = append(out.steps, m.Time.RolloutS+m.Time.RewardS+m.Time.UpdateS)
		distinct := t.distinctTokens(r.prompts)
		out.work = out.work.Plus(t.Policy.Size().Forward(distinct+r.tokens-len(r.completions), r.tokens))
		out.prompts, out.predictions = out.prompts+distinct, out.predictions+r.tokens
	}
	return out, nil
}

// result are the means and medians of the steps' times, and the rates that follow from them.
func (m *measured) result(o BenchOptions) *BenchResult {
	n := float64(len(m.steps))
	sample := m.work.Times(1 / n)
	update := sample.Update()
	r := &BenchResult{
		RolloutS: mean(m.rollouts), UpdateS: mean(m.updates), StepS: mean(m.steps), MedianStepS: median(m.steps),
		PromptTokens: float64(m.prompts) / n, Tokens: float64(m.predictions) / n, Threads: o.Threads,
	}
	if o.isDPO() {
		update = update.Plus(sample)
		r.ReferenceS = mean(m.reference)
	}
	r.MedianS.Rollout, r.MedianS.Update = median(m.rollouts), median(m.updates)
	r.RolloutTokS = r.Tokens / r.RolloutS
	r.UpdateTokS = (r.PromptTokens + r.Tokens) / r.UpdateS
	r.GFLOPS = (sample.Nominal + update.Nominal) / r.StepS / 1e9
	r.UpdateGFLOPS, r.UpdateExecuted = update.Nominal/r.UpdateS/1e9, update.Executed/r.UpdateS/1e9
	r.RolloutGFLOPS = sample.Executed / r.RolloutS / 1e9
	return r
}

// peak is the peak of a core in GFLOP/s: the best of several samples, because other load can only
// lower it.
func peak(name string, now func() time.Time) (best float64) {
	run := kernel.Peak
	if kernel.InBF16(name) {
		run = kernel.PeakBF16
	}
	for range 9 {
		start := now()
		flops := run(1_000_000)
		best = max(best, flops/max(1e-9, now().Sub(start).Seconds())/1e9)
	}
	return best
}

// distinctTokens counts the tokens of prompts that a step computes: a decoder computes what all of
// them begin with once.
func (t *trainer) distinctTokens(prompts [][]int) (n int) {
	for _, p := range prompts {
		n += len(p)
	}
	if t.model.IsDecoder() {
		n -= (len(prompts) - 1) * model.SharedPrefix(prompts)
	}
	return n
}

func median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}
