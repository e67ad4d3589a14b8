package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"grpo/configs"
	"grpo/internal/suggest"
	"grpo/internal/yamldoc"
)

// maxFileSize bounds a configuration file. Embedded ones have a few kilobytes; a megabyte is
// probably a data file.
const maxFileSize = 1 << 20

// formOf describes a file of this kind of configuration.
func formOf(root any) *yamldoc.Form {
	keys := keysOf(root).paths()
	return &yamldoc.Form{
		What: "one file is one configuration", Empty: "it sets no key (leave out -c for the defaults)",
		Folder: "this is a folder, not a YAML file", Max: maxFileSize, Larger: "not a configuration",
		Example: "seed: 1", MaxProblems: 50, MaxSections: 100, OtherNames: secondNames, Rewrite: shortForms,
		Suggest: func(key string, here []string) string { return suggestKey(key, here, keys) },
	}
}

// sftNames are the embedded configurations of `grpo sft`; all others are of
// `grpo train`.
var sftNames = []string{"base", "sft-gsm8k", "sft-smollm2", "teacher"}

// presetFolder has the published methods; their files are also known by their bare names. taskFolder has the built-in
// tasks, a configuration tasks/NAME and the recipe of its base model, tasks/NAME-base.
const (
	presetFolder = "presets"
	taskFolder   = "tasks"
)

func isTaskBase(name string) bool {
	return strings.HasPrefix(name, taskFolder+"/") && strings.HasSuffix(name, "-base")
}

// Names lists the embedded configurations for `grpo train -c NAME`, sorted, presets included.
func Names() []string {
	return slices.DeleteFunc(embedded(), func(n string) bool {
		return slices.Contains(sftNames, n) || isTaskBase(n) || n == rewardModelName
	})
}

// NamesSFT lists the embedded configurations for `grpo sft -c NAME`, sorted.
func NamesSFT() []string {
	out := slices.Clone(sftNames)
	for _, n := range embedded() {
		if isTaskBase(n) {
			out = append(out, n)
		}
	}
	return out
}

func embedded() []string {
	out := append(configs.Names("."), configs.Names(presetFolder)...)
	for _, n := range configs.Names(taskFolder) {
		out = append(out, taskFolder+"/"+n)
	}
	return slices.Sorted(slices.Values(out))
}

// About is the first paragraph of the comment that starts an embedded configuration, on one line:
// what it is for. The name is one of [Names], [NamesSFT] or [NamesRewardModel].
func About(name string) string {
	text, err := readEmbedded(name)
	if err != nil {
		panic("config: " + err.Error()) // cannot happen with go:embed
	}
	about, _, _ := strings.Cut(string(text), "\n#\n")
	return yamldoc.Prose(about)
}

// readEmbedded reads the embedded configuration of a bare name.
func readEmbedded(name string) ([]byte, error) {
	text, err := configs.FS.ReadFile(name + ".yaml")
	if errors.Is(err, fs.ErrNotExist) {
		text, err = configs.FS.ReadFile(path.Join(presetFolder, name+".yaml"))
	}
	return text, err
}

// MadeBy returns the command that makes a file, by the comment of an embedded configuration that names the file
// ("init: bases/sort/model.safetensors # made by: grpo sft ..."); empty without one.
func MadeBy(file string) string {
	for _, name := range embedded() {
		text, _ := readEmbedded(name)
		if _, rest, ok := strings.Cut(string(text), ": "+file+" # made by: "); ok {
			command, _, _ := strings.Cut(rest, "\n")
			return command
		}
	}
	return ""
}

// source is a configuration's text and its name in messages.
type source struct {
	label    string
	text     []byte
	embedded bool
}

// open reads the embedded configuration of that name (presets/ is optional), or else the file at
// that path; write ./name for a file with an embedded name.
func open(nameOrPath string, names []string) (*source, error) {
	name := nameOrPath
	rest, ok := strings.CutPrefix(name, presetFolder+"/")
	if ok && slices.Contains(configs.Names(presetFolder), rest) {
		name = rest
	}
	if slices.Contains(names, name) {
		text, err := readEmbedded(name)
		return &source{name + " (embedded)", text, true}, err
	}
	text, err := formOf(Config{}).Read(nameOrPath)
	if err == nil {
		return &source{nameOrPath, text, false}, nil
	}
	problem := ""
	var pathErr *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist) && (!configs.IsPath(nameOrPath) || slices.Contains(embedded(), nameOrPath)):
		problem = fmt.Sprintf("no configuration %q%s: the embedded ones are %s; the path of a YAML file works too",
			nameOrPath, wrongCommand(nameOrPath, names), strings.Join(names, ", "))
	case errors.Is(err, fs.ErrNotExist):
		problem = nameOrPath + ": no such file"
		if base := configs.NameOf(nameOrPath); slices.Contains(names, base) {
			problem += fmt.Sprintf(" (the embedded configuration is named %q)", base)
		}
	case errors.As(err, &pathErr):
		problem = fmt.Sprintf("%s: cannot read the file: %v", nameOrPath, pathErr.Err)
	default:
		problem = fmt.Sprintf("%s: %v", nameOrPath, err)
	}
	return nil, &Error{Doing: "load config", Problems: []string{problem}, Cause: err}
}

// wrongCommand ends the message about an unknown name with a suggestion.
func wrongCommand(name string, names []string) string {
	switch {
	case slices.Contains(sftNames, name), isTaskBase(name) && slices.Contains(embedded(), name):
		return " for this command (it belongs to grpo sft)"
	case name == rewardModelName:
		return " for this command (it belongs to grpo reward-model)"
	case slices.Contains(embedded(), name):
		return " for this command (it belongs to grpo train)"
	}
	return suggest.DidYouMean(name, names)
}
