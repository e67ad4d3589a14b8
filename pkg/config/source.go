package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"grpo/configs"
)

// maxFileSize bounds a configuration file. The largest embedded one has a few
// kilobytes; a megabyte is a data file given by mistake.
const maxFileSize = 1 << 20

// maxSections bounds a list of sections (stages), which is far beyond any use.
const maxSections = 100

// sftNames are the embedded configurations of `grpo sft`; all others are of
// `grpo train`.
var sftNames = []string{"base"}

// Names lists the embedded configurations for `grpo train -c NAME`, sorted.
func Names() []string {
	return slices.DeleteFunc(embedded(), func(n string) bool { return slices.Contains(sftNames, n) })
}

// NamesSFT lists the embedded configurations for `grpo sft -c NAME`, sorted.
func NamesSFT() []string { return slices.Clone(sftNames) }

func embedded() []string {
	entries, err := fs.ReadDir(configs.FS, ".")
	if err != nil {
		panic("config: embedded configurations: " + err.Error()) // cannot happen with go:embed
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// source is the text of a configuration with the name that messages give it.
type source struct {
	label string
	text  []byte
}

// open reads the embedded configuration of that name or else the file at that
// path; a path that could be either is written ./name.
func open(nameOrPath string, names []string) (source, *Error) {
	fail := func(cause error, format string, args ...any) (source, *Error) {
		return source{}, &Error{Problems: []string{fmt.Sprintf(format, args...)}, Cause: cause}
	}
	if slices.Contains(names, nameOrPath) {
		text, err := configs.FS.ReadFile(nameOrPath + ".yaml")
		if err != nil {
			return fail(err, "embedded configuration %q: %v", nameOrPath, err)
		}
		return source{nameOrPath + " (embedded)", text}, nil
	}
	text, err := readFile(nameOrPath)
	switch {
	case err == nil:
		return source{nameOrPath, text}, nil
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
	return didYouMean(name, names)
}

func looksLikePath(s string) bool {
	return strings.ContainsAny(s, `/\`) || strings.HasSuffix(s, ".yaml") || strings.HasSuffix(s, ".yml")
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, errors.New("this is a folder, not a YAML file")
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFileSize {
		return nil, fmt.Errorf("the file is larger than %d KiB: not a configuration", maxFileSize>>10)
	}
	return text, nil
}
