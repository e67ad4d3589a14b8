package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"

	"github.com/spf13/cobra"

	"grpo/cmd"
	"grpo/internal/manpage"
)

// commonFiles are in the archive of every platform.
func commonFiles(ctx context.Context, from origin) ([]file, error) {
	files, err := sourceFiles()
	if err != nil {
		return nil, err
	}
	others, err := licenses(ctx)
	if err != nil {
		return nil, err
	}
	root := cmd.Root()
	shells, err := completions(root)
	return slices.Concat(files, []file{others}, manPages(root, from), shells), err
}

var readmeFigure = regexp.MustCompile(`!\[[^\]]*\]\(([^)]+)\)`)

// sourceFiles are the README with its figures, the documentation and the examples.
func sourceFiles() (files []file, err error) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		return nil, fmt.Errorf("release runs in the root of the sources: %w", err)
	}
	paths := []string{"README.md", "CHANGELOG.md", "LICENSE"}
	for _, m := range readmeFigure.FindAllSubmatch(readme, -1) {
		paths = append(paths, string(m[1]))
	}
	for _, dir := range []string{"docs", "examples"} {
		err := fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case e.Name() == "__pycache__": // of an example that was run
				return fs.SkipDir
			case e.Type().IsRegular():
				paths = append(paths, dir+"/"+name)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		files = append(files, file{path, 0o644, data})
	}
	return files, nil
}

// manPages has a page of section 1 for each command.
func manPages(root *cobra.Command, from origin) []file {
	var files []file
	for _, c := range manpage.Commands(root) {
		page := manpage.Page(c, from.date.Format("2006-01-02"), from.version)
		files = append(files, file{"man/man1/" + manpage.Name(c) + ".1", 0o644, page})
	}
	return files
}

// completions has a script for each shell that cobra knows, named as the shell finds it.
func completions(root *cobra.Command) ([]file, error) {
	var files []file
	for _, shell := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{"bash-completion/completions/grpo", func(w io.Writer) error { return root.GenBashCompletionV2(w, true) }},
		{"zsh/site-functions/_grpo", root.GenZshCompletion},
		{"fish/vendor_completions.d/grpo.fish", func(w io.Writer) error { return root.GenFishCompletion(w, true) }},
		{"powershell/grpo.ps1", root.GenPowerShellCompletionWithDesc},
	} {
		var b bytes.Buffer
		if err := shell.write(&b); err != nil {
			return nil, err
		}
		files = append(files, file{"completions/" + shell.name, 0o644, b.Bytes()})
	}
	return files, nil
}
