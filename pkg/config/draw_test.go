package config

import (
	"reflect"
	"strings"

	"pgregory.net/rapid"
)

// drawAlgorithm gives keys of reward and algorithm random values, one at a time, and reverts those
// that break a rule.
func drawAlgorithm(t *rapid.T, c *Config) {
	values := validValues(&Config{})
	for _, name := range []string{"baseline", "normalizer", "scale_rewards", "importance_sampling_level", "length_normalization"} {
		values["algorithm."+name] = append(values["algorithm."+name], "")
	}
	values["algorithm.dpo.pairs_file"], values["algorithm.dpo.eval_pairs_file"] = []string{"", "pairs.jsonl"}, []string{"", "held.jsonl"}
	values["algorithm.teacher"] = []string{"", "base", "x.safetensors"}
	var keys []string
	for _, f := range keysOf(c) {
		if strings.HasPrefix(f.path, "algorithm.") || strings.HasPrefix(f.path, "reward.") && f.value.Kind() != reflect.Slice {
			keys = append(keys, f.path)
		}
	}
	for _, key := range rapid.SliceOfN(rapid.SampledFrom(keys), 0, 40).Draw(t, "keys") {
		before := *c
		for _, f := range keysOf(c) {
			if f.path != key {
				continue
			}
			switch f.value.Kind() {
			case reflect.String:
				f.value.SetString(rapid.SampledFrom(values[key]).Draw(t, key))
			case reflect.Bool:
				f.value.SetBool(rapid.Bool().Draw(t, key))
			case reflect.Int:
				f.value.SetInt(int64(rapid.IntRange(-1, 70).Draw(t, key)))
			case reflect.Float64:
				f.value.SetFloat(floats(-2, 7).Draw(t, key))
			}
		}
		if Validate(c) != nil {
			*c = before
		}
	}
}
