package report

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/plots"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// StudyReport is the report of a study.
type StudyReport struct {
	Study   sweepdir.Study
	Parts   []*Report // nil for a part that has not started
	Results StudyResults
	Files   []string // of the study itself
}

// WriteStudyReport writes the report of several sweeps into dir, the study's folder:
// results.md and report.html with the questions in order, each with its
// verdict, main figures and table; results.tex, results.json and results.csv with all parts.
// parts are the reports in the order of st.Parts, nil for a part that has not
// started. Each part has its own report ([WriteSweep]) in its folder, to which the
// study's links.
//
// It is an error if the numbers of reports and parts differ.
func WriteStudyReport(dir string, st sweepdir.Study, parts []*Report) (*StudyReport, error) {
	st = analysis.PrintableStudy(st)
	if len(parts) != len(st.Parts) {
		return nil, fmt.Errorf("write study: %d analyses for %d parts", len(parts), len(st.Parts))
	}
	table, results := studyTable(st, parts), newStudyResults(st, parts)
	html, err := newStudyPage(st, parts)
	if err != nil {
		return nil, fmt.Errorf("write study: %w", err)
	}
	files, err := writeFiles("write study", dir, []outputFile{
		{sweepdir.ResultsCSV, func(path string) error { return rundir.WriteFileAtomic(path, table.CSV()) }},
		{sweepdir.ResultsJSON, func(path string) error { return rundir.WriteJSON(path, results) }},
		{sweepdir.ResultsMD, func(path string) error {
			return rundir.WriteFileAtomic(path, []byte(studyMarkdown(st, parts)))
		}},
		{sweepdir.ResultsTeX, func(path string) error { return rundir.WriteFileAtomic(path, studyLaTeX(st, parts)) }},
		{sweepdir.ReportHTML, html.write},
	})
	if err != nil {
		return nil, err
	}
	return &StudyReport{st, parts, results, files}, nil
}

// notStarted is the headline of a part without a sweep.
const notStarted = "No results yet: this part has not started."

// question is the question of a part.
func question(p sweepdir.Part, a *Report) string {
	if a == nil {
		return cmp.Or(p.Question, p.Name)
	}
	return cmp.Or(p.Question, a.Verdict.Question, p.Name)
}

func headlineOf(a *Report) string {
	if a == nil {
		return notStarted
	}
	return a.Verdict.Headline
}

// StudyResults is the results.json of a study.
type StudyResults struct {
	Format int         `json:"format"`
	Name   string      `json:"name"`
	Title  string      `json:"title"`
	Hash   string      `json:"hash"`
	Parts  []StudyPart `json:"parts"`
	Checks []Check     `json:"checks,omitempty"` // as in [Results]
}

// StudyPart is a part of a study with its results, null if it has not started.
type StudyPart struct {
	Part     string   `json:"part"`
	Question string   `json:"question"`
	Chosen   string   `json:"chosen,omitempty"`
	Results  *Results `json:"results"`
}

func newStudyResults(st sweepdir.Study, parts []*Report) StudyResults {
	out := StudyResults{Format: resultsFormat, Name: st.Name, Title: st.Title, Hash: st.Hash}
	for i, p := range st.Parts {
		part := StudyPart{Part: p.Name, Question: question(p, parts[i]), Chosen: p.Chosen}
		if parts[i] != nil {
			r := parts[i].Results()
			part.Results = &r
		}
		out.Parts = append(out.Parts, part)
	}
	return out
}

// studyTable puts the parts' results.csv under each other, after a column with the
// part's name. Parts may have different columns (axes, seeds): a cell of a column
// that a part does not have is empty.
func studyTable(st sweepdir.Study, parts []*Report) Table {
	heads := []string{"part"}
	tables := make([]Table, len(parts))
	for i, a := range parts {
		if a == nil {
			continue
		}
		tables[i] = a.resultsTable()
		own := make([]string, len(tables[i].Columns))
		for k, c := range tables[i].Columns {
			own[k] = c.Head
		}
		heads = merge(heads, own)
	}
	var t Table
	t.head(heads...)
	for i, part := range tables {
		for _, r := range part.Rows {
			cells := make([]string, len(heads))
			cells[0] = st.Parts[i].Name
			for k, c := range part.Columns {
				cells[slices.Index(heads, c.Head)] = r.Cells[k].Text
			}
			t.add(cells...)
		}
	}
	return t
}

// merge adds the names in more that head lacks, each after the name that precedes
// it in more.
func merge(head, more []string) []string {
	at := 1
	for _, name := range more {
		if i := slices.Index(head, name); i >= 0 {
			at = i + 1
			continue
		}
		head = slices.Insert(head, at, name)
		at++
	}
	return head
}

// sharedHead is the heading of the caveats that hold for every part.
const sharedHead = "What holds for all of these answers"

