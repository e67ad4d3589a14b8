package tinylm

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"grpo/pkg/model"
	"grpo/pkg/model/safetensors"
)

// Read decodes a safetensors file of TinyLM weights; the size of the model follows from the shapes.
// A missing or surplus tensor, a wrong shape, and NaN or Inf are errors that name the tensor. It
// reads files of weights alone (from PyTorch or an earlier version) and checkpoints of runs.
func Read(name string, r io.ReaderAt, size int64) (*Weights, error) {
	c, err := model.ReadCheckpoint(name, r, size)
	return fromCheckpoint(name, c, err)
}

// ReadFile is [Read] of the file at path.
func ReadFile(path string) (*Weights, error) {
	c, err := model.ReadCheckpointFile(path)
	return fromCheckpoint(path, c, err)
}

func fromCheckpoint(name string, c *model.Checkpoint, err error) (*Weights, error) {
	if err != nil {
		return nil, err
	}
	w, err := WeightsOf(c.Params)
	if err == nil {
		err = w.CheckFinite()
	}
	if err != nil {
		return nil, fmt.Errorf("read checkpoint: %s: %w", name, err)
	}
	return w, nil
}

// ReadSpec returns the size of the model in the file at path, from its header only.
func ReadSpec(path string) (Spec, error) {
	f, err := safetensors.ReadHeader(path)
	if err != nil {
		return Spec{}, err
	}
	at := make(map[string]model.Tensor, len(f.Tensors))
	for _, t := range f.Tensors {
		at[t.Name] = model.Tensor{Name: t.Name, Shape: t.Shape}
	}
	spec, err := specOf(at)
	if err != nil {
		return Spec{}, fmt.Errorf("read checkpoint: %s: %w", path, err)
	}
	return spec, nil
}

// WeightsOf takes the weights from p, whose tensors may be in any order.
func WeightsOf(p *model.Params) (*Weights, error) {
	at := byName(p)
	spec, err := specOf(at)
	if err != nil {
		return nil, err
	}
	w := newWeights(spec, spec.Vocab)
	for _, t := range w.Tensors() {
		got, ok := at[t.Name]
		if !ok {
			return nil, fmt.Errorf("tensor %q is missing: this is not a TinyLM of %d layers", t.Name, spec.Layers)
		}
		if !slices.Equal(got.Shape, t.Shape) {
			if t.Name == "head.weight" && slices.Equal(got.Shape, []int{1, spec.Hidden}) {
				return nil, errors.New("it is a reward model, which has no probabilities of tokens: " +
					"name a language model")
			}
			return nil, fmt.Errorf("tensor %q has shape %v, a model of vocab %d and hidden %d has %v",
				t.Name, got.Shape, spec.Vocab, spec.Hidden, t.Shape)
		}
		copy(t.Data, got.Data)
		delete(at, t.Name)
	}
	for _, t := range p.Tensors() {
		if _, left := at[t.Name]; left {
			return nil, fmt.Errorf("tensor %q does not belong to a TinyLM of %d layers", t.Name, spec.Layers)
		}
	}
	return w, nil
}

// byName has the tensors of p by their names: a header can name a million tensors, too many to
// search all of them for each one.
func byName(p *model.Params) map[string]model.Tensor {
	at := make(map[string]model.Tensor, len(p.Tensors()))
	for _, t := range p.Tensors() {
		at[t.Name] = t
	}
	return at
}

// specOf derives the size of the model from the shapes.
func specOf(at map[string]model.Tensor) (Spec, error) {
	e, ok := at["embed.weight"]
	if !ok {
		return Spec{}, errors.New(`tensor "embed.weight" is missing: this is not a TinyLM`)
	}
	if len(e.Shape) != 2 || e.Shape[0] < 1 || e.Shape[1] < 1 {
		return Spec{}, fmt.Errorf("tensor \"embed.weight\" has shape %v, want (vocab, hidden)", e.Shape)
	}
	s := Spec{Vocab: e.Shape[0], Hidden: e.Shape[1]}
	have := 0
	for _, t := range at {
		have += model.Elements(t.Shape)
	}
	for {
		if _, ok := at[fmt.Sprintf("rnn.weight_hh_l%d", s.Layers)]; !ok {
			break
		}
		s.Layers++
	}
	if s.Layers == 0 {
		return s, errors.New(`tensor "rnn.weight_hh_l0" is missing: this is not a TinyLM`)
	}
	// The sizes come from a header that may be damaged: allocate at most twice the memory of the file.
	// Its head may have one row, as that of a reward model. Each factor is at most have.
	if h, v := float64(s.Hidden), float64(s.Vocab); float64(v*h)+float64(float64(s.Layers)*6*h*h) > float64(have) {
		return s, fmt.Errorf("%v needs more numbers than the file's %d", s, have)
	}
	return s, nil
}

// OpenRewardModel reads a reward model from a safetensors file of a critic's parameters. A file of
// other tensors, and NaN or Inf, are errors.
func OpenRewardModel(path string, on model.Device) (*Critic, error) {
	p, err := model.ReadWeightsFile(path)
	if err != nil {
		return nil, err
	}
	at := byName(p)
	spec, err := specOf(at)
	if err == nil && slices.Equal(at["head.bias"].Shape, []int{spec.Vocab}) {
		err = errors.New("it is a language model, whose head has a row for each token (train a reward model with " +
			"\"grpo reward-model\")")
	}
	if err == nil {
		err = newWeights(spec, 1).Match(p)
	}
	if err == nil {
		err = p.CheckFinite()
	}
	if err != nil {
		return nil, fmt.Errorf("open reward model %s: %w", path, err)
	}
	c, err := NewCritic(newWeights(spec, spec.Vocab), model.AdamWOptions{}, on)
	if err != nil {
		return nil, err
	}
	return c, c.Params.Set(p)
}
