package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/viper"

	"grpo/internal/suggest"
	"grpo/internal/textutil"
	"grpo/internal/yamldoc"
)

// envPrefix starts the names of this program's environment variables.
const envPrefix = "GRPO_"

// envOther are variables of this program that are not keys: they affect how it computes or prints,
// not the results. A name that ends in an underscore means all with this prefix.
var envOther = []string{
	"GRPO_KERNEL", // arithmetic kernel
	"GRPO_MEMORY", // memory that runs may take
	"GRPO_DISK",   // disk space that runs may take
	"GRPO_JOB",    // Kubernetes job of a pod
	"GRPO_CUDA_",  // where a GPU's libraries and compiled kernels are
	"GRPO_NO_",    // switches of the terminal, such as GRPO_NO_PROGRESS
}

// Flag is a command-line flag that sets a key.
type Flag struct {
	Key   string // full path, e.g. "train.learning_rate"
	Name  string // as typed, e.g. "--lr"
	Value string
	Lines []string // instead of Value: the elements of a list, which may contain commas
	// Gives says that the flag gives way to a setting of an arm that it contradicts, as an embedded file does: see
	// [LoadOptions].Arm.
	Gives bool
}

// setting is one value of one source, of the key's type.
type setting struct {
	key    string
	value  any
	origin Origin
}

// overrides collects the settings of the environment, --set and flags.
type overrides struct {
	keys     keyList // of the configuration that they override
	settings []setting
	problems []string
	broken   map[string]bool
}

func (o *overrides) problem(format string, args ...any) {
	o.problems = append(o.problems, fmt.Sprintf(format, args...))
}

// set parses a value; prefix starts the error message.
func (o *overrides) set(key, text string, origin Origin, prefix string) {
	v := reflect.New(o.keys.find(key).value.Type()).Elem()
	if err := yamldoc.SetText(v, text); err != nil {
		o.broken[key] = true
		o.problem("%s: %s %v", prefix, key, err)
		return
	}
	o.settings = append(o.settings, setting{key, v.Interface(), origin})
}

// merge applies the settings to the configuration in order, by viper. They already have their keys' types.
func (o *overrides) merge(origins map[string]Origin) {
	v := viper.New()
	for _, k := range o.keys {
		v.SetDefault(k.path, k.value.Interface())
	}
	for _, s := range o.settings {
		v.Set(s.key, s.value)
		origins[s.key] = s.origin
	}
	for _, s := range o.settings {
		o.keys.find(s.key).value.Set(reflect.ValueOf(v.Get(s.key)))
	}
}

// env reads GRPO_... variables from "NAME=value" pairs. An empty value counts as not set. others
// are the keys of the other command's configuration: their variables are ignored.
func (o *overrides) env(pairs, others []string) {
	byName := map[string]string{}
	var names []string
	for _, k := range o.keys {
		name := EnvName(k.path)
		byName[name], names = k.path, append(names, name)
	}
	for second, own := range secondNames {
		if o.keys.find(own) != nil {
			byName[EnvName(second)] = own
		}
	}
	for _, pair := range slices.Sorted(slices.Values(pairs)) {
		name, value, _ := strings.Cut(pair, "=")
		key, known := byName[name]
		switch {
		case !strings.HasPrefix(name, envPrefix) || isOtherEnv(name) || value == "":
		case known:
			o.set(key, value, Origin{Source: SourceEnv, Name: name}, "environment: "+name)
		case slices.ContainsFunc(others, func(k string) bool { return EnvName(k) == name }):
		default:
			o.problem("environment: unknown variable %s%s", textutil.Show(name), suggest.DidYouMean(name, names))
		}
	}
}

func isOtherEnv(name string) bool {
	return slices.ContainsFunc(envOther, func(other string) bool {
		return name == other || strings.HasSuffix(other, "_") && strings.HasPrefix(name, other)
	})
}

// sets parses the arguments of --set: "a.b=v", or "b=v" if only one key ends in b, or an alias.
// Later ones override earlier ones.
func (o *overrides) sets(args []string) {
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok {
			o.problem("--set %s: no \"=\" (write --set KEY=VALUE)", textutil.Show(arg))
			continue
		}
		name = strings.TrimSpace(name)
		key, err := findKey(name, o.keys.paths())
		if err != nil {
			o.problem("--set: %v", err)
			continue
		}
		o.set(key, value, Origin{Source: SourceSet, Name: "--set " + name}, "--set")
	}
}

// flags applies command-line flags; the program, not the user, names their keys. arm says that they are the settings
// of an arm.
func (o *overrides) flags(flags []Flag, arm bool) {
	for _, f := range flags {
		if o.keys.find(f.Key) == nil {
			o.problem("%s: sets the unknown key %q", f.Name, f.Key)
			continue
		}
		origin := Origin{Source: SourceFlag, Name: f.Name, gives: f.Gives, arm: arm}
		if f.Lines != nil {
			o.settings = append(o.settings, setting{f.Key, f.Lines, origin})
			continue
		}
		o.set(f.Key, f.Value, origin, f.Name)
	}
}

const customKey = "reward.custom."

// customRewardKey returns the key with a full path such as reward.custom.0.name, and the index in it.
func customRewardKey(path string) (k Key, index int, ok bool) {
	rest, ok := strings.CutPrefix(path, customKey)
	number, name, _ := strings.Cut(rest, ".")
	index, err := strconv.Atoi(number)
	if !ok || err != nil || index < 0 || index >= maxCustom || strconv.Itoa(index) != number {
		return k, 0, false
	}
	var r CustomReward
	r.SetDefaults()
	if own := keysOf(r).find(name); own != nil {
		return Key{Path: path, Kind: own.value.Kind(), Default: own.format(), typ: own.value.Type()}, index, true
	}
	return k, 0, false
}

// maxCustom bounds the custom functions that settings can define.
const maxCustom = 64

// addCustom makes room for the functions that settings define by their full keys, as the sweep.yaml of a
// sweep does.
func addCustom(root any, opts LoadOptions) {
	c, ok := root.(*Config)
	if !ok {
		return
	}
	var names []string
	for _, arg := range opts.Set {
		name, _, _ := strings.Cut(arg, "=")
		names = append(names, strings.TrimSpace(name))
	}
	for _, f := range slices.Concat(opts.Flags, opts.Arm) {
		names = append(names, f.Key)
	}
	for _, name := range names {
		_, index, ok := customRewardKey(name)
		for ok && len(c.Reward.Custom) <= index {
			var r CustomReward
			r.SetDefaults()
			c.Reward.Custom = append(c.Reward.Custom, r)
		}
	}
}
