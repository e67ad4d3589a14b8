package report

import (
	"regexp"
	"strings"
	"testing"

	"grpo/internal/reporttest"
	"grpo/pkg/plots"
)

// wantAnchors: every link within a page leads to a place in it.
func wantAnchors(t *testing.T, page string) {
	t.Helper()
	links := regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(page, -1)
	if len(links) == 0 {
		t.Error("the page has no links within itself")
	}
	for _, l := range links {
		if n := strings.Count(page, `id="`+l[1]+`"`); n != 1 {
			t.Errorf("#%s is in the page %d times", l[1], n)
		}
	}
}

func TestPagesHaveNavigation(t *testing.T) {
	sweep := pageOf(t, mustReport(t, reporttest.DrawnSweep(2, nil, reporttest.ManyArms(2)...)))
	wantAnchors(t, sweep)
	dir, _, _ := writeStudy(t)
	study := read(t, dir, "report.html")
	wantAnchors(t, study)
	nav, _, _ := strings.Cut(study[strings.Index(study, `<nav aria-label="Parts">`):], "</nav>")
	inOrder(t, nav, `<a href="#part-1">1. Drawn</a>`, `<a href="#part-2">2. Drawn</a>`, `<a href="#part-3">3. stdnorm</a>`, `<a href="#made">`)
	if strings.Index(study, "<nav") > strings.Index(study, "<section") {
		t.Error("the links are not at the top")
	}
}

// No figure is next to an empty half of a row: an odd one has a row of its own.
func TestFiguresFillTheirRows(t *testing.T) {
	narrow, wide := int(plots.PageWidth*plots.DefaultDPI), int(plots.WideWidth*plots.DefaultDPI)
	tests := []struct {
		name   string
		widths []int
		alone  int // -1: none
	}{
		{"none", nil, -1}, {"one", []int{narrow}, 0}, {"two", []int{narrow, narrow}, -1}, {"three", []int{narrow, narrow, narrow}, 2},
		{"wide ones between", []int{narrow, wide, narrow, narrow, wide}, 3}, {"wide ones only", []int{wide, wide}, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var figures []htmlFigure
			for _, w := range tt.widths {
				figures = append(figures, htmlFigure{Width: w})
			}
			pairUp(figures)
			for i, f := range figures {
				if f.Alone != (i == tt.alone) {
					t.Errorf("figure %d is alone: %v", i, f.Alone)
				}
			}
		})
	}
}

// The configuration waits folded up, figures say below them what their captions
// have no room for, and a table that goes on beyond its edge shows it.
func TestPageIsNotInTheWay(t *testing.T) {
	a := mustReport(t, reporttest.DrawnSweep(2, reporttest.RatesAxis("1e-4", "3e-4", "1e-3", "3e-3", "1e-2"), reporttest.RateArms()...))
	figures, err := plots.DrawSweepAt(a.Analysis, 36, nil)
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir() + "/report.html"
	if err := WriteHTML(path, a, figures); err != nil {
		t.Fatal(err)
	}
	page := read(t, path)
	if strings.Contains(page, "<details open") {
		t.Error("a part of the page is unfolded that can be folded up")
	}
	inOrder(t, page, "<details>", "<summary>Resolved base configuration</summary>", "seed: 1")
	inOrder(t, page, "<figcaption>Validation answer reward (", "Seeds 1, 2.", "Diverged: learning rate 1e-2 (2 of 2 runs, step 20).", "</figcaption>")
	if n := strings.Count(page, `class="alone"`); n != 2 {
		t.Errorf("%d figures have a row of their own, want one of the three on the question and one of the three on training", n)
	}
	shades := regexp.MustCompile(`(?s)\.scroll \{.*?linear-gradient\(to left, var\(--shade\), transparent\)[^;]*scroll`)
	if !shades.MatchString(page) {
		t.Error("no shade at the right edge of tables")
	}
}
