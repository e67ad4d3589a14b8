// Package manpage writes man pages of commands.
package manpage

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Commands are those that the help shows: the root, its children, theirs.
func Commands(root *cobra.Command) []*cobra.Command {
	list := []*cobra.Command{root}
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			list = append(list, Commands(c)...)
		}
	}
	return list
}

// Name is grpo-config-show for the command "grpo config show".
func Name(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// Page is the page of section 1 for a command, with the text of its --help. date and version are
// printed at its foot.
func Page(c *cobra.Command, date, version string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH %q 1 %q %q\n", strings.ToUpper(Name(c)), date, "grpo "+version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(Name(c)), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(c.UseLine()))
	section(&b, "DESCRIPTION", cmp.Or(c.Long, c.Short+"."))
	c.InitDefaultHelpFlag()
	section(&b, "OPTIONS", c.LocalFlags().FlagUsagesWrapped(78))
	section(&b, "EXAMPLES", c.Example)
	var others []string
	if c.HasParent() {
		others = append(others, Name(c.Parent()))
	}
	for _, child := range c.Commands() {
		if child.IsAvailableCommand() {
			others = append(others, Name(child))
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
