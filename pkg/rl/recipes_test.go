package rl

import (
	"testing"
)

func TestRecipes(t *testing.T) {
	for _, r := range recipes {
		c := LossConfig{Loss: r.Loss, Aggregation: r.Aggregation, NormalizeConstant: 1, Epsilon: 0.2, EpsilonHigh: 5,
			Level: r.Level, DualClip: r.DualClip}
		if err := c.Check(); err != nil {
			t.Errorf("%s of %s: %v", r.sourceName(), r.Source, err)
		}
	}
	for _, name := range LossTypes() {
		if r := RecipeNamed(name); r.Loss != LossType(name) {
			t.Errorf("the loss %s has no recipe of its name, so that no configuration can choose it", name)
		}
	}
	if r := RecipeNamed(""); r != (Recipe{}) {
		t.Errorf("a recipe without a name: %+v", r)
	}
}
