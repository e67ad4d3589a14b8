package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

const licensesFile = "THIRD_PARTY_LICENSES.txt"

// licenseName matches the files of a module whose text must go along with a program that contains it.
var licenseName = regexp.MustCompile(`(?i)^(licen[sc]e|copying|notice|patents)([-._].*)?$`)

// licenses has the licenses of Go and of the modules in the program, on any of the platforms.
func licenses(ctx context.Context) (file, error) {
	root, err := run(ctx, nil, "go", "env", "GOROOT")
	if err != nil {
		return file{}, err
	}
	folders := map[string]string{"The Go standard library, " + runtime.Version(): root}
	for _, p := range platforms {
		system, arch, _ := strings.Cut(p, "/")
		list, err := run(ctx, []string{"GOOS=" + system, "GOARCH=" + arch, "CGO_ENABLED=0"}, "go", "list", "-deps",
			"-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", ".")
		if err != nil {
			return file{}, fmt.Errorf("list the modules of the program: %w", err)
		}
		for line := range strings.Lines(list) {
			if module, dir, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
				folders[module] = dir
			}
		}
	}
	names := make([]string, 0, len(folders))
	for name := range folders {
		names = append(names, name)
	}
	slices.Sort(names)
	var b bytes.Buffer
	b.WriteString("The program contains these works, each under the license that follows its name.\n")
	for _, name := range names {
		texts, err := licenseTexts(folders[name])
		if err != nil {
			return file{}, fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(&b, "\n%s\n%s\n%s\n", strings.Repeat("=", 78), name, strings.Repeat("=", 78))
		for _, text := range texts {
			fmt.Fprintf(&b, "\n%s\n", bytes.TrimSpace(text))
		}
	}
	return file{licensesFile, 0o644, b.Bytes()}, nil
}

// licenseTexts reads the licenses in a module's folder. There must be one.
func licenseTexts(dir string) (texts [][]byte, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.IsDir() || !licenseName.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	if len(texts) == 0 {
		return nil, fmt.Errorf("there is no license in its folder %s", dir)
	}
	return texts, nil
}
