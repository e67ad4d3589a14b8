// Package base holds the base model of the default experiment: a TinyLM that
// can do the word problems and does not prefer to. `make base` makes it anew,
// bit for bit, by the recipe configs/base.yaml; record.json says what came out.
package base

import (
	"bytes"
	_ "embed"

	"grpo/pkg/model"
)

//go:embed model.safetensors
var weights []byte

//go:embed record.json
var record []byte

// Checkpoint decodes the embedded weights.
func Checkpoint() (*model.Checkpoint, error) {
	return model.Read("embedded base model", bytes.NewReader(weights), int64(len(weights)))
}

// Record returns the record of the recipe that made the weights, as JSON.
func Record() []byte { return bytes.Clone(record) }
