package config

// aliases are the short names that --set and [Get] take for a key. They are not
// taken in files; see secondNames for those that are.
var aliases = map[string]string{"lr": "train.learning_rate"}

// secondNames are the full paths under which another source knows a key. Files,
// the environment and --set take them like the key's own; what the program
// writes has the own name.
var secondNames = map[string]string{
	"train.num_iterations": "train.epochs_per_rollout_batch", // TRL
	"algorithm.epsilon":    "algorithm.cliprange",            // TRL
}

// secondValues are other spellings of a key's value, by key. They become the
// first spelling when they are read.
var secondValues = map[string]map[string]string{
	"algorithm.loss_type": {
		"GRPO-No-Clip": "grpo_no_clip", // the 2025 assignment's text
		"noclip":       "grpo_no_clip", // the 2026 assignment
	},
	"algorithm.length_normalization": {
		"sequence": "masked_mean", // the 2026 assignment
	},
	"algorithm.kl_estimator": {
		"kl":  "k1", // verl
		"mse": "k2", // verl
	},
}

// ownName returns the key of a full path that may be a second name.
func ownName(path string) string {
	if own, ok := secondNames[path]; ok {
		return own
	}
	return path
}

// ownValue returns the first spelling of a key's value.
func ownValue(key string, v any) any {
	if s, ok := v.(string); ok {
		if own, ok := secondValues[key][s]; ok {
			return own
		}
	}
	return v
}

// aliasOf returns the short name of a key that --set takes, or "".
func aliasOf(key string) string {
	for alias, path := range aliases {
		if path == key {
			return alias
		}
	}
	for second, path := range secondNames {
		if path == key {
			return lastPart(second)
		}
	}
	return ""
}
