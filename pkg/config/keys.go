package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"grpo/internal/yamldoc"
	"grpo/pkg/gsm8k"
	"grpo/pkg/rl"
	"grpo/pkg/task"
)

// Root is a configuration that this package loads: [Config] for `grpo train` and
// everything that trains by GRPO, [SFT] for `grpo sft`, [RewardModel] for `grpo reward-model`.
type Root interface{ Config | SFT | RewardModel }

// declaration is what the tags of a field declare about a key: see the package comment.
type declaration struct {
	name       string
	in         *interval // nil: any number
	of         []string  // nil: any string
	orEmpty    bool      // "" is a value, too
	needs      []string
	neutral    string // in YAML's notation
	hasNeutral bool
	was        string

	outsideHash bool
}

// lists are the values of keys that several values of Go code share, by their names in the tag of.
var lists = map[string][]string{
	"sources": append([]string{"generated", "file", "gsm8k", "svamp"}, task.Sources()...),
	"rewards": gsm8k.Rewards(), "kinds": gsm8k.Kinds(), "verifiers": gsm8k.Verifiers(), "corrections": rl.Corrections(),
	"losses": rl.RecipeNames(), "baselines": rl.Baselines(), "normalizers": Normalizers(),
	"levels": rl.ImportanceLevels(), "aggregations": rl.Aggregations(), "kl-estimators": rl.KLEstimators(),
	"preference-losses": rl.PreferenceLosses(), "divergences": rl.Divergences(), "pair-rules": rl.PairRules(),
	"supervised-losses": rl.SupervisedLosses(), "lora-targets": LoRATargets(), "figure-formats": FigureFormats,
	"launchers": LauncherTypes(), "reward-aggregations": {"sum_then_normalize", "normalize_then_sum"},
}

// interval is a range of numbers; an infinite end means no limit.
type interval struct {
	low, high         float64
	lowOpen, highOpen bool
}

// ranges are the intervals of many keys, by their names in the tag in.
var ranges = map[string]string{
	"nonNegative": "[0,inf]", "positive": "(0,inf]", "fraction": "[0,1]", "share": "(0,1]", "belowOne": "[0,1)",
	// temperature keeps logits divided by it finite in float32.
	"temperature": "[1e-30,1e30]",
	// moderate is for rewards, which are multiplied and added: results must be finite.
	"moderate": "[-1e100,1e100]",
	// size is for objects in memory: a typing error must not ask for terabytes.
	"size": "[1,1048576]", "sizeOrNone": "[0,1048576]", "tokens": "[1,65536]", "tokensOrNone": "[0,65536]",
	// counter is for steps, which number random streams by 32 bits.
	"counter": "[1,2147483647]", "counterOrNone": "[0,2147483647]",
}

// intervalOf reads an interval such as [0,1), or the name of one of [ranges]. A mistake in a tag panics.
func intervalOf(text string) *interval {
	if named, ok := ranges[text]; ok {
		text = named
	}
	low, high, _ := strings.Cut(text[1:len(text)-1], ",")
	r := &interval{lowOpen: text[0] == '(', highOpen: text[len(text)-1] == ')'}
	var err, err2 error
	r.low, err = strconv.ParseFloat(low, 64)
	if r.high, err2 = strconv.ParseFloat(high, 64); err != nil || err2 != nil {
		panic("config: no interval: " + text)
	}
	return r
}

func (r interval) contains(x float64) bool {
	return (x > r.low || x == r.low && !r.lowOpen) && (x < r.high || x == r.high && !r.highOpen)
}

func (r interval) String() string {
	low, high := "at least "+yamldoc.FormatFloat(r.low), "at most "+yamldoc.FormatFloat(r.high)
	if r.lowOpen {
		low = "more than " + yamldoc.FormatFloat(r.low)
	}
	if r.highOpen {
		high = "less than " + yamldoc.FormatFloat(r.high)
	}
	if math.IsInf(r.high, 1) {
		return low
	}
	return low + " and " + high
}

// IsTemperature reports whether a sampling temperature is in its bounds.
func IsTemperature(t float64) bool { return intervalOf("temperature").contains(t) }

// declarations are those of a struct's fields by its type: keys are listed a dozen times for each configuration.
var declarations sync.Map // reflect.Type to []declaration, as [yamldoc.Fields]

func declarationsOf(t reflect.Type) []declaration {
	if known, ok := declarations.Load(t); ok {
		return known.([]declaration)
	}
	var out []declaration
	for _, f := range yamldoc.Fields(t) {
		d := declaration{
			name: yamldoc.Name(f), was: f.Tag.Get("was"), needs: strings.Fields(f.Tag.Get("needs")),
			outsideHash: f.Tag.Get("hash") == "-",
		}
		d.neutral, d.hasNeutral = f.Tag.Lookup("neutral")
		if in, ok := f.Tag.Lookup("in"); ok {
			d.in = intervalOf(in)
		}
		if of, ok := f.Tag.Lookup("of"); ok {
			of, d.orEmpty = strings.CutSuffix(of, "|")
			if d.of = lists[of]; d.of == nil {
				d.of = strings.Split(of, "|")
			}
		}
		out = append(out, d)
	}
	declarations.Store(t, out)
	return out
}

