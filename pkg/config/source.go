package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"grpo/configs"
	"grpo/internal/words"
	"grpo/internal/yamldoc"
)

// maxFileSize bounds a configuration file. The largest embedded one has a few
// kilobytes; a megabyte is a data file given by mistake.
const maxFileSize = 1 << 20

// file is what the texts of this package are.
var file = yamldoc.File{
	What: "one file is one configuration", Empty: "it sets no key (leave out -c for the defaults)",
	Folder: "this is a folder, not a YAML file", Max: maxFileSize, Larger: "not a configuration",
}

// maxSections bounds a list of sections (stages), which is far beyond any use.
const maxSections = 100

// sftNames are the embedded configurations of `grpo sft`; all others are of
// `grpo train`.
var sftNames = []string{"base", "teacher"}

// presetFolder holds the published methods; its files are known by their bare
// names too.
const presetFolder = "presets"

// Names lists the embedded configurations for `grpo train -c NAME`, sorted; the
// presets are among them.
func Names() []string {
	return slices.DeleteFunc(embedded(), func(n string) bool { return slices.Contains(sftNames, n) })
}

// NamesSFT lists the embedded configurations for `grpo sft -c NAME`, sorted.
func NamesSFT() []string { return slices.Clone(sftNames) }

// Preset is an embedded configuration of a published method. It is found as
// NAME and as presets/NAME.
type Preset struct {
	Name string
	// About is the file's first comment: the method and its source.
	About string
}

// Presets lists the presets, sorted by name.
func Presets() []Preset {
	var out []Preset
	for _, name := range filesIn(presetFolder) {
		text, err := readEmbedded(name)
		if err != nil {
			panic("config: embedded configurations: " + err.Error()) // cannot happen with go:embed
		}
		about, _, _ := strings.Cut(string(text), "\n#\n")
		out = append(out, Preset{name, prose(about)})
	}
	return out
}

func embedded() []string {
	names := append(filesIn("."), filesIn(presetFolder)...)
	slices.Sort(names)
	return names
}

// filesIn lists the configurations of an embedded folder, without their ending.
func filesIn(folder string) []string {
	entries, err := fs.ReadDir(configs.FS, folder)
	if err != nil {
		panic("config: embedded configurations: " + err.Error()) // cannot happen with go:embed
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".yaml"); ok {
			names = append(names, name)
		}
	}
	return names
}

// bareName removes presets/ from the name of a preset.
func bareName(name string) string {
	if rest, ok := strings.CutPrefix(name, presetFolder+"/"); ok && slices.Contains(filesIn(presetFolder), rest) {
		return rest
	}
	return name
}

// readEmbedded reads the embedded configuration of a bare name.
func readEmbedded(name string) ([]byte, error) {
	text, err := configs.FS.ReadFile(name + ".yaml")
	if errors.Is(err, fs.ErrNotExist) {
		text, err = configs.FS.ReadFile(path.Join(presetFolder, name+".yaml"))
	}
	return text, err
}

// source is the text of a configuration with the name that messages give it.
type source struct {
	label    string
	text     []byte
	embedded bool
}

// open reads the embedded configuration of that name (a preset's with or without
// presets/ before it) or else the file at that path; a path that could be either
// is written ./name.
func open(nameOrPath string, names []string) (source, *Error) {
	fail := func(cause error, format string, args ...any) (source, *Error) {
		return source{}, &Error{Problems: []string{fmt.Sprintf(format, args...)}, Cause: cause}
	}
	if name := bareName(nameOrPath); slices.Contains(names, name) {
		text, err := readEmbedded(name)
		if err != nil {
			return fail(err, "embedded configuration %q: %v", name, err)
		}
		return source{name + " (embedded)", text, true}, nil
	}
	text, err := file.Read(nameOrPath)
	switch {
	case err == nil:
		return source{nameOrPath, text, false}, nil
	case errors.Is(err, fs.ErrNotExist) && !looksLikePath(nameOrPath):
		return fail(err, "no configuration %q%s: the embedded ones are %s; the path of a YAML file works too",
			nameOrPath, wrongCommand(nameOrPath, names), strings.Join(names, ", "))
	case errors.Is(err, fs.ErrNotExist):
		hint := ""
		if base := strings.TrimSuffix(path.Base(nameOrPath), path.Ext(nameOrPath)); slices.Contains(names, base) {
			hint = fmt.Sprintf(" (the embedded configuration is named %q)", base)
		}
		return fail(err, "%s: no such file%s", nameOrPath, hint)
	}
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return fail(err, "%s: cannot read the file: %v", nameOrPath, pathErr.Err)
	}
	return fail(err, "%s: %v", nameOrPath, err)
}

// wrongCommand ends the message about an unknown name with what was probably meant.
func wrongCommand(name string, names []string) string {
	if slices.Contains(embedded(), name) {
		command := "train"
		if slices.Contains(sftNames, name) {
			command = "sft"
		}
		return fmt.Sprintf(" for this command (it belongs to grpo %s)", command)
	}
	return words.DidYouMean(name, names)
}

func looksLikePath(s string) bool {
	return strings.ContainsAny(s, `/\`) || strings.HasSuffix(s, ".yaml") || strings.HasSuffix(s, ".yml")
}
