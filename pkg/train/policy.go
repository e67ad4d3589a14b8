package train

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"grpo/internal/regular"
	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/model/tinylm"
	"grpo/pkg/model/tinylm/base"
	"grpo/pkg/model/tinylm/tokenizer"
	"grpo/pkg/rundir"
)

// This file is the only one of the package that names a network.

// newPolicy returns the policy of a configuration on a device. Its initial
// parameters are the embedded base model ("base"), random ones by seed
// ("random"), or those of the checkpoint at a path. A checkpoint of another size
// or with a number that is not finite is an error.
func newPolicy(c config.Model, init string, seed uint64, on model.Device) (model.Policy, error) {
	spec := specOf(c)
	if init == "random" {
		w, err := tinylm.NewWeights(spec)
		if err != nil {
			return nil, err
		}
		w.Init(seed)
		return tinylm.New(w, on), nil
	}
	w, what, err := savedWeights(init)
	if err != nil {
		return nil, loadError("the initial weights", err)
	}
	if w.Spec != spec {
		fix := "leave model.hidden_size and model.num_layers out, and they follow the checkpoint"
		if init == "base" {
			fix = fmt.Sprintf("for a base model of this size: grpo sft --set hidden_size=%d "+
				"--set num_layers=%d --out DIR, then "+
				"--set model.init=DIR; model.init=random starts without one", spec.Hidden, spec.Layers)
		}
		return nil, config.Invalid(fmt.Errorf("load the initial weights: %s is a %v, the configuration "+
			"asks for a %v (%s)",
			what, w.Spec, spec, fix))
	}
	return tinylm.New(w, on), nil
}

// newTeacher returns the policy of a teacher's checkpoint. It may be of another
// size than the policy but must have the same vocabulary.
func newTeacher(path string, on model.Device) (model.Policy, error) {
	w, what, err := savedWeights(path)
	if err == nil && w.Vocab != tokenizer.VocabSize {
		err = fmt.Errorf("%s has a vocabulary of %d, the tokenizer of %d", what, w.Vocab, tokenizer.VocabSize)
	}
	if err != nil {
		return nil, loadError("the teacher (algorithm.teacher)", err)
	}
	return tinylm.New(w, on), nil
}

// sizeOf is the size of a configuration's network.
func sizeOf(c config.Model) model.Size { return specOf(c) }

// tokenizerOf is the tokenizer of a configuration's network.
func tokenizerOf(config.Model) model.Tokenizer { return tinylm.Tokenizer{} }

func specOf(c config.Model) tinylm.Spec {
	return tinylm.Spec{Vocab: tokenizer.VocabSize, Hidden: c.HiddenSize, Layers: c.NumLayers}
}

// loadError reports what could not be loaded. A missing file is a mistake in the
// configuration.
func loadError(what string, err error) error {
	missing := errors.Is(err, fs.ErrNotExist)
	if err = fmt.Errorf("load %s: %w", what, err); missing {
		return config.Invalid(err)
	}
	return err
}

// savedWeights reads the embedded base model ("base") or the file at a path, and
// returns its name for errors.
func savedWeights(init string) (w *tinylm.Weights, name string, err error) {
	if init == "base" {
		w, err = base.Weights()
		return w, "the embedded base model", err
	}
	w, err = tinylm.ReadFile(init)
	return w, init, err
}

// FindCheckpoint is the finder of [config.LoadOptions]. A path is a safetensors
// file, the folder of `grpo sft`, or the folder of a run, of which it takes the
// last checkpoint, or the best if a finished run kept no other. For a path that
// can't be read it returns no file: loading it reports the reason.
func FindCheckpoint(path string) (config.Checkpoint, error) {
	file := path
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return config.Checkpoint{}, nil
	case info.IsDir():
		if file, err = weightsIn(path); err != nil {
			return config.Checkpoint{}, err
		}
	case !strings.ContainsAny(path, `/\.`):
		file = "./" + path // so that it can't be taken for a name such as base
	}
	spec, err := tinylm.ReadSpec(file)
	if err != nil {
		return config.Checkpoint{}, nil
	}
	return config.Checkpoint{File: file, HiddenSize: spec.Hidden, NumLayers: spec.Layers}, nil
}

// weightsIn returns the file of the weights in a folder.
func weightsIn(dir string) (string, error) {
	names := []string{SFTModelFile, filepath.Join(rundir.CheckpointDir, lastFile),
		filepath.Join(rundir.CheckpointDir, bestFile)}
	for _, name := range names {
		path := filepath.Join(dir, name)
		err := errors.Join(regular.Folder(filepath.Dir(path)), regular.Check(path, regular.MaxCheckpoint))
		if err == nil {
			return path, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("there are no weights in this folder: none of %s (give the folder of grpo sft "+
		"or of a run, or a safetensors file)",
		strings.Join(names, ", "))
}

// stepWork estimates the operations of one step before the policy is made. The
// lengths of prompts and completions are not known yet: half the limit is used
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
