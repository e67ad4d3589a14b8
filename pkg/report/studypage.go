package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/plots"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

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
			for _, t := range []*Table{h.Sweep.Arms, h.Sweep.Gains, h.Sweep.Sets, h.Sweep.Comparisons, made.Differs} {
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
	p.Lead = fmt.Sprintf("%s, %s, of which %d have ended", textutil.Count(len(st.Parts), "question"), textutil.Count(total, "run"), ended)
	return p, nil
}
