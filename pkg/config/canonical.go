package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"grpo/internal/yamldoc"
)

// resolvedMark is the first line of a file written by [Marshal], which has every key of its
// release: a missing key was added later.
const resolvedMark = "# resolved by grpo"

// Marshal writes the canonical YAML of a resolved configuration: every key but those of the section
// launcher, in the order of the documentation, numbers in the shortest form that reads back
// to the same bits. Loading it gives exactly the same configuration. The
// argument must be valid (see [Validate]).
func Marshal[T Root](c T) []byte {
	c = Resolve(c)
	command := "train"
	switch any(c).(type) {
	case SFT:
		command = "sft"
	case RewardModel:
		command = "reward-model"
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, resolvedMark+"; repeat with: grpo %s -c this-file\n", command)
	writeSection(&b, reflect.ValueOf(c), "", "")
	return b.Bytes()
}

// writeSection writes the keys of a section; first is the indentation of the
// first line, which may hold a list's dash, and rest that of the others.
func writeSection(b *bytes.Buffer, v reflect.Value, first, rest string) {
	for i, field := range yamldoc.Fields(v.Type()) {
		f, name := v.FieldByIndex(field.Index), yamldoc.Name(field)
		if i > 0 {
			first = rest
		}
		switch {
		case f.Type() == reflect.TypeFor[Launcher]():
		case yamldoc.OmitsZero(field) && isNeutral(f, &declarationsOf(v.Type())[i]): // as in earlier releases
		case f.Kind() == reflect.Struct:
			fmt.Fprintf(b, "%s%s:\n", first, name)
			writeSection(b, f, rest+"  ", rest+"  ")
		case yamldoc.IsSections(f.Type()) && f.Len() == 0: // as in configurations before there were any
		case yamldoc.IsSections(f.Type()):
			fmt.Fprintf(b, "%s%s:\n", first, name)
			for j := range f.Len() {
				writeSection(b, f.Index(j), rest+"  - ", rest+"    ")
			}
		default:
			fmt.Fprintf(b, "%s%s: %s\n", first, name, yamldoc.Format(f))
		}
	}
}

// isNeutral reports whether a key, or each key of a section, is at its neutral value.
func isNeutral(v reflect.Value, d *declaration) bool {
	var keys keyList
	collect(v, "", d, &keys)
	return !slices.ContainsFunc(keys, func(k key) bool { return !k.isNeutral() })
}

// Resets lists the settings that take the keys below the prefixes back to their defaults.
func Resets(c Config, prefixes ...string) (out []Setting) {
	defaults := keysOf(Resolve(Default()))
	for _, s := range NotDefault(c) {
		below := func(prefix string) bool { return strings.HasPrefix(s.Key, prefix) }
		if slices.ContainsFunc(prefixes, below) {
			out = append(out, Setting{s.Key, defaults.find(s.Key).format()})
		}
	}
	return out
}

// Hash identifies the results of a resolved configuration: the first 8 hex digits of the SHA-256 of
// "key: value" lines for every key that has an effect on them. Keys with the tag hash:"-" change neither the weights
// nor any line of metrics, evaluations and samples, and the section launcher says where a run is trained. The seed is
// part of the hash, and so are train.gradient_accumulation_steps and train.micro_batch_tokens: they regroup sums of
// floats, which changes the last bits of the results.
//
// A key added after the first release is left out at its neutral value, at which it has no effect,
// so that older configurations keep their hash, which is part of folder names. A neutral value
// therefore never changes, even if the default does. For a key with the tag was, the neutral value
// is that of the key the first release used: training and evaluation at temperature 1.3 keep their
// old hash; training at 1.3 with evaluation at 1 gets a new one.
func Hash[T Root](c T) string {
	c = Resolve(c)
	h := sha256.New()
	for _, k := range keysOf(c) {
		if !k.outsideHash && !OfLauncher(k.path) && !k.isNeutral() {
			fmt.Fprintf(h, "%s: %s\n", k.path, k.format())
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:8]
}

// Diff names the keys in which two configurations differ, in the order of the documentation, with
// both values: "train.learning_rate: 0.001, now 0.0003". Both are resolved first, and the section
// launcher is left out. A stage that only
// one of them has is listed key by key.
func Diff[T Root](a, b T) []string {
	keysA, keysB := keysOf(Resolve(a)), keysOf(Resolve(b))
	order := keysA
	if len(keysB) > len(keysA) {
		order = keysB
	}
	value := func(l keyList, path string) string {
		if k := l.find(path); k != nil {
			return k.format()
		}
		return "absent"
	}
	var out []string
	for _, k := range order {
		was, now := value(keysA, k.path), value(keysB, k.path)
		if was != now && !OfLauncher(k.path) {
			out = append(out, fmt.Sprintf("%s: %s, now %s", k.path, was, now))
		}
	}
	return out
}

// Setting is a key with its value in YAML's notation.
type Setting struct{ Key, Value string }

// NotDefault lists the settings that have an effect on the results and are not at their default, in
// the order of the documentation.
func NotDefault(c Config) []Setting {
	defaults := keysOf(Resolve(Default()))
	var out []Setting
	for _, k := range keysOf(Resolve(c)) {
		normal := defaults.find(k.path) // nil for the keys of custom reward functions
		isDefault := normal == nil && k.isNeutral() || normal != nil && normal.format() == k.format()
		if !isDefault && !k.outsideHash && !OfLauncher(k.path) {
			out = append(out, Setting{k.path, k.format()})
		}
	}
	return out
}
