package cmd

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/manpage"
)

// TestManPages: every command has a page with its description, an example, and every flag of its
// help; no line of it is lost as a request of roff.
func TestManPages(t *testing.T) {
	pages := map[string]string{}
	roff := strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace
	for _, c := range manpage.Commands(Root()) {
		page := string(manpage.Page(c, "2026-01-02", "v1"))
		pages[manpage.Name(c)] = page
		if c.Short == "" || !strings.Contains(page, ".SH NAME\n"+roff(manpage.Name(c))+` \- `+roff(c.Short)+"\n") {
			t.Errorf("%s: the page does not name it: %.200q", c.CommandPath(), page)
		}
		ofCobra := c.Name() == "help" || c.Name() == "completion" || c.HasParent() && c.Parent().Name() == "completion"
		if !ofCobra && (c.Example == "" || !strings.Contains(page, ".SH EXAMPLES\n.nf\n"+roff(c.Example))) {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for _, line := range strings.Split(page, "\n") {
			if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") &&
				!slices.Contains([]string{".TH", ".SH", ".B", ".BR", ".nf", ".fi"}, strings.Fields(line)[0]) {
				t.Errorf("%s: roff would take the line %q for a request", c.CommandPath(), line)
			}
		}
	}
	for name, want := range map[string]string{
		"grpo": `.BR grpo\-task (1)`, "grpo-config-list": `\-\-json`, "grpo-bench-step": `.BR grpo\-bench (1)` + "\n",
	} {
		if !strings.Contains(pages[name], want) {
			t.Errorf("%s.1 has no %q", name, want)
		}
	}
}

// TestCompletionLoads: the shells that are installed load their completions.
func TestCompletionLoads(t *testing.T) {
	for shell, load := range map[string]string{
		"bash": ". ", "fish": ". ", "zsh": "autoload -Uz compinit && compinit -D && . ", // compdef is of its completion system
	} {
		t.Run(shell, func(t *testing.T) {
			program, err := exec.LookPath(shell)
			if err != nil {
				t.Skipf("%s is not installed", shell)
			}
			path := filepath.Join(t.TempDir(), "completion")
			root := Root()
			write := map[string]func(string) error{
				"bash": func(p string) error { return root.GenBashCompletionFileV2(p, true) },
				"fish": func(p string) error { return root.GenFishCompletionFile(p, true) },
				"zsh":  root.GenZshCompletionFile,
			}[shell]
			expect.OK(t, write(path))
			out, err := exec.Command(program, "-c", load+"'"+path+"'").CombinedOutput()
			if err != nil || len(out) > 0 {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
