package sweep

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"grpo/internal/textutil"
	"grpo/internal/yamldoc"
	"grpo/pkg/config"
)

// labels of keys whose names don't read well.
var labels = map[string]string{
	"train.n_grpo_steps":         "GRPO steps",
	"algorithm.beta":             "KL weight (beta)",
	"algorithm.gamma":            "discount (gamma)",
	"algorithm.type":             "algorithm",
	"algorithm.gae_lambda":       "GAE lambda",
	"train.lr_scheduler":         "learning rate schedule",
	"train.warmup_steps":         "warm-up steps",
	"train.adam_betas":           "AdamW betas",
	"train.adam_eps":             "AdamW eps",
	"rollout.sampling_top_p":     "sampling top-p",
	"rollout.sampling_top_k":     "sampling top-k",
	"algorithm.kl_estimator":     "KL estimator",
	"algorithm.kl_in":            "KL in",
	"algorithm.cliprange":        "clip range",
	"algorithm.epsilon_high":     "upper clip range",
	"reward.functions":           "reward functions",
	"algorithm.scale_rewards":    "scale_rewards",
	"algorithm.dynamic_sampling": "dynamic sampling",
}

func lastPart(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// shortName is the name of a key in the names of arms and folders.
func shortName(path string) string {
	if path == RateKey {
		return "lr"
	}
	return yamldoc.LastPart(path)
}

// labelOf is the default label of a key in figures and tables.
func labelOf(path string) string {
	if s, ok := labels[path]; ok {
		return s
	}
	return strings.ReplaceAll(yamldoc.LastPart(path), "_", " ")
}

// canonical writes a value as in the name of an arm: 3e-5 for 0.00003, lists with one
// space after each comma. A string that is no value of the key's type is unchanged;
// resolving the arm reports it.
func canonical(k config.Key, text string) string {
	if k.Kind != reflect.String {
		text = strings.TrimSpace(text)
	}
	switch k.Kind {
	case reflect.Float64:
		if f, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
			return textutil.Number(f + 0)
		}
	case reflect.Int, reflect.Uint64:
		return strings.TrimPrefix(text, "+")
	case reflect.Slice, reflect.Array:
		inner := strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
		parts := strings.Split(inner, ",")
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return text
}

// maxFolder bounds the name of a run's folder, in bytes, so that it fits into tables.
const maxFolder = 100

// folder is the name of a run's folder: arm and seed, in characters that are safe in
// shells, file systems and URLs, and the hash, which identifies the run.
func folder(arm string, seed uint64, hash string) string {
	tail := fmt.Sprintf("_seed-%d-%s", seed, hash)
	name := safeName(arm)
	if room := maxFolder - len(tail); len(name) > room {
		name = strings.TrimRight(name[:room], "._-")
	}
	return name + tail
}

// safeName keeps letters, digits and ".-", writes "=" as "-", and replaces other
// characters, also several in a row, by an underscore.
func safeName(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-':
			b.WriteRune(r)
		case r == '=':
			b.WriteByte('-')
		case !strings.HasSuffix(b.String(), "_"):
			b.WriteByte('_')
		}
	}
	name := strings.TrimLeft(b.String(), ".-_")
	if name = strings.TrimRight(name, "_"); name == "" {
		return "arm"
	}
	return name
}
