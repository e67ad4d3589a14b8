package train

import (
	"fmt"

	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/model/tinylm"
	"grpo/pkg/model/tinylm/base"
	"grpo/pkg/model/tinylm/tokenizer"
)

// This file is the only one of the package that knows which networks there are.

// newPolicy returns the policy that a configuration describes, on a device. Its
// first parameters are the embedded base model ("base"), random ones by seed
// ("random"), or those of the checkpoint at a path. A checkpoint of another size
// is an error that names both sizes.
func newPolicy(c config.Model, init string, seed uint64, on model.Device) (model.Policy, error) {
	w, err := loadTinyLM(specOf(c), init, seed)
	if err != nil {
		return nil, err
	}
	return tinylm.New(w, on), nil
}

func specOf(c config.Model) tinylm.Spec {
	return tinylm.Spec{Vocab: tokenizer.VocabSize, Hidden: c.HiddenSize, Layers: c.NumLayers}
}

func loadTinyLM(spec tinylm.Spec, init string, seed uint64) (*tinylm.Weights, error) {
	if init == "random" {
		w, err := tinylm.NewWeights(spec)
		if err != nil {
			return nil, err
		}
		w.Init(seed)
		return w, nil
	}
	what, read := init, func() (*tinylm.Weights, error) { return tinylm.ReadFile(init) }
	if init == "base" {
		what, read = "the embedded base model", base.Weights
	}
	w, err := read()
	if err != nil {
		return nil, fmt.Errorf("load the first weights: %w", err)
	}
	if w.Spec != spec {
		return nil, fmt.Errorf("load the first weights: %s is a %v, the configuration asks for a %v (model.hidden_size, model.num_layers; model.init \"random\" starts without a checkpoint)",
			what, w.Spec, spec)
	}
	return w, nil
}

// stepWork estimates the operations of one step before the policy is made: how
// long prompts and completions are is not known yet, so half the limit stands
// for both.
func stepWork(c config.Config) float64 {
	spec, tokens := specOf(c.Model), c.Rollout.SamplingMaxTokens/2+1
	rows := c.Rollout.RolloutBatchSize
	inputs := rows*tokens + rows/max(1, c.Rollout.GroupSize)*tokens
	forward := spec.Forward(inputs, rows*tokens)
	return forward.Nominal + float64(c.Train.EpochsPerRolloutBatch)*forward.Update().Nominal
}

func evaluationWork(c config.Config, problems int) float64 {
	tokens := c.Rollout.SamplingMaxTokens/2 + 1
	return specOf(c.Model).Forward(2*problems*tokens, problems*tokens).Nominal
}

func sftWork(c config.SFT) float64 {
	var most float64
	for _, s := range c.Stages {
		tokens := s.BatchSize * config.Default().Rollout.SamplingMaxTokens
		most = max(most, specOf(c.Model).Forward(tokens, tokens).Update().Nominal)
	}
	return most
}
