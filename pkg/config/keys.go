package config

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"grpo/internal/yamldoc"
)

// Root is a configuration that this package loads: [Config] for `grpo train` and
// everything that trains by GRPO, [SFT] for `grpo sft`, [RewardModel] for `grpo reward-model`.
type Root interface{ Config | SFT | RewardModel }

// leaf is one key of a configuration: the path of yaml tags to a field, joined by dots, with the
// index of a stage as a part: stages.0.steps.
type leaf struct {
	path  string
	value reflect.Value
	// neutral is the value without effect; empty for the keys of the first release.
	neutral    string
	hasNeutral bool
	// was is the key that the first release used instead; its value is the neutral one.
	was string
}

func (f leaf) isNeutral() bool {
	if f.hasNeutral && f.value.Kind() == reflect.String {
		return f.value.String() == f.neutral
	}
	return f.hasNeutral && yamldoc.Format(f.value) == f.neutral
}

// leaves lists the keys of a configuration in the order of its fields. The
// values can be set if root is a pointer.
func leaves(root any) []leaf {
	out := make([]leaf, 0, 256) // more than any configuration has
	collect(reflect.Indirect(reflect.ValueOf(root)), "", field{}, &out)
	for i := range out {
		if out[i].was == "" {
			continue
		}
		for k := range out {
			if out[k].path == out[i].was {
				out[i].neutral, out[i].hasNeutral = yamldoc.Format(out[k].value), true
			}
		}
	}
	return out
}

func collect(v reflect.Value, path string, of field, out *[]leaf) {
	switch {
	case v.Kind() == reflect.Struct:
		for i, f := range fieldsOf(v.Type()) {
			collect(v.Field(i), yamldoc.Join(path, f.name), f, out)
		}
	case yamldoc.IsSections(v.Type()):
		for i := range v.Len() {
			collect(v.Index(i), yamldoc.Join(path, strconv.Itoa(i)), field{}, out)
		}
	default:
		*out = append(*out, leaf{path, v, of.neutral, of.hasNeutral, of.was})
	}
}

// field is what the tags of a field say.
type field struct {
	name, neutral, was string
	hasNeutral         bool
}

// knownFields are the fields by type: the keys are listed a dozen times for each configuration.
var knownFields sync.Map // reflect.Type to []field

func fieldsOf(t reflect.Type) []field {
	if known, ok := knownFields.Load(t); ok {
		return known.([]field)
	}
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		neutral, ok := f.Tag.Lookup("neutral")
		out = append(out, field{yamldoc.Name(f), neutral, f.Tag.Get("was"), ok})
	}
	knownFields.Store(t, out)
	return out
}

// paths lists the keys of a configuration.
func paths(root any) []string {
	var out []string
	for _, f := range leaves(root) {
		out = append(out, f.path)
	}
	return out
}

// Key documents one key of a configuration.
type Key struct {
	Path string
	// Kind of the value: of an integer, Int or (from 0 on) Uint64; of a list, Slice
	// or Array.
	Kind reflect.Kind
	// Default in YAML's notation.
	Default string
	// Doc is the comment on the key in the embedded default.yaml, on one line.
	Doc string
}

// Keys lists the keys of [Config] in the order of the documentation.
func Keys() []Key { return slices.Clone(allKeys()) }

var allKeys = sync.OnceValue(func() (out []Key) {
	c, doc := defaults()
	for _, f := range leaves(c) {
		out = append(out, Key{f.path, f.value.Kind(), yamldoc.Format(f.value), doc.Comments[f.path]})
	}
	return out
})

// FindKey returns the key of [Config] for a name, as for --set: a full path, a unique last part, or
// an alias. The error of an unknown name suggests a similar one.
func FindKey(name string) (Key, error) {
	if k, _, ok := customRewardKey(strings.TrimSpace(name)); ok {
		return k, nil
	}
	keys := allKeys()
	c, _ := defaults()
	path, err := findKey(strings.TrimSpace(name), paths(c))
	if err != nil {
		return Key{}, err
	}
	return keys[slices.IndexFunc(keys, func(k Key) bool { return k.Path == path })], nil
}