// pathsOf are the paths of a struct's fields where the struct is at path.
func pathsOf(t reflect.Type, path string) (out []string) {
	type place struct {
		t    reflect.Type
		path string
	}
	if known, ok := fieldPaths.Load(place{t, path}); ok {
		return known.([]string)
	}
	for _, d := range declarationsOf(t) {
		out = append(out, yamldoc.Join(path, d.name))
	}
	fieldPaths.Store(place{t, path}, out)
	return out
}

var fieldPaths sync.Map

// key is one key of a configuration: the path of yaml tags to a field, joined by dots, with the
// index of a stage as a part: stages.0.steps.
type key struct {
	path  string
	value reflect.Value // can be set if [keysOf] was given a pointer
	*declaration
}

// keyList lists the keys of a configuration in the order of the documentation.
type keyList []key

// keysOf lists the keys of a configuration. It is the one walk over the fields that sources, origins, checks and
// the hash share.
func keysOf(root any) keyList {
	out := make(keyList, 0, 256) // more than any configuration has
	collect(reflect.Indirect(reflect.ValueOf(root)), "", &declaration{}, &out)
	for i := range out {
		if k := &out[i]; k.was != "" {
			d := *k.declaration
			d.neutral, d.hasNeutral = yamldoc.Format(out.find(k.was).value), true
			k.declaration = &d
		}
	}
	return out
}

func collect(v reflect.Value, path string, d *declaration, out *keyList) {
	switch {
	case v.Kind() == reflect.Struct:
		declared, paths := declarationsOf(v.Type()), pathsOf(v.Type(), path)
		for i, f := range yamldoc.Fields(v.Type()) {
			collect(v.FieldByIndex(f.Index), paths[i], &declared[i], out)
		}
	case yamldoc.IsSections(v.Type()):
		for i := range v.Len() {
			collect(v.Index(i), yamldoc.Join(path, strconv.Itoa(i)), &declaration{}, out)
		}
	default:
		*out = append(*out, key{path, v, d})
	}
}

// find returns the key with a full path, or nil.
func (l keyList) find(path string) *key {
	if i := slices.IndexFunc(l, func(k key) bool { return k.path == path }); i >= 0 {
		return &l[i]
	}
	return nil
}

func (l keyList) paths() []string {
	out := make([]string, len(l))
	for i, k := range l {
		out[i] = k.path
	}
	return out
}

func (k *key) format() string { return yamldoc.Format(k.value) }

// field returns the address of the value.
func (k *key) field() any { return k.value.Addr().Interface() }

func (k *key) isNeutral() bool {
	if k.hasNeutral && k.value.Kind() == reflect.String {
		return k.value.String() == k.neutral
	}
	return k.hasNeutral && k.format() == k.neutral
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
	typ reflect.Type
}

// Format returns a value in YAML's notation, given as --set takes it.
func (k Key) Format(text string) (string, error) {
	v := reflect.New(k.typ).Elem()
	if err := yamldoc.SetText(v, text); err != nil {
		return "", fmt.Errorf("%s %w", k.Path, err)
	}
	return yamldoc.Format(v), nil
}

// Keys lists the keys of [Config] in the order of the documentation.
func Keys() []Key { return slices.Clone(allKeys()) }

var allKeys = sync.OnceValue(func() (out []Key) {
	c, doc := defaults()
	for _, k := range keysOf(c) {
		out = append(out, Key{k.path, k.value.Kind(), k.format(), doc.Comments[k.path], k.value.Type()})
	}
	return out
})

// FindKey returns the key of [Config] for a name, as for --set: a full path, a unique last part, or
// an alias. The error of an unknown name suggests a similar one.
func FindKey(name string) (Key, error) {
	name = strings.TrimSpace(name)
	if k, _, ok := customRewardKey(name); ok {
		return k, nil
	}
	c, _ := defaults()
	path, err := findKey(name, keysOf(c).paths())
	if err != nil {
		return Key{}, err
	}
	keys := allKeys()
	return keys[slices.IndexFunc(keys, func(k Key) bool { return k.Path == path })], nil
}

// Get returns the value of a key in YAML's notation. The key is a full path, a unique last part, or
// an alias, as for --set.
func Get[T Root](c T, name string) (string, error) {
	keys := keysOf(c)
	path, err := findKey(strings.TrimSpace(name), keys.paths())
	if err != nil {
		return "", &Error{Doing: "show config", Problems: []string{err.Error()}}
	}
	return keys.find(path).format(), nil
}

// EnvName returns the environment variable of a key: GRPO_TRAIN_LEARNING_RATE
// for train.learning_rate.
func EnvName(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}
