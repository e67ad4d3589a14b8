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
	"grpo/pkg/model/base"
	"grpo/pkg/model/tokenizer"
	"grpo/pkg/rundir"
)

// FindCheckpoint is the finder of [config.LoadOptions]. A path is a safetensors
// file, the folder of `grpo sft`, or the folder of a run, of which it takes the
// last checkpoint, or the best where a finished run kept no other. What can't be
// read has no file: loading it says why.
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
		file = "./" + path // so that it can't be taken for a word such as base
	}
	spec, err := model.ReadSpec(file)
	if err != nil {
		return config.Checkpoint{}, nil
	}
	return config.Checkpoint{File: file, HiddenSize: spec.Hidden, NumLayers: spec.Layers}, nil
}

// weightsIn returns the file of the weights in a folder.
func weightsIn(dir string) (string, error) {
	names := []string{SFTModelFile, filepath.Join(rundir.CheckpointDir, lastFile), filepath.Join(rundir.CheckpointDir, bestFile)}
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
	return "", fmt.Errorf("there are no weights in this folder: none of %s (give the folder of grpo sft or of a run, or a safetensors file)", strings.Join(names, ", "))
}

// InitialWeights returns the weights that a configuration starts from: the
// embedded base model ("base"), random ones by seed ("random"), or those of the
// checkpoint at a path. A checkpoint of another size, and one that holds a number
// that is not finite, are errors.
func InitialWeights(spec model.Spec, init string, seed uint64) (*model.Params, error) {
	if init == "random" {
		p, err := model.NewParams(spec)
		if err != nil {
			return nil, err
		}
		p.Init(seed)
		return p, nil
	}
	p, what, err := savedWeights(init)
	if err != nil {
		return nil, loadError("the first weights", err)
	}
	if p.Spec != spec {
		fix := "leave model.hidden_size and model.num_layers out, and they follow the checkpoint"
		if init == "base" {
			fix = fmt.Sprintf("for a base model of this size: grpo sft --set hidden_size=%d --set num_layers=%d --out DIR, then --set model.init=DIR; model.init=random starts without one", spec.Hidden, spec.Layers)
		}
		return nil, config.Invalid(fmt.Errorf("load the first weights: %s is a %v, the configuration asks for a %v (%s)", what, p.Spec, spec, fix))
	}
	return p, nil
}

// TeacherWeights returns the weights of a teacher, which may be a model of
// another size than the policy as long as it has the tokens of the tokenizer.
func TeacherWeights(path string) (*model.Params, error) {
	p, what, err := savedWeights(path)
	if err == nil && p.Vocab != tokenizer.VocabSize {
		err = fmt.Errorf("%s has a vocabulary of %d, the tokenizer of %d", what, p.Vocab, tokenizer.VocabSize)
	}
	if err != nil {
		return nil, loadError("the teacher (algorithm.teacher)", err)
	}
	return p, nil
}

// loadError says what could not be loaded; a missing file is a mistake in the
// configuration.
func loadError(what string, err error) error {
	missing := errors.Is(err, fs.ErrNotExist)
	if err = fmt.Errorf("load %s: %w", what, err); missing {
		return config.Invalid(err)
	}
	return err
}

// savedWeights reads the embedded base model ("base") or the file at a path; what
// names it in errors.
func savedWeights(init string) (p *model.Params, what string, err error) {
	if init != "base" {
		p, err = model.ReadWeights(init)
		return p, init, err
	}
	c, err := base.Checkpoint()
	if err != nil {
		return nil, "", err
	}
	return c.Params, "the embedded base model", nil
}
