package base

import (
	"encoding/json"
	"os"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/model/tinylm"
	"grpo/pkg/model/tinylm/tokenizer"
)

// The embedded weights are those of the record, and the record is of the recipe
// configs/base.yaml.
func TestEmbedded(t *testing.T) {
	w, err := Weights()
	expect.OK(t, err)
	var rec struct {
		ConfigHash string `json:"config_hash"`
		Weights    string `json:"weights_sha256"`
		Stages     []struct {
			Name       string
			Validation struct {
				Sampled struct {
					AnswerReward float64 `json:"answer_reward"`
				}
			}
		}
	}
	record, err := os.ReadFile("record.json")
	expect.OK(t, err)
	expect.OK(t, json.Unmarshal(record, &rec))
	if got := w.Hash(); got != rec.Weights {
		t.Errorf("the embedded weights hash to %s, their record has %s: run `make base`", got, rec.Weights)
	}
	recipe, err := config.LoadSFT(config.LoadOptions{Path: "base"})
	expect.OK(t, err)
	if got := config.Hash(recipe.Config); got != rec.ConfigHash {
		t.Errorf("configs/base.yaml has hash %s, the record is of %s: run `make base`", got, rec.ConfigHash)
	}
	d := config.Default()
	want := tinylm.Spec{Vocab: tokenizer.VocabSize, Hidden: d.Model.HiddenSize, Layers: d.Model.NumLayers}
	if w.Spec != want {
		t.Errorf("the embedded model is a %v, the default configuration asks for a %v", w.Spec, want)
	}
	if name, ok := w.Finite(); !ok {
		t.Errorf("%s is not finite", name)
	}
	last := rec.Stages[len(rec.Stages)-1]
	if r := last.Validation.Sampled.AnswerReward; !(r > 0.05 && r < 0.25) {
		t.Errorf("the base model answers %.3f of the validation problems, sampled: it should rarely solve them (0.05 to 0.25)", r)
	}
}
