package config

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

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
	// Arm has the settings of an arm of a sweep, stronger than Flags. Where one contradicts a value that the user did
	// not ask for, of an embedded file or of a flag that gives way, the value gives way (see [Loaded].Given).
	Arm []Flag
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
	opts.Path = cmp.Or(opts.Path, "base")
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
		if c, ok := any(&out.Config).(*Config); ok && src.embedded {
			out.adapters = c.Train.LoRA.Rank > 0
		}
		problems = append(problems, doc.Problems...)
		maps.Copy(broken, doc.Broken)
	}
	addCustom(&out.Config, opts)
	over := overrides{keys: keysOf(&out.Config), broken: broken}
	over.env(opts.Env, otherKeys(&out.Config))
	over.sets(opts.Set)
	over.flags(opts.Flags, false)
	over.flags(opts.Arm, true)
	over.merge(out.origins)
	firstSpellings(&out.Config)

	problems = append(problems, over.problems...)
	if len(problems) == 0 {
		out.useWholeFiles()
		out.useValSize(opts.Only)
		out.useTask()
		problems = out.useCheckpoints(opts, broken)
		out.useLoRARate()
	}
	var found []string
	for again := true; again; {
		v := newValidator(any(&out.Config).(root), out.origins)
		v.broken, v.partial, v.only = maps.Clone(broken), len(problems) > 0, opts.Only
		found = v.validate()
		again = len(opts.Arm) > 0 && len(problems) == 0 && out.giveWay(v.found, defaults)
	}
	if problems = append(problems, found...); len(problems) > 0 {
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

// recipeKeys are the prefix of the keys that give way: those of a loss and its advantages, which have several names, and
// of which one implies others. A contradiction between sizes, such as those of groups and batches, stays an error.
const recipeKeys = "algorithm."

// giveWay resets the keys that contradict a setting of an arm and that the user did not ask for. It is false if there
// are none.
func (l *Loaded[T]) giveWay(found []finding, defaults T) bool {
	usual, own := keysOf(&defaults), keysOf(&l.Config)
	changed := false
	for _, f := range found {
		by := slices.IndexFunc(f.keys, func(key string) bool { return l.origins[key].arm })
		for _, key := range f.keys {
			o := l.origins[key]
			if by < 0 || !(o.Source == SourceEmbedded || o.gives) || !strings.HasPrefix(key, recipeKeys) {
				continue
			}
			k := own.find(key)
			l.Given = append(l.Given, Given{key, k.format(), o, f.keys[by]})
			k.value.Set(usual.find(key).value)
			delete(l.origins, key)
			changed = true
		}
	}
	return changed
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
	for _, key := range commandKeys() {
		if strings.Contains(key, ".") || !own[key] {
			out = append(out, key)
		}
	}
	return out
}

// commandKeys lists the keys of the configurations of all commands.
var commandKeys = sync.OnceValue(func() (out []string) {
	sft := DefaultSFT()
	sft.Stages = make([]Stage, 10) // as many as an environment may name
	for _, root := range []any{&Config{}, &sft, &RewardModel{}} {
		out = append(out, keysOf(root).paths()...)
	}
	return out
})

// Source is a layer of the configuration. A later one overrides an earlier one.
type Source int

// The layers, from the weakest to the strongest.
const (
	SourceDefault  Source = iota
	SourceEmbedded        // a file that comes with the program
	SourceFile
	SourceEnv
	SourceSet
	SourceFlag
)

// Origin is where a key's value comes from.
type Origin struct {
	Source Source
	// Name is the file, the environment variable or the flag.
	Name string
	// Line is the key's line in the file; for a default in a list of sections, the first line of
	// its section.
	Line int
	// From is set if the value was 0 for "the same as" this other key.
	From string
	// AskedBy is the key that determined the value, if it was left open or its default contradicted
	// that key.
	AskedBy string

	gives, arm bool // of a flag that gives way to the settings of an arm; of such a setting
}

// String formats an origin for messages and tables: "default", "x.yaml: line 4", "GRPO_SEED",
// "--set seed", "--seed"; followed by the key that determined a value left open.
func (o Origin) String() string {
	s := o.Name
	switch o.Source {
	case SourceDefault:
		s = "default"
		if o.Line > 0 {
			s = fmt.Sprintf("default in the section at %s: line %d", o.Name, o.Line)
		}
	case SourceEmbedded, SourceFile:
		s = fmt.Sprintf("%s: line %d", o.Name, o.Line)
	}
	if o.From != "" {
		s += ", the same as " + o.From
	}
	if o.AskedBy != "" {
		s += ", as " + o.AskedBy + " asks"
	}
	return s
}

// Loaded is a configuration with the origin of each of its keys.
type Loaded[T Root] struct {
	// Config is valid and resolved (see [Resolve]).
	Config  T
	origins map[string]Origin
	// resolved is the label of a file that [Marshal] wrote; empty without one.
	resolved string
	// adapters: the embedded configuration trains adapters, so its learning rate is meant for these.
	adapters bool
	// Given are the values that gave way to settings of [LoadOptions].Arm: their keys have their defaults.
	Given []Given
}

// Given is a value that gave way.
type Given struct {
	Key, Value string
	From       Origin // of the value
	To         string // the key of the arm that it contradicts
}

// Resolved is what [Load] returns.
type Resolved = Loaded[Config]

// Origin returns where the value of a key comes from; the zero Origin
// ("default") for an unknown key.
func (l *Loaded[T]) Origin(key string) Origin { return l.origins[key] }

// Chosen reports whether the user gave the value of a key: it is not from a file that comes with the
// program, or that the program wrote.
func (l *Loaded[T]) Chosen(key string) bool {
	o := l.origins[key]
	return o.Source > SourceFile || o.Source == SourceFile && o.Name != l.resolved
}

// Row is one line of `grpo config show`.
type Row struct {
	Key, Value string
	Origin     Origin
}

// Rows lists all keys in the order of the documentation, each with its value in
// YAML's notation and its origin.
func (l *Loaded[T]) Rows() []Row {
	var rows []Row
	for _, k := range keysOf(l.Config) {
		rows = append(rows, Row{k.path, k.format(), l.origins[k.path]})
	}
	return rows
}

func customOf(root any) []CustomReward {
	if c, ok := root.(*Config); ok {
		return c.Reward.Custom
	}
	return nil
}

// moveOrigins follows custom functions that [Resolve] moves from one place of the list to another.
func (l *Loaded[T]) moveOrigins(before, after []CustomReward) {
	old := map[string]Origin{}
	for key, o := range l.origins {
		if strings.HasPrefix(key, customKey) {
			old[key] = o
			delete(l.origins, key)
		}
	}
	for to, c := range after {
		from := slices.IndexFunc(before, func(b CustomReward) bool { return b.Name == c.Name })
		prefix := fmt.Sprint(customKey, from, ".")
		for key, o := range old {
			if rest, ok := strings.CutPrefix(key, prefix); ok {
				l.origins[fmt.Sprint(customKey, to, ".", rest)] = o
			}
		}
	}
}