// sharedCaveats takes out of the parts the caveats that all of them repeat, so
// that they can be said once.
func sharedCaveats(parts []*Report) (shared []string, rest []*Report) {
	started := slices.DeleteFunc(slices.Clone(parts), func(a *Report) bool { return a == nil })
	isOwn := func(c string) bool {
		lacks := func(a *Report) bool { return !slices.Contains(a.Verdict.Caveats, c) }
		return len(started) < 2 || slices.ContainsFunc(started, lacks)
	}
	rest = make([]*Report, len(parts))
	for i, a := range parts {
		if a == nil {
			continue
		}
		inner := *a
		all := a.Verdict.Caveats
		inner.Verdict.Caveats = slices.DeleteFunc(slices.Clone(all), func(c string) bool { return !isOwn(c) })
		rest[i], shared = &inner, slices.DeleteFunc(slices.Clone(all), isOwn) // the same of every part, in its order
	}
	return shared, rest
}

// studyMarkdown is the results.md of a study. Like the other tables it does not
// say by which command line it was made; report.html does.
func studyMarkdown(st sweepdir.Study, parts []*Report) string {
	shared, parts := sharedCaveats(parts)
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", escapeMarkdown(cmp.Or(st.Title, st.Name)))
	for i, p := range st.Parts {
		fmt.Fprintf(&b, "%d. %s **%s**\n", i+1, escapeMarkdown(question(p, parts[i])), escapeMarkdown(headlineOf(parts[i])))
	}
	for i, p := range st.Parts {
		a := parts[i]
		fmt.Fprintf(&b, "\n## %d. %s\n\n", i+1, escapeMarkdown(question(p, a)))
		if p.Chosen != "" {
			fmt.Fprintf(&b, "Taken over: %s\n\n", escapeMarkdown(p.Chosen))
		}
		if a == nil {
			fmt.Fprintf(&b, "%s\n", notStarted)
			continue
		}
		a.markdownBody(&b, "###", p.Name)
		fmt.Fprintf(&b, "\nEvery run, and how they trained: [%s](%s).\n", path.Join(p.Name, sweepdir.ReportHTML),
			link(p.Name, sweepdir.ReportHTML))
	}
	markdownList(&b, "## "+sharedHead, shared)
	return b.String()
}

// htmlPart is a question of a study on its page.
type htmlPart struct {
	ID, Name, Short, Heading, Headline, Chosen, Link string
	Sweep                                            *htmlSweep // nil while it has not started
}

// newStudyPage prepares the page of a study, with the main figures of each
// part. A base configuration that several parts start from is shown once.
func newStudyPage(st sweepdir.Study, parts []*Report) (page, error) {
	shared, parts := sharedCaveats(parts)
	p := page{Title: cmp.Or(st.Title, st.Name), SharedHead: sharedHead, Shared: shared}
	p.Made.Command = commandLine(st.Argv)
	var runs []*rundir.Run
	total, ended := 0, 0
	var bases []htmlBase
	for i, part := range st.Parts {
		a := parts[i]
		name := part.Name
		if a != nil {
			name = cmp.Or(a.Sweep.Manifest.Title, a.Sweep.Manifest.Name)
		}
		h := htmlPart{
			ID: fmt.Sprintf("part-%d", i+1), Name: name, Short: fmt.Sprintf("%d. %s", i+1, name),
			Heading:  fmt.Sprintf("%d. %s", i+1, question(part, a)),
			Headline: headlineOf(a), Chosen: part.Chosen, Link: link(part.Name, sweepdir.ReportHTML),
		}
		if a != nil {
			figures, err := plots.Sweep(a.Analysis, plots.SweepOptions{MainOnly: true, PageOnly: true})
			if err != nil {
				return page{}, fmt.Errorf("part %s: %w", part.Name, err)
			}
			h.Sweep = newHTMLSweep(a, figures, part.Name, false)
			m := &a.Sweep.Manifest
			made := htmlMadePart{h.Short, m.Fixed, a.settingsTable()}
			p.Made.Parts = append(p.Made.Parts, made)
			s := h.Sweep
			for _, t := range []*Table{&s.Arms, &s.Gains, &s.Sets, &s.Comparisons, made.Differs} {
				if t != nil {
					t.Label = h.Short + ": " + t.Label
				}
			}
			runs = append(runs, a.allRuns()...)
			total, ended = total+a.Runs(), ended+a.Finished()
			if m.Base != "" {
				number := fmt.Sprint(i + 1)
				k := slices.IndexFunc(bases, func(b htmlBase) bool { return b.Text == m.Base })
				if k < 0 {
					bases = append(bases, htmlBase{Heading: number, Text: m.Base})
				} else {
					bases[k].Heading += ", " + number
				}
			}
		}
		p.Parts = append(p.Parts, h)
	}
	for i := range bases {
		parts := "part "
		if strings.Contains(bases[i].Heading, ",") {
			parts = "parts "
		}
		bases[i].Heading = "Resolved base configuration of " + parts + bases[i].Heading
	}
	p.Made.Bases = bases
	p.Made.Programs, p.Facts = programs(runs), facts(runs)
	p.Lead = fmt.Sprintf("%s, %s, of which %d have ended", textutil.Count(len(st.Parts), "question"),
		textutil.Count(total, "run"), ended)
	return p, nil
}
