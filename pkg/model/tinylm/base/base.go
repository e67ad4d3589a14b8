// Package base embeds the base model of the default experiment: a TinyLM that can solve the word
// problems but rarely does. `make base` rebuilds it bit for bit from the recipe configs/base.yaml;
// record.json describes the result.
package base

import (
	"bytes"
	_ "embed"

	"grpo/pkg/model/tinylm"
)

//go:embed model.safetensors
var weights []byte

// Weights decodes the embedded weights.
func Weights() (*tinylm.Weights, error) {
	return tinylm.Read("embedded base model", bytes.NewReader(weights), int64(len(weights)))
}
