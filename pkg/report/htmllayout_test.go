package report

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/plots"
	"grpo/pkg/sweepdir"
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

// What people need who do not see the page, or have no mouse: a language, headings without gaps, a
// way past the navigation, named tables whose heads have a scope, and places that scroll in the order
// of the keyboard. internal/pagetest checks the rest in a browser.
func TestPagesForAll(t *testing.T) {
	dir, _, _ := writeStudy(t)
	for name, page := range map[string]string{
		"sweep": pageOf(t, mustReport(t, reporttest.DrawnSweep(2, nil, reporttest.ManyArms(2)...))),
		"study": read(t, dir, "report.html"),
	} {
		inOrder(t, page, `<html lang="en">`, "<title>", `<a class="skip" href="#main">`, `<main id="main"`, "<nav ", `<h2 class="unseen" id="verdict">`)
		level := 0
		for _, m := range regexp.MustCompile(`<h([1-6])[ >]`).FindAllStringSubmatch(page, -1) {
			next := int(m[1][0] - '0')
			if next > level+1 {
				t.Errorf("%s: a heading of level %d below one of level %d", name, next, level)
			}
			level = next
		}
		count := func(pattern string) int { return len(regexp.MustCompile(pattern).FindAllString(page, -1)) }
		tables := count(`<table`)
		for what, pattern := range map[string]string{"a caption": `<caption[^>]*>[^<]`, "a place that scrolls": `<div class="scroll" tabindex="0" role="region" aria-label="[^"]`} {
			if n := count(pattern); n != tables || n == 0 {
				t.Errorf("%s: %d of %d tables have %s", name, n, tables, what)
			}
		}
		if count(`<th[ >]`) != count(`<th scope="(col|row)"`) {
			t.Errorf("%s: a heading of a table without a scope", name)
		}
		if n := count(`<img`); n == 0 || n != count(`<img [^>]*alt="[^"]`) || n != count(`<figcaption>[^<(]*\(full size: <a href=`) {
			t.Errorf("%s: %d images, not all with a text and a link", name, n)
		}
		regions := map[string]bool{}
		for _, m := range regexp.MustCompile(`role="region" aria-label="([^"]*)"`).FindAllStringSubmatch(page, -1) {
			if regions[m[1]] {
				t.Errorf("%s: two places are called %q", name, m[1])
			}
			regions[m[1]] = true
		}
	}
}

// A figure has a form for phones; one that has none scrolls there.
func TestFiguresOnPhones(t *testing.T) {
	page := pageOf(t, mustReport(t, reporttest.DrawnSweep(2, nil, reporttest.ManyArms(2)...)))
	inOrder(t, page, `<div><a href="validation_reward.png" tabindex="-1"><picture><source media="(max-width: 36rem)" srcset="data:image/svg`,
		`width="36" height="40"><img src=`, `<div class="box" tabindex="0" role="region" aria-label="Token entropy, scrolls sideways"><a href="entropy.png"`)
	if n := strings.Count(page, "<source"); n != 1 {
		t.Errorf("%d figures for phones", n)
	}
}

// The report of a part leads to the study.
func TestPartLeadsToStudy(t *testing.T) {
	dir, _, parts := writeStudy(t)
	page := dir + "/lr/report.html"
	expect.OK(t, os.MkdirAll(dir+"/lr", 0o777))
	expect.OK(t, WriteHTML(page, parts[0], nil))
	expect.OK(t, sweepdir.WriteStudy(dir, sweepdir.Study{Format: sweepdir.FormatVersion, Name: "x", Parts: []sweepdir.Part{{Name: "lr"}}}))
	const up = `<a href="../report.html">The whole study</a>`
	if strings.Contains(read(t, page), up) {
		t.Error("a link to a study that is not there")
	}
	expect.OK(t, WriteHTML(page, parts[0], nil))
	if !strings.Contains(read(t, page), up) {
		t.Error("no link to the study")
	}
}

// No figure is next to an empty half of a row: an odd one has a row of its own.
func TestFiguresFillTheirRows(t *testing.T) {
	const narrow, wide = false, true
	tests := []struct {
		name  string
		wide  []bool
		alone int // -1: none
	}{
		{"none", nil, -1}, {"one", []bool{narrow}, 0}, {"two", []bool{narrow, narrow}, -1}, {"three", []bool{narrow, narrow, narrow}, 2},
		{"wide ones between", []bool{narrow, wide, narrow, narrow, wide}, 3}, {"wide ones only", []bool{wide, wide}, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var figures []htmlFigure
			for _, w := range tt.wide {
				figures = append(figures, htmlFigure{Wide: w})
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
	figures, err := plots.Sweep(a.Analysis, plots.SweepOptions{DPI: 36})
	expect.OK(t, err)
	path := t.TempDir() + "/report.html"
	expect.OK(t, WriteHTML(path, a, figures))
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
