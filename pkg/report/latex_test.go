package report

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/rundir"
)

func TestEscapeLaTeX(t *testing.T) {
	for text, want := range map[string]string{
		"lr_x = 50% & $5 #1 {a}":    `lr\_x = 50\% \& \$5 \#1 \{a\}`,
		`\input{/etc/passwd}`:       `\textbackslash{}input\{/etc/passwd\}`,
		"[0.1, -0.2] 1e-3 -4 a-1":   `{[}0.1, $-$0.2] 1e-3 $-$4 a-1`,
		"*x":                        `{*}x`,
		"A − B ± 1 × 2 · <3> ~ ^ |": `A $-$ B $\pm$ 1 $\times$ 2 $\cdot$ \textless{}3\textgreater{} \textasciitilde{} \textasciicircum{} \textbar{}`,
		`always "16"`:               "always ``16''",
		"é 中 þ":                     "é [U+4E2D] [U+00FE]",
		"a\nb\x1b":                  `a\textbackslash{}nb\textbackslash{}x1b`,
	} {
		if got := escapeLaTeX(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// pdfLaTeX takes the tables of every kind of sweep, with whatever names its arms have.
func TestPDFLaTeX(t *testing.T) {
	program, err := exec.LookPath("pdflatex")
	if err != nil {
		t.Skip("pdflatex is not installed (Debian: texlive-latex-base texlive-latex-recommended)")
	}
	var tables []Table
	for _, sw := range resultsSweeps() {
		sw.Manifest.Arms[0].Label = `a|b_c #%$&~^\{} "é" 中 [x]`
		tables = append(tables, mustReport(t, sw).latexTables("part_"+sw.Manifest.Name)...)
	}
	seeds, err := seedTable([]*rundir.Run{reporttest.SynthRun(t, 1, 200), reporttest.SynthRun(t, 2, 200)})
	expect.OK(t, err)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"results.tex": string(latexFile(append(tables, seeds)...)),
		"paper.tex":   "\\documentclass{article}\\usepackage{booktabs,graphicx}\\begin{document}\\input{results}\\end{document}\n",
	} {
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	cmd := exec.Command(program, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "paper.tex")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "Overfull") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestLaTeXTable(t *testing.T) {
	table := Table{Label: "Results, by arm", Columns: []Column{{Head: "arm", Text: true}, {Head: "un-\nformatted"}, {Head: "a\n`b`"}}, Notes: []string{"One.", "Two %."}}
	table.add("x", "1", "-2")
	want := `% Two %.
\begin{table}[tb]
\centering\small
\caption{Results, by arm. One.}
\label{tab:results-by-arm}
\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%
\begin{tabular}{lrr}
\toprule
arm & unformatted & \shortstack[r]{a\\b} \\
\midrule
x & 1 & $-$2 \\
\bottomrule
\end{tabular}}
\end{table}
`
	if got := table.LaTeX(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
