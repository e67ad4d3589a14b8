package hf

import (
	"cmp"

	"grpo/internal/jsonkeys"
)

// defaults are the values of keys that a config.json leaves out, in transformers 5.24. Sizes that every network has
// of its own have none, nor have end tokens: those of the classes belong to one tokenizer, and folders name theirs.
type defaults struct {
	context     int
	kvHeads     int     // 0: as many as heads
	headDim     int     // 0: hidden_size / num_attention_heads
	theta       float64 // 0: 10000
	eps         float64 // 0: 1e-6
	window      int     // 0: none
	queryScalar float64 // 0: the head's size
}

// newConfigFile is a config.json of the model_type of data before its keys are read. A null is no default: it stands
// for the same as in [defaults] 0.
func newConfigFile(data []byte) configFile {
	var kind struct {
		ModelType string `json:"model_type"`
	}
	_ = jsonkeys.Decode(data, &kind) // reading the keys says what is wrong
	f := configFile{NormEps: 1e-6, Activation: "silu"}
	arch, err := byType(kind.ModelType)
	if err != nil {
		return f
	}
	if arch.new().GELU {
		f.Activation = "gelu_pytorch_tanh"
	}
	d := arch.defaults[kind.ModelType]
	f.Context, f.NormEps = d.context, cmp.Or(d.eps, f.NormEps)
	f.KVHeads, f.HeadDim, f.SlidingWindow = unlessZero(d.kvHeads), unlessZero(d.headDim), unlessZero(d.window)
	f.RopeTheta, f.QueryScalar = unlessZero(d.theta), unlessZero(d.queryScalar)
	return f
}

func unlessZero[T comparable](x T) *T {
	if x == *new(T) {
		return nil
	}
	return &x
}
