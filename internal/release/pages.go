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
	"strings"

	"github.com/spf13/cobra"

	"grpo/cmd"
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

// available are the commands that the help shows: the root, its children, theirs.
func available(root *cobra.Command) []*cobra.Command {
	list := []*cobra.Command{root}
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			list = append(list, available(c)...)
		}
	}
	return list
}

// manPages has a page of section 1 for each command, with the text of its --help.
func manPages(root *cobra.Command, from origin) []file {
	var files []file
	for _, c := range available(root) {
		files = append(files, file{"man/man1/" + pageName(c) + ".1", 0o644, manPage(c, from)})
	}
	return files
}

// pageName is grpo-config-show for the command "grpo config show".
func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

func manPage(c *cobra.Command, from origin) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH %q 1 %q %q\n", strings.ToUpper(pageName(c)), from.date.Format("2006-01-02"), "grpo "+from.version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(pageName(c)), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(c.UseLine()))
	about := c.Long
	if about == "" {
		about = c.Short + "."
	}
	section(&b, "DESCRIPTION", about)
	c.InitDefaultHelpFlag()
	section(&b, "OPTIONS", c.LocalFlags().FlagUsagesWrapped(78))
	section(&b, "EXAMPLES", c.Example)
	var others []string
	if c.HasParent() {
		others = append(others, pageName(c.Parent()))
	}
	for _, child := range c.Commands() {
		if child.IsAvailableCommand() {
			others = append(others, pageName(child))
		}
	}
	b.WriteString(".SH SEE ALSO\n")
	for i, o := range others {
		end := ","
		if i == len(others)-1 {
			end = ""
		}
		fmt.Fprintf(&b, ".BR %s (1)%s\n", roff(o), end)
	}
	return b.Bytes()
}

// section writes text as it is: its lines are broken and its tables aligned already.
func section(w io.Writer, title, text string) {
	if text = strings.Trim(text, "\n"); text != "" {
		fmt.Fprintf(w, ".SH %s\n.nf\n%s\n.fi\n", title, roff(text))
	}
}

// roff escapes text: a backslash, a hyphen that is to be copied as such, and a line that would be a
// request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
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
