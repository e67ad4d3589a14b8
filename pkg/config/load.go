package config

import (
	"bytes"
	"maps"
	"strconv"
	"strings"

	"grpo/internal/yamldoc"
)

// LoadOptions are the sources of a configuration, from the weakest to the strongest, all stronger
// than the defaults.
type LoadOptions struct {
	// Path is the name of an embedded configuration ([Names], [NamesSFT]) or
	// the path of a YAML file. Empty means the defaults ([Load]) or the
	// embedded recipe "base" ([LoadSFT]).
	Path string
	// Over are further files, of the same form as Path. Each overrides the keys that it sets.
	Over []string
	// Env is the environment as "NAME=value" pairs; only GRPO_... matters.
	Env []string
	// Set has the arguments of --set, "a.b=v".
	Set []string
	// Flags are the flags of the command that set a key, if the user gave them.
	Flags []Flag
	// Only is the one split whose problems a command reads, which trains nothing, or [NoSplit]: only its file must
	// be named. Completions of a Llama or Qwen checkpoint are then longer by default than TinyLM's. Empty: a run.
	Only string
	// Checkpoint finds the checkpoint at a path; the model takes its size. adapterBase is the base
	// model of the adapters at the path, if they name none. If it is nil or returns no file, paths
	// and sizes are unchanged.
	Checkpoint func(path, adapterBase string) (Checkpoint, error)
}

// NoSplit is the value of [LoadOptions].Only for a command that reads no problems.
const NoSplit = "none"

// Load resolves the configuration of a GRPO run:
//
//	defaults < files, in their order < environment < --set < flags
//
// It is strict: unknown keys, values of another type (see package yamldoc for the notation) and
// invalid values are errors. All problems are reported at once, each with its file and line or its
// origin, in an [*Error], which wraps [ErrConfig].
//
// Zeros and empty strings that mean the value of another key are filled in (see [Resolve]).
func Load(opts LoadOptions) (*Resolved, error) { return load(opts, Names(), Default()) }

// LoadText resolves the configuration of a GRPO run from YAML alone, such as the output of
// [Marshal]; name identifies it in errors.
func LoadText(name string, text []byte) (*Resolved, error) {
	return loadFrom([]*source{{label: name, text: text}}, LoadOptions{}, Default())
}

// LoadSFT resolves the configuration of `grpo sft` in the same way. A list of stages in the file
// replaces the default list; missing keys of a stage are those of [DefaultStage]. The other sources
// reach the stages by their index, e.g. --set stages.0.steps=100 or GRPO_STAGES_0_STEPS.
func LoadSFT(opts LoadOptions) (*Loaded[SFT], error) {
	if opts.Path == "" {
		opts.Path = "base"
	}
	return load(opts, NamesSFT(), DefaultSFT())
}

func load[T Root](opts LoadOptions, names []string, defaults T) (*Loaded[T], error) {
	var files []*source
	for i, path := range append([]string{opts.Path}, opts.Over...) {
		if i == 0 && path == "" {
			continue
		}
		src, err := open(path, names)
		if err != nil {
			return nil, err
		}
		files = append(files, src)
	}
	return loadFrom(files, opts, defaults)
}

// loadFrom merges and checks the sources. Each file overrides those before it.
func loadFrom[T Root](files []*source, opts LoadOptions, defaults T) (*Loaded[T], error) {
	out := &Loaded[T]{Config: defaults, origins: map[string]Origin{}}
	var problems []string
	broken := map[string]bool{}
	for _, src := range files {
		doc := formOf(defaults).Decode(src.label, src.text, &out.Config)
		out.place(src, doc)
		problems = append(problems, doc.Problems...)
		maps.Copy(broken, doc.Broken)
	}
	addCustom(&out.Config, opts)
	over := overrides{keys: keysOf(&out.Config), broken: broken}
	over.env(opts.Env, otherKeys(&out.Config))
	over.sets(opts.Set)
	over.flags(opts.Flags)
	over.merge(out.origins)
	firstSpellings(&out.Config)

	problems = append(problems, over.problems...)
	if len(problems) == 0 {
		out.useWholeFiles()
		problems = out.useCheckpoints(opts, broken)
		out.useLoRARate()
	}
	v := newValidator(any(&out.Config).(root), out.origins)
	v.broken, v.partial, v.only = broken, len(problems) > 0, opts.Only
	if problems = append(problems, v.validate()...); len(problems) > 0 {
		return nil, &Error{Doing: "load config", Problems: problems}
	}
	before := customOf(&out.Config)
	wrote := resolve(&out.Config)
	out.moveOrigins(before, customOf(&out.Config))
	for key, why := range wrote {
		o := out.origins[key]
		o.From, o.AskedBy = why.from, why.askedBy
		out.origins[key] = o
	}
	return out, nil
}

// place notes the lines of the keys in a file. A resolved configuration of an earlier release has
// every key of that release: a missing key gets the value its run used in effect, so that the run
// is shown, continued and repeated unchanged.
func (l *Loaded[T]) place(src *source, doc *yamldoc.Document) {
	in := SourceFile
	if src.embedded {
		in = SourceEmbedded
	}
	keys := keysOf(&l.Config)
	for _, k := range keys {
		if line, ok := doc.Lines[k.path]; ok && !doc.Broken[k.path] {
			l.origins[k.path] = Origin{Source: in, Name: doc.Label, Line: line}
			continue
		}
		section := strings.TrimSuffix(k.path, "."+yamldoc.LastPart(k.path))
		if _, err := strconv.Atoi(yamldoc.LastPart(section)); err == nil && doc.Lines[section] > 0 {
			l.origins[k.path] = Origin{Name: doc.Label, Line: doc.Lines[section]}
		}
	}
	if !bytes.HasPrefix(src.text, []byte(resolvedMark)) {
		return
	}
	l.resolved = doc.Label
	for _, k := range keys {
		was, given := l.origins[k.was]
		if _, ok := doc.Lines[k.path]; !ok && given {
			was.From = k.was
			k.value.Set(keys.find(k.was).value)
			l.origins[k.path] = was
		}
	}
}

// otherKeys lists the keys of the other commands' configurations. One that is also the last part of an
// own key, such as learning_rate, is left out: in the environment it is more likely a mistake.
func otherKeys(root any) (out []string) {
	own := map[string]bool{}
	for _, key := range keysOf(root).paths() {
		own[yamldoc.LastPart(key)] = true
	}
	sft := DefaultSFT()
	sft.Stages = make([]Stage, 10) // as many as an environment may name
	for _, other := range []any{&Config{}, &sft, &RewardModel{}} {
		for _, key := range keysOf(other).paths() {
			if strings.Contains(key, ".") || !own[key] {
				out = append(out, key)
			}
		}
	}
	return out
}
