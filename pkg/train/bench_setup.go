package train

import (
	"fmt"
	"slices"

	"grpo/pkg/config"
	"grpo/pkg/dataset"
	"grpo/pkg/gsm8k"
	"grpo/pkg/policy"
	"grpo/pkg/rl"
	"grpo/pkg/rng"
	"grpo/pkg/rundir"
)

// newBench returns a trainer without a folder. Close it even after an error.
func newBench(o BenchOptions) (*trainer, error) {
	cfg, err := benchConfig(o)
	if err != nil {
		return new(trainer), fmt.Errorf("measure a step: %w", err)
	}
	t := &trainer{cfg: cfg, opts: Options{Threads: o.Threads, Now: o.Now, Progress: o.Progress}}
	if t.model, err = policy.Of(cfg); err != nil {
		return t, err
	}
	if t.data.template, err = t.model.Template(cfg.Data); err != nil {
		return t, err
	}
	if o.Model == "" {
		t.data.problems = t.benchProblems(o)
	} else if t.data.problems, err = dataset.Load(cfg.Data, cfg.Answers()); err != nil {
		return t, err
	}
	m, err := MemoryOf(t.model, cfg, t.data.problems, o.Threads)
	if err != nil {
		return t, err
	}
	if err := o.Memory.Pass(m); err != nil {
		return t, err
	}
	if err := t.build(); err != nil {
		return t, err
	}
	switch {
	case o.Model != "" && o.PromptLen > 0:
		t.randomPrompts(o)
	case o.Model == "":
		for _, p := range t.data.prompts {
			if len(p) != o.PromptLen {
				return t, fmt.Errorf("measure a step: a prompt has %d tokens instead of %d", len(p), o.PromptLen)
			}
		}
	}
	t.sampler = t.Policy.NewSampler()
	return t, nil
}

// benchConfig is the configuration of the steps.
func benchConfig(o BenchOptions) (config.Config, error) {
	cfg, rows := config.Default(), o.Prompts*o.Group
	loss := cfg.Algorithm.LossType
	if o.Group == 1 { // there is no group to compare with
		loss = string(rl.NoBaseline)
	}
	if o.Model != "" {
		set := []string{fmt.Sprint("rollout_batch_size=", rows), fmt.Sprint("group_size=", o.Group),
			"loss_type=" + loss, "learning_rate=0", "lr_scheduler=constant", "warmup_steps=0"}
		if o.ResponseLen > 0 {
			set = append(set, fmt.Sprint("sampling_max_tokens=", o.ResponseLen))
		}
		r, err := config.Load(config.LoadOptions{
			Path: "smollm2", Set: append(set, o.Set...), Checkpoint: policy.FindCheckpoint,
			Flags: []config.Flag{{Key: "model.init", Name: "--model", Value: o.Model}}})
		if err != nil {
			return cfg, err
		}
		cfg = r.Config
	} else {
		cfg.Model.Init, cfg.Model.HiddenSize, cfg.Model.NumLayers = "random", o.Hidden, o.Layers
		cfg.Rollout.RolloutBatchSize, cfg.Rollout.GroupSize = rows, o.Group
		cfg.Rollout.SamplingMaxTokens, cfg.Algorithm.LossType = o.ResponseLen, loss
	}
	cfg.Seed, cfg.Rollout.SamplingMinTokens = o.Seed, o.ResponseLen
	if o.Device != "" {
		cfg.Model.Device = o.Device
	}
	if o.Precision != "" {
		cfg.Model.Precision = o.Precision
	}
	if o.isDPO() {
		cfg.Algorithm.Type = "dpo"
	}
	cfg.Reward.Functions, cfg.Reward.RewardWeights = []string{"answer", "random"}, []float64{1, 1}
	cfg = config.Resolve(cfg)
	return cfg, config.Validate(&cfg)
}

// benchProblems are random questions that fill the rest of a prompt.
func (t *trainer) benchProblems(o BenchOptions) *dataset.Splits {
	around := len(policy.EncodePrompts(t.model.Tokenizer, t.data.template, []gsm8k.Problem{{}})[0])
	out := &dataset.Splits{}
	stream := rng.New(o.Seed, rng.Order)
	for i := range 4 * o.Prompts { // so that steps differ
		q := make([]byte, max(0, o.PromptLen-around))
		for j := range q {
			q[j] = byte('a' + int(26*stream.Float64(uint32(i), uint32(j), 0, 0)))
		}
		out.Train = append(out.Train,
			gsm8k.Problem{ID: fmt.Sprintf("bench-%d", i), Question: string(q), Answer: "#### 1", Gold: "1"})
	}
	return out
}

// randomPrompts replaces the prompts by random tokens of them.
func (t *trainer) randomPrompts(o BenchOptions) {
	all, stream := slices.Concat(t.data.prompts...), rng.New(o.Seed, rng.Order)
	for i := range t.data.prompts {
		p := make([]int, o.PromptLen)
		for j := range p {
			p[j] = all[int(float64(len(all))*stream.Float64(uint32(i), uint32(j), 0, 0))]
		}
		t.data.prompts[i] = p
	}
}

// benchPairs is [trainer.trainStep] for pairs of any two completions of a group: all of a rollout.
func (t *trainer) benchPairs(step int, lap func() float64) (*rollout, rundir.Metrics, error) {
	m := rundir.Metrics{Step: step}
	r, err := t.rollout(step)
	if err != nil {
		return nil, m, err
	}
	m.Time.RolloutS = lap()
	r.pairs = span(0, len(r.completions))
	if err := t.scoreTokens(r); err != nil {
		return nil, m, err
	}
	m.Time.RewardS = lap()
	if _, err := t.update(r, step); err != nil {
		return nil, m, err
	}
	m.Time.UpdateS = lap()
	return r, m, nil
}
