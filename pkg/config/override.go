package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"grpo/internal/words"
)

// The sources beside the file: environment, --set and flags. Each is a list of
// texts for keys, so their values take the one notation of scalar.go.

// envPrefix begins the environment variables of this program.
const envPrefix = "GRPO_"

// envOther are the variables of this program that are no keys: they say how it
// computes or prints, never what. A name that ends in an underscore stands for
// all that begin with it.
var envOther = []string{
	"GRPO_KERNEL", // arithmetic kernel
	"GRPO_MEMORY", // memory that runs may take
	"GRPO_CUDA_",  // where a GPU's libraries and compiled kernels lie
	"GRPO_NO_",    // switches of the terminal, such as GRPO_NO_PROGRESS
}

// EnvName returns the environment variable of a key: GRPO_TRAIN_LEARNING_RATE
// for train.learning_rate.
func EnvName(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// Flag is a command-line flag that sets a key.
type Flag struct {
	Key   string // full path, e.g. "train.learning_rate"
	Name  string // as typed, e.g. "--lr"
	Value string
}

// overrides collects what the sources beside the file set, for a configuration
// with these keys.
type overrides struct {
	keys     []string
	types    map[string]reflect.Type
	settings []setting
	problems []string
	broken   map[string]bool
}

func (o *overrides) set(key, text string, origin Origin, prefix string) {
	v, err := parseText(text, o.types[key])
	if err != nil {
		o.broken[key] = true
		o.problems = append(o.problems, fmt.Sprintf("%s: %s %v", prefix, key, err))
		return
	}
	o.settings = append(o.settings, setting{key, ownValue(key, v), origin})
}

// env reads GRPO_... variables from "NAME=value" pairs. An empty value counts
// as not set. otherRoot holds the keys of the other command's configuration,
// whose variables may be set at the same time and do not concern this one.
func (o *overrides) env(pairs, otherRoot []string) {
	byName := map[string]string{}
	for _, k := range o.keys {
		byName[EnvName(k)] = k
	}
	for second, own := range secondNames {
		if slices.Contains(o.keys, own) {
			byName[EnvName(second)] = own
		}
	}
	pairs = slices.Clone(pairs)
	slices.Sort(pairs)
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, envPrefix) || isOtherEnv(name) || value == "" {
			continue
		}
		if key, ok := byName[name]; ok {
			o.set(key, value, Origin{Source: SourceEnv, Name: name}, "environment: "+name)
			continue
		}
		if slices.ContainsFunc(otherRoot, func(k string) bool { return EnvName(k) == name }) {
			continue
		}
		var names []string
		for _, k := range o.keys {
			names = append(names, EnvName(k))
		}
		o.problems = append(o.problems, fmt.Sprintf("environment: unknown variable %s%s", words.Show(name), words.DidYouMean(name, names)))
	}
}

func isOtherEnv(name string) bool {
	for _, other := range envOther {
		if name == other || strings.HasSuffix(other, "_") && strings.HasPrefix(name, other) {
			return true
		}
	}
	return false
}

// sets reads the arguments of --set: "a.b=v", or "b=v" where only one key ends
// in b, or an alias. Later ones override earlier ones.
func (o *overrides) sets(args []string) {
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok {
			o.problems = append(o.problems, fmt.Sprintf("--set %s: no \"=\" (write --set KEY=VALUE)", words.Show(arg)))
			continue
		}
		name = strings.TrimSpace(name)
		key, err := findKey(name, o.keys)
		if err != nil {
			o.problems = append(o.problems, fmt.Sprintf("--set: %v", err))
			continue
		}
		o.set(key, value, Origin{Source: SourceSet, Name: "--set " + name}, "--set")
	}
}

// flags reads command-line flags; their keys are the program's, not the user's.
func (o *overrides) flags(flags []Flag) {
	for _, f := range flags {
		if !slices.Contains(o.keys, f.Key) {
			o.problems = append(o.problems, fmt.Sprintf("%s: sets the unknown key %q", f.Name, f.Key))
			continue
		}
		o.set(f.Key, f.Value, Origin{Source: SourceFlag, Name: f.Name}, f.Name)
	}
}

// findKey completes the name of a key: a full path, an alias, or a last part
// that only one key has. Second names count like the keys' own.
func findKey(name string, keys []string) (string, error) {
	if own := ownName(name); slices.Contains(keys, own) {
		return own, nil
	}
	if k, ok := aliases[name]; ok && slices.Contains(keys, k) {
		return k, nil
	}
	var matches []string
	for _, k := range keys {
		if lastPart(k) == name {
			matches = append(matches, k)
		}
	}
	for second, own := range secondNames {
		if lastPart(second) == name && slices.Contains(keys, own) {
			matches = append(matches, own)
		}
	}
	// "temperature" is the last part of eval.temperature alone, and what other
	// tools call rollout.sampling_temperature.
	if k, ok := synonyms[name]; ok && len(matches) > 0 && !slices.Contains(matches, k) && slices.Contains(keys, k) {
		return "", fmt.Errorf("%q may mean several keys: write one of %s, %s", name, strings.Join(matches, ", "), k)
	}
	switch len(matches) {
	case 1:
		return matches[0], nil
	case 0:
		return "", fmt.Errorf("unknown key %s%s", words.Quote(name), suggestKey(name, keys, keys))
	}
	return "", fmt.Errorf("%q is the last part of several keys: write one of %s", name, strings.Join(matches, ", "))
}
