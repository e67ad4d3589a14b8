package train

import (
	"errors"
	"fmt"
	"io/fs"

	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/model/tinylm"
	"grpo/pkg/model/tinylm/base"
	"grpo/pkg/model/tinylm/tokenizer"
)

// This file is the only one of the package that knows which networks there are.

// newPolicy returns the policy that a configuration describes, on a device. Its
// first parameters are the embedded base model ("base"), random ones by seed
// ("random"), or those of the checkpoint at a path. A checkpoint of another size,
// and one that holds a number that is not finite, are errors.
func newPolicy(c config.Model, init string, seed uint64, on model.Device) (model.Policy, error) {
	w, err := loadTinyLM(specOf(c), init, seed)
	if err != nil {
		return nil, err
	}
	return tinylm.New(w, on), nil
}

// sizeOf is what the network of a configuration costs.
func sizeOf(c config.Model) model.Size { return specOf(c) }

// tokenizerOf is the tokenizer of a configuration's network.
func tokenizerOf(config.Model) model.Tokenizer { return tinylm.Tokenizer{} }

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
	w, what, err := savedTinyLM(init)
	if err != nil {
		return nil, loadError("the first weights", err)
	}
	if w.Spec != spec {
		fix := "leave model.hidden_size and model.num_layers out, and they follow the checkpoint"
		if init == "base" {
			fix = fmt.Sprintf("for a base model of this size: grpo sft --set hidden_size=%d --set num_layers=%d --out DIR, then --set model.init=DIR; model.init=random starts without one", spec.Hidden, spec.Layers)
		}
		return nil, config.Invalid(fmt.Errorf("load the first weights: %s is a %v, the configuration asks for a %v (%s)", what, w.Spec, spec, fix))
	}
	return w, nil
}

// newTeacher returns the policy of a teacher's checkpoint, which may be a model
// of another size than the policy as long as it has the tokens of the tokenizer.
func newTeacher(path string, on model.Device) (model.Policy, error) {
	w, what, err := savedTinyLM(path)
	if err == nil && w.Vocab != tokenizer.VocabSize {
		err = fmt.Errorf("%s has a vocabulary of %d, the tokenizer of %d", what, w.Vocab, tokenizer.VocabSize)
	}
	if err != nil {
		return nil, loadError("the teacher (algorithm.teacher)", err)
	}
	return tinylm.New(w, on), nil
}

// loadError names what could not be loaded; a missing file is a mistake in the
// configuration.
func loadError(what string, err error) error {
	missing := errors.Is(err, fs.ErrNotExist)
	if err = fmt.Errorf("load %s: %w", what, err); missing {
		return config.Invalid(err)
	}
	return err
}

// savedTinyLM reads the embedded base model ("base") or the file at a path; what
// names it in errors.
func savedTinyLM(init string) (w *tinylm.Weights, what string, err error) {
	if init == "base" {
		w, err = base.Weights()
		return w, "the embedded base model", err
	}
	w, err = tinylm.ReadFile(init)
	return w, init, err
}

// savedSize reads the network's size from the header of a checkpoint.
func savedSize(path string) (config.Checkpoint, error) {
	spec, err := tinylm.ReadSpec(path)
	return config.Checkpoint{File: path, HiddenSize: spec.Hidden, NumLayers: spec.Layers}, err
}

// stepWork estimates the operations of one step before the policy is made: how
// long prompts and completions are is not known yet, so half the limit is used
// for both.
func stepWork(c config.Config) float64 {
	size, tokens := sizeOf(c.Model), c.Rollout.SamplingMaxTokens/2+1
	rows := c.Rollout.RolloutBatchSize
	inputs := rows*tokens + rows/max(1, c.Rollout.GroupSize)*tokens
	forward := size.Forward(inputs, rows*tokens)
	return forward.Nominal + float64(c.Train.EpochsPerRolloutBatch)*forward.Update().Nominal
}

func evaluationWork(c config.Config, problems int) float64 {
	tokens := c.Eval.MaxTokens/2 + 1
	return sizeOf(c.Model).Forward(2*problems*tokens, problems*tokens).Nominal
}

func sftWork(c config.SFT) float64 {
	var most float64
	for _, s := range c.Stages {
		tokens := s.BatchSize * config.Default().Rollout.SamplingMaxTokens
		most = max(most, sizeOf(c.Model).Forward(tokens, tokens).Update().Nominal)
	}
	return most
}
