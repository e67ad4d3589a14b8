package config

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"
)

// LoadOptions are the sources of a configuration, from the weakest to the
// strongest; the defaults lie below them all.
type LoadOptions struct {
	// Path is the name of an embedded configuration ([Names], [NamesSFT]) or
	// the path of a YAML file. Empty means the defaults ([Load]) or the
	// embedded recipe "base" ([LoadSFT]).
	Path string
	// Env holds the environment as "NAME=value" pairs; only GRPO_... matters.
	Env []string
	// Set holds the arguments of --set, "a.b=v".
	Set []string
	// Flags are flags of the command that set a key, where the user gave them.
	Flags []Flag
	// Checkpoint finds the checkpoint at a path, whose size the model then has.
	// Nil leaves paths and sizes as they are, and so does a checkpoint without a
	// file, where there is none that can be read.
	Checkpoint func(path string) (Checkpoint, error)
}

// Load resolves the configuration of a GRPO run:
//
//	defaults < file < environment < --set < flags
//
// It is strict: whatever no key takes is an error, and so is a value of another
// type (see the notation in scalar.go) and one that breaks a rule. All problems
// are reported at once, each with its file and line or its origin, in an
// [*Error], which wraps [ErrConfig].
//
// Zeros and empty texts that stand for what other keys say are replaced by it
// (see [Resolve]).
func Load(opts LoadOptions) (*Resolved, error) {
	return load(opts, Names(), grpoRoot())
}

// LoadText resolves the configuration of a GRPO run out of a text alone, such as
// [Marshal] writes; name stands for it in errors.
func LoadText(name string, text []byte) (*Resolved, error) {
	return loadFrom(&source{label: name, text: text}, LoadOptions{}, grpoRoot())
}

// LoadSFT resolves the configuration of `grpo sft` in the same way. A list of
// stages in the file is the whole list; what a stage leaves unsaid is
// [DefaultStage]'s. The other sources reach the stages by their index, e.g.
// --set stages.0.steps=100 or GRPO_STAGES_0_STEPS.
func LoadSFT(opts LoadOptions) (*ResolvedSFT, error) {
	if opts.Path == "" {
		opts.Path = "base"
	}
	return load(opts, NamesSFT(), sftRoot())
}

// root is what the two loaders differ in.
type root[T Root] struct {
	defaults T
	// otherKeys are the keys of the other root; see [overrides.env].
	otherKeys []string
}

func grpoRoot() root[Config] {
	sft := DefaultSFT()
	sft.Stages = make([]Stage, 10) // as many as anyone's environment may name
	return root[Config]{Default(), leafPaths(sft)}
}

func sftRoot() root[SFT] { return root[SFT]{DefaultSFT(), leafPaths(Default())} }

func load[T Root](opts LoadOptions, names []string, r root[T]) (*Loaded[T], error) {
	if opts.Path == "" {
		return loadFrom(nil, opts, r)
	}
	src, err := open(opts.Path, names)
	if err != nil {
		err.Doing = "load config"
		return nil, err
	}
	return loadFrom(&src, opts, r)
}

