package train

import (
	"errors"
	"fmt"
	"io/fs"

	"grpo/pkg/config"
	"grpo/pkg/model"
	"grpo/pkg/model/base"
)

// InitialWeights returns the weights that a configuration starts from: the
// embedded base model ("base"), random ones by seed ("random"), or those of the
// checkpoint at a path. A checkpoint of another size is an error that names
// both sizes.
func InitialWeights(spec model.Spec, init string, seed uint64) (*model.Params, error) {
	var c *model.Checkpoint
	var err error
	what := init
	switch init {
	case "random":
		p, err := model.NewParams(spec)
		if err != nil {
			return nil, err
		}
		p.Init(seed)
		return p, nil
	case "base":
		what = "the embedded base model"
		c, err = base.Checkpoint()
	default:
		c, err = model.ReadFile(init)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, config.Invalid(fmt.Errorf("load the first weights: %w", err))
	}
	if err != nil {
		return nil, fmt.Errorf("load the first weights: %w", err)
	}
	if c.Params.Spec != spec {
		return nil, config.Invalid(fmt.Errorf("load the first weights: %s is a %v, the configuration asks for a %v (model.hidden_size, model.num_layers; model.init \"random\" starts without a checkpoint)",
			what, c.Params.Spec, spec))
	}
	return c.Params, nil
}
