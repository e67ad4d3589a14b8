package report

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/plots"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// The report of a sweep or a study as one HTML file: figures, style and script
// are within it, and its content security policy forbids it to load anything
// or to run any script but its own. Everything that comes from data goes
// through html/template.

//go:embed templates
var templates embed.FS

var pageTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.ParseFS(templates, "templates/*.html"))
})

// page is what the template draws.
type page struct {
	Title, Lead           string
	Generator             string
	Facts                 []string // see [facts]
	Style                 template.CSS
	Script                template.JS
	StyleHash, ScriptHash string
	Sweep                 *htmlSweep // of a sweep's page
	Parts                 []htmlPart // of a study's
	Run                   *htmlRun   // of a single run's
	Audit                 *htmlAudit // of an audit
	SharedHead            string
	Shared                []string // caveats of all parts
	Made                  htmlMade
	Status                *StatusPage // of a status page
	Every                 int         // seconds after which it loads itself again; 0: never
	Curves                []htmlFigure
}

// htmlSweep is what a page shows of a sweep.
type htmlSweep struct {
	Question, Headline      string
	Up                      bool // it is a part of the study in the folder above
	Lines, Caveats, Missing []string
	// About the question: before the tables, those that need much room, and the differences; and how
	// the runs trained.
	Main, Large, Paired, Other []htmlFigure
	Arms, Gains, Runs, Sets    Table
	AtK                        Table // pass@k and maj@k
	Comparisons, Others        Table // differences in the final reward and in other metrics
	Examples                   *htmlExamples
}

// htmlFigure is a figure within the page.
type htmlFigure struct {
	Title, Alt, File, Link string
	Notes                  []string
	Page                   plots.PageSVG
	Phone                  *plots.PageSVG // of a narrow screen; nil: the figure scrolls there
	Wide                   bool           // it needs the width of the page to be read
	Alone                  bool           // no other figure is next to it
}

// Src is the address of the figure's own data. It is safe: base64 of our bytes.
func (htmlFigure) Src(p plots.PageSVG) template.URL { return template.URL(dataURI(p)) }

// SrcSet is [htmlFigure.Src] for the attribute srcset.
func (htmlFigure) SrcSet(p plots.PageSVG) template.Srcset { return template.Srcset(dataURI(p)) }

func dataURI(p plots.PageSVG) string {
	return "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString(p.Data)
}

// newHTMLFigure prepares a figure for the page; its file is below folder.
func newHTMLFigure(d plots.Drawing, folder string) htmlFigure {
	f := htmlFigure{
		Title: d.Title, Alt: d.Alt, Notes: d.Notes, File: d.File, Link: link(folder, d.File),
		Page: d.Page, Wide: d.Wide,
	}
	if d.Phone.Data != nil {
		f.Phone = &d.Phone
	}
	return f
}

// pairUp gives the last of an odd number of figures that are next to each other
// in pairs a row of its own, so that no half of a row is empty.
func pairUp(figures []htmlFigure) {
	last, n := -1, 0
	for i, f := range figures {
		if !f.Wide {
			last, n = i, n+1
		}
	}
	if n%2 == 1 {
		figures[last].Alone = true
	}
}

// htmlMade is how the runs were made, the last section of a page.
type htmlMade struct {
	Parts    []htmlMadePart
	Programs []string
	Command  string
	Bases    []htmlBase
}

type htmlMadePart struct {
	Heading string
	Fixed   []sweepdir.Override
	Differs *Table
}

// htmlBase is a resolved configuration.
type htmlBase struct{ Heading, Text string }

// WriteHTML writes the report of a sweep to path in one atomic move: the
// headline first, then the figures, the tables, what else was found, folded, and last the
// command and the configuration. figures are those of the sweep. The page needs nothing
// outside itself; it links to the PNG files next to it and, if it is in the
// sweep's folder, to the folders of the runs.
func WriteHTML(path string, a *Report, figures []plots.Drawing) error {
	m, folder := a.Sweep.Manifest, filepath.Clean(filepath.Dir(path))
	linked := folder == filepath.Clean(a.Sweep.Dir)
	p := page{Title: cmp.Or(m.Title, m.Name), Lead: a.lead(), Sweep: newHTMLSweep(a, figures, "", linked)}
	p.Sweep.Up = sweepdir.IsStudy(filepath.Dir(folder))
	p.Facts, p.Sweep.Examples = facts(a.allRuns()), a.examples()
	p.Made = htmlMade{
		Parts: []htmlMadePart{{Fixed: m.Fixed, Differs: a.settingsTable()}}, Programs: programs(a.allRuns()),
		Command: commandLine(m.Argv),
	}
	if m.Base != "" {
		p.Made.Bases = []htmlBase{{"Resolved base configuration", m.Base}}
	}
	return p.write(path)
}