// loadFrom merges and checks the sources; src is the file, or nil.
func loadFrom[T Root](src *source, opts LoadOptions, r root[T]) (*Loaded[T], error) {
	config, doc := r.defaults, &document{}
	if src != nil {
		doc = readDocument(*src, reflect.TypeFor[T](), leafPaths(config))
		growSections(reflect.ValueOf(&config).Elem(), "", doc.sections)
		if bytes.HasPrefix(src.text, []byte(resolvedMark)) {
			doc.settings = append(doc.settings, doc.asBefore(leaves(config))...)
		}
	}
	over := &overrides{keys: leafPaths(config), types: leafTypes(config), broken: map[string]bool{}}
	over.env(opts.Env, r.otherKeys)
	over.sets(opts.Set)
	over.flags(opts.Flags)

	layers := append(doc.settings, over.settings...)
	merged, err := merge(config, layers)
	if err != nil {
		return nil, &Error{Doing: "load config", Problems: []string{err.Error()}}
	}
	out := &Loaded[T]{Config: merged, origins: map[string]Origin{}}
	for _, key := range leafPaths(config) {
		if line, ok := doc.begins[strings.TrimSuffix(key, "."+lastPart(key))]; ok {
			out.origins[key] = Origin{Name: doc.label, Line: line}
		}
	}
	for _, s := range layers {
		out.origins[s.path] = s.origin
	}
	problems := append(doc.problems, over.problems...)
	if len(problems) == 0 {
		out.useWholeFiles(src != nil && src.embedded)
		problems = out.useCheckpoints(opts.Checkpoint, src != nil && src.embedded, over.broken)
	}
	check := checker{root: &out.Config, origins: out.origins, partial: len(problems) > 0}
	check.markBroken(doc.broken, over.broken)
	if problems = append(problems, check.run()...); len(problems) > 0 {
		return nil, &Error{Doing: "load config", Problems: problems}
	}
	for key, why := range resolve(&out.Config) {
		o := out.origins[key]
		o.From, o.AskedBy = why.from, why.askedBy
		out.origins[key] = o
	}
	return out, nil
}

// asBefore gives the keys that a resolved configuration of an earlier version
// does not have the values that its run used in their place, so that the run is
// shown, continued and repeated as what it was.
func (d *document) asBefore(keys []leaf) []setting {
	has := map[string]setting{}
	for _, s := range d.settings {
		has[s.path] = s
	}
	var out []setting
	for _, f := range keys {
		was, known := has[f.was]
		if _, there := has[f.path]; f.was == "" || there || !known || d.broken[f.path] {
			continue
		}
		was.path, was.origin.From = f.path, f.was
		out = append(out, was)
	}
	return out
}

// growSections gives each list of sections the length that the file has, filled
// with the element's defaults.
func growSections(v reflect.Value, path string, lengths map[string]int) {
	for i := range v.NumField() {
		f, name := v.Field(i), join(path, fieldName(v.Type().Field(i)))
		switch {
		case f.Kind() == reflect.Struct:
			growSections(f, name, lengths)
		case isSections(f.Type()):
			n, given := lengths[name]
			if !given {
				continue
			}
			f.Set(reflect.MakeSlice(f.Type(), n, n))
			for j := range n {
				f.Index(j).Set(reflect.ValueOf(DefaultStage()))
			}
		}
	}
}

// merge lays the settings over the defaults, in their order, by viper. The
// settings have their keys' types already, so the decoding is asked to convert
// nothing and to refuse what it does not know: a mistake in this package
// surfaces here and not in a run.
func merge[T Root](defaults T, layers []setting) (T, error) {
	v := viper.New()
	for _, f := range leaves(defaults) {
		v.SetDefault(f.path, f.value.Interface())
	}
	for _, s := range layers {
		if err := v.MergeConfigMap(nest(s.path, s.value)); err != nil {
			return defaults, fmt.Errorf("merge %s: %w", s.path, err)
		}
	}
	var out T
	err := v.UnmarshalExact(&out, func(c *mapstructure.DecoderConfig) {
		c.TagName = "yaml"
		c.WeaklyTypedInput = false
		c.DecodeHook = sectionsHook
		c.MatchName = func(key, field string) bool { return key == field }
	})
	return out, err
}

// nest writes a value as the nested maps that viper merges.
func nest(path string, value any) map[string]any {
	head, rest, ok := strings.Cut(path, ".")
	if !ok {
		return map[string]any{head: value}
	}
	return map[string]any{head: nest(rest, value)}
}

// sectionsHook turns {"0": ..., "1": ...} into the list that it stands for:
// viper merges maps key by key, and replaces lists as a whole.
func sectionsHook(from, to reflect.Type, data any) (any, error) {
	byIndex, ok := data.(map[string]any)
	if !ok || !isSections(to) {
		return data, nil
	}
	list := make([]any, len(byIndex))
	for i := range list {
		e, ok := byIndex[fmt.Sprint(i)]
		if !ok {
			return nil, fmt.Errorf("sections are not numbered from 0 to %d", len(byIndex)-1)
		}
		list[i] = e
	}
	return list, nil
}
