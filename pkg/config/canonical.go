package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// resolvedMark begins what [Marshal] writes: every key is in it that this version
// knows, so one that is missing joined later.
const resolvedMark = "# resolved by grpo"

// Marshal writes the canonical YAML of a resolved configuration: every key, in
// the order of the documentation, numbers in the shortest form that reads back
// to the same bits. Loading it gives exactly the same configuration. The
// argument must be valid (see [Validate]).
func Marshal[T Root](c T) []byte {
	c = Resolve(c)
	command := "train"
	if _, ok := any(c).(SFT); ok {
		command = "sft"
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, resolvedMark+"; repeat with: grpo %s -c this-file\n", command)
	writeSection(&b, reflect.ValueOf(c), "", "")
	return b.Bytes()
}

// writeSection writes the keys of a section; first is the indentation of the
// first line, where a list's dash may stand, and rest that of the others.
func writeSection(b *bytes.Buffer, v reflect.Value, first, rest string) {
	for i := range v.NumField() {
		f, name := v.Field(i), fieldName(v.Type().Field(i))
		if i > 0 {
			first = rest
		}
		switch {
		case f.Kind() == reflect.Struct:
			fmt.Fprintf(b, "%s%s:\n", first, name)
			writeSection(b, f, rest+"  ", rest+"  ")
		case isSections(f.Type()) && f.Len() > 0:
			fmt.Fprintf(b, "%s%s:\n", first, name)
			for j := range f.Len() {
				writeSection(b, f.Index(j), rest+"  - ", rest+"    ")
			}
		default:
			fmt.Fprintf(b, "%s%s: %s\n", first, name, formatValue(f))
		}
	}
}

// outsideHash are the keys that do not enter [Hash]: changing them changes
// neither the weights nor any line of metrics, evaluations and samples.
//
//   - name is a label;
//   - output.* says which weights stay on disk, not what they are.
//
// The seed enters. So does train.gradient_accumulation_steps, although it is
// without effect in exact arithmetic: it regroups sums of floats, and a run
// promises its bits.
var outsideHash = []string{"name", "output.checkpoint_every_n_steps", "output.keep_checkpoints", "output.keep"}

// Hash identifies the results of a resolved configuration: the first 8 hex
// digits of the SHA-256 of "key: value" lines for every key that has an effect
// on them (all but name and output.*).
//
// A key that joined after the first version is left out at its neutral value,
// at which a run is what it was before there was the key: so the hash of an
// older configuration, which names folders, stays. A neutral value is therefore
// never changed, not even together with the default. For a key with the tag was
// it is the value of the key that the first version used: training at temperature
// 1.3 with evaluation at 1.3 has the hash that it had, with evaluation at 1 another.
func Hash[T Root](c T) string {
	c = Resolve(c)
	h := sha256.New()
	for _, f := range leaves(c) {
		if !slices.Contains(outsideHash, f.path) && !f.isNeutral() {
			fmt.Fprintf(h, "%s: %s\n", f.path, formatValue(f.value))
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:8]
}

// Diff names the keys in which two configurations differ, in the order of the
// documentation, with both values: "train.learning_rate: 0.001, now 0.0003".
// Both are resolved first. A stage that only one of them has counts by its keys.
func Diff[T Root](a, b T) []string {
	a, b = Resolve(a), Resolve(b)
	values := func(c T) ([]string, map[string]string) {
		var order []string
		byKey := map[string]string{}
		for _, f := range leaves(c) {
			order = append(order, f.path)
			byKey[f.path] = formatValue(f.value)
		}
		return order, byKey
	}
	orderA, byA := values(a)
	orderB, byB := values(b)
	if len(orderB) > len(orderA) {
		orderA = orderB
	}
	var out []string
	for _, k := range orderA {
		if byA[k] != byB[k] {
			out = append(out, fmt.Sprintf("%s: %s, now %s", k, orAbsent(byA[k]), orAbsent(byB[k])))
		}
	}
	return out
}

func orAbsent(s string) string {
	if s == "" {
		return "absent"
	}
	return s
}

// Get returns the value of a key in YAML's notation. The key is a full path, a
// last part that only one key has, or an alias, as for --set.
func Get[T Root](c T, key string) (string, error) {
	path, err := findKey(strings.TrimSpace(key), leafPaths(c))
	if err != nil {
		return "", &Error{Doing: "show config", Problems: []string{err.Error()}}
	}
	for _, f := range leaves(c) {
		if f.path == path {
			return formatValue(f.value), nil
		}
	}
	panic("config: findKey returned an unknown key")
}