// write renders the page.
func (p page) write(path string) error {
	style, err := templates.ReadFile("templates/report.css")
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	file := "templates/report.js"
	if p.Every > 0 {
		file = "templates/status.js"
	}
	script, err := templates.ReadFile(file)
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	p.Generator = cmp.Or(p.Generator, "grpo")
	p.Style, p.StyleHash = template.CSS(style), integrity(style)
	p.Script, p.ScriptHash = template.JS(script), integrity(script)
	var b bytes.Buffer
	if err := pageTemplate().ExecuteTemplate(&b, "page", p); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	if err := rundir.WriteFileAtomic(path, []byte(textutil.Text(b.String()))); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// integrity is the source expression by which a content security policy admits
// exactly this text.
func integrity(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// newHTMLSweep prepares an analysis for the page; links to files lead below
// folder, and to runs only if runs is true.
func newHTMLSweep(a *Report, figures []plots.Drawing, folder string, runs bool) *htmlSweep {
	s := &htmlSweep{
		Question: a.Verdict.Question, Headline: a.Verdict.Headline,
		Lines: a.otherLines(), Caveats: a.Verdict.Caveats, Missing: a.Verdict.Missing,
		Arms: a.armsTable(), Gains: a.gainsTable(), Runs: a.runsTable(folder, runs), Sets: a.setsTable(),
		AtK: a.atKTable(), Comparisons: a.comparisonsTable(true), Others: a.comparisonsTable(false),
	}
	s.Others.Label += " in other metrics"
	small := slices.ContainsFunc(figures, func(d plots.Drawing) bool {
		return d.Main && !d.Wide && d.File != plots.PairedFile
	})
	for _, d := range figures {
		f := newHTMLFigure(d, folder)
		switch {
		case d.File == plots.PairedFile:
			s.Paired = append(s.Paired, f)
		case d.Main && d.Wide && small:
			s.Large = append(s.Large, f)
		case d.Main:
			s.Main = append(s.Main, f)
		default:
			s.Other = append(s.Other, f)
		}
	}
	pairUp(s.Main)
	pairUp(s.Paired)
	pairUp(s.Other)
	return s
}

// link is a relative address of a file below folder, whose parts may hold any
// character.
func link(folder, file string) string {
	var parts []string
	for _, s := range []string{folder, file} {
		for part := range strings.SplitSeq(s, "/") {
			if part != "" {
				parts = append(parts, url.PathEscape(part))
			}
		}
	}
	out := strings.Join(parts, "/")
	if strings.Contains(out, ":") { // would read as a scheme
		out = "./" + out
	}
	return out
}

// lead is the line below the title: "5 arms × 3 seeds = 15 runs: 12 done, 3
// diverged".
func (a *Report) lead() string {
	var done, diverged, failed, left, stopped int
	for _, r := range a.Arms {
		if r.StoppedAt > 0 {
			stopped += r.Stopped
		}
		done, diverged, failed, left = done+r.Done, diverged+r.Diverged, failed+r.Failed, left+r.Left
	}
	var states []string
	for _, s := range []struct {
		n    int
		what string
	}{{done, "done"}, {diverged, "diverged"}, {failed, "failed"}, {stopped, "stopped"}, {left, "not finished"}} {
		if s.n > 0 {
			states = append(states, fmt.Sprintf("%d %s", s.n, s.what))
		}
	}
	seeds := textutil.Count(len(a.Sweep.Manifest.Seeds), "seed")
	if looks := a.Sweep.Manifest.Looks; len(looks) > 0 {
		seeds = fmt.Sprintf("%d to %s", looks[0].Seeds, seeds)
	}
	out := fmt.Sprintf("%s × %s = %s", textutil.Count(len(a.Arms), "arm"), seeds, textutil.Count(a.Runs()+stopped, "run"))
	if len(states) > 0 {
		out += ": " + strings.Join(states, ", ")
	}
	return out
}

func (a *Report) allRuns() []*rundir.Run { return analysis.RunsOf(a.Sweep.Runs) }

// programs lists what made the runs, each program and kind of machine once.
func programs(runs []*rundir.Run) []string {
	out := analysis.Unique(runs, analysis.OfMeta(func(m *rundir.Meta) string {
		s := "Made by grpo " + m.Version
		if m.Revision != "" {
			s += " (" + m.Revision + ")"
		}
		for _, part := range []string{m.GoVersion, strings.Trim(m.OS+"/"+m.Arch, "/"), m.Kernel} {
			if part != "" {
				s += ", " + part
			}
		}
		if m.Threads > 0 {
			s += ", " + textutil.Count(m.Threads, "thread") + " a run"
		}
		return textutil.Printable(s+".", 0)
	}))
	slices.Sort(out)
	return out
}

// commandLine is argv as a POSIX shell takes it. Where the program lay is left
// out: it means nothing to others.
func commandLine(argv []string) string {
	argv = slices.Clone(argv)
	if len(argv) > 0 {
		argv[0] = argv[0][strings.LastIndexAny(argv[0], `/\`)+1:]
	}
	return textutil.CommandLine(argv)
}
