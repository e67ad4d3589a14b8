package report

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/analysis"
	"grpo/pkg/plots"

	"pgregory.net/rapid"

	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// pageOf writes the report of an analysis with one small figure of each kind
// and reads it.
func pageOf(t *testing.T, a *Report) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), sweepdir.ReportHTML)
	a.Sweep.Dir = filepath.Dir(path)
	figures := []plots.Drawing{
		{File: "validation_reward.png", Title: "Validation answer reward", Alt: "what it shows", Main: true, Page: plots.PageSVG{Data: []byte("svg one"), Width: 72, Height: 40}, Phone: plots.PageSVG{Data: []byte("phone"), Width: 36, Height: 40}},
		{File: "entropy.png", Title: "Token entropy", Alt: "what it shows", Page: plots.PageSVG{Data: []byte("svg two"), Width: 72, Height: 40}},
	}
	expect.OK(t, WriteHTML(path, a, figures))
	data, err := os.ReadFile(path)
	expect.OK(t, err)
	return string(data)
}

// shownText is what a browser shows of a part of a page.
func shownText(s string) string {
	s = regexp.MustCompile(`<[^>]*>`).ReplaceAllString(s, "")
	return html.UnescapeString(s)
}

// inOrder fails unless the parts stand in the page in this order.
func inOrder(t *testing.T, page string, parts ...string) {
	t.Helper()
	at := 0
	for _, s := range parts {
		i := strings.Index(page[at:], s)
		if i < 0 {
			t.Fatalf("no %q behind what should stand before it", s)
		}
		at += i + len(s)
	}
}

func TestPageIsInOrder(t *testing.T) {
	a := mustReport(t, reporttest.DrawnSweep(2, nil, reporttest.ManyArms(2)...))
	a.Sweep.Manifest.Fixed = []sweepdir.Override{{Key: "train.n_grpo_steps", Value: "120"}}
	a.Sweep.Manifest.Base = "seed: 77\nname: the base\n"
	a.Sweep.Manifest.Argv = []string{"grpo", "sweep", "a b"}
	page := pageOf(t, a)
	inOrder(t, page, "<h1>Drawn</h1>", "2 arms × 2 seeds = 4 runs: 4 done", "Which arm is better?", html.EscapeString(a.Verdict.Headline),
		"data:image/svg&#43;xml;base64,"+base64.StdEncoding.EncodeToString([]byte("svg one")),
		`aria-label="Results by arm"`, `aria-label="Paired differences"`, `aria-label="Runs"`,
		"data:image/svg&#43;xml;base64,"+base64.StdEncoding.EncodeToString([]byte("svg two")),
		"How it was made", "train.n_grpo_steps", "grpo sweep &#39;a b&#39;", "Resolved base configuration", "seed: 77\nname: the base")
}

// A report is one file: nothing is loaded from elsewhere, and the policy in it
// admits its own script and style only.
func TestPageStandsAlone(t *testing.T) {
	page := pageOf(t, mustReport(t, reporttest.DrawnSweep(2, nil, reporttest.ManyArms(2)...)))
	for _, m := range regexp.MustCompile(`(?i)(src|href|srcset|action|data|poster)\s*=\s*"([^"]*)"`).FindAllStringSubmatch(page, -1) {
		to, err := url.Parse(html.UnescapeString(m[2]))
		if err != nil {
			t.Errorf("%s: %v", m[0], err)
			continue
		}
		attribute, inside := strings.ToLower(m[1]), strings.HasPrefix(html.UnescapeString(m[2]), "data:image/svg+xml;base64,")
		if attribute != "href" && !inside || attribute == "href" && (to.Scheme != "" || to.Host != "") {
			t.Errorf("it refers to %q", m[0])
		}
	}
	for _, s := range []string{"@import", "url(", "http:", "https:", "fetch(", "XMLHttpRequest", "<link"} {
		if strings.Contains(page, s) {
			t.Errorf("%q is in the page", s)
		}
	}
	policy := regexp.MustCompile(`<meta http-equiv="Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(page)
	if policy == nil || !strings.Contains(policy[1], "default-src &#39;none&#39;") && !strings.Contains(policy[1], "default-src 'none'") {
		t.Fatalf("policy %q", policy)
	}
	for _, tag := range []string{"script", "style"} {
		blocks := regexp.MustCompile(`(?s)<`+tag+`>(.*?)</`+tag+`>`).FindAllStringSubmatch(page, -1)
		if len(blocks) != 1 {
			t.Fatalf("%d %s elements", len(blocks), tag)
		}
		sum := sha256.Sum256([]byte(blocks[0][1]))
		if want := "sha256-" + base64.StdEncoding.EncodeToString(sum[:]); !strings.Contains(html.UnescapeString(policy[1]), tag+"-src '"+want+"'") {
			t.Errorf("the policy %q does not admit the page's own %s (%s)", policy[1], tag, want)
		}
	}
	if strings.Contains(page, " style=") || regexp.MustCompile(`\son[a-z]+=`).MatchString(page) {
		t.Error("an attribute with style or script, which the policy forbids")
	}
}

// Text from data stays text, wherever it comes from.
func TestPageEscapesWhatComesFromData(t *testing.T) {
	evil := `</script><script>alert(1)</script><img src=x onerror=alert(2)>" onmouseover="alert(3) {{.}} &amp; 'q'`
	a := mustReport(t, reporttest.DrawnSweep(2, nil, reporttest.ManyArms(2)...))
	m := &a.Sweep.Manifest
	m.Title, m.Base, m.Argv = "title "+evil, "base "+evil, []string{"grpo", "argv " + evil}
	m.Fixed = []sweepdir.Override{{Key: "key " + evil, Value: "fixed " + evil}}
	m.Varied = []string{"varied " + evil}
	m.Arms[0].Set = []sweepdir.Override{{Key: "varied " + evil, Value: "set " + evil}}
	a.Verdict = Verdict{Question: "question " + evil, Headline: "headline " + evil, Lines: []string{"line " + evil},
		Caveats: []string{"caveat " + evil}, Missing: []string{"missing " + evil}}
	a.Arms[0].Arm.Label, a.Arms[0].Status = "label "+evil, "status "+evil
	a.Arms[0].Runs[0].Dir = "runs/dir " + strings.ReplaceAll(evil, "/", "_")
	a.Arms[0].Runs[1].Run.Result.Status, a.Arms[0].Runs[1].Run.Result.DivergedReason = rundir.StateDiverged, "reason "+evil
	a.Arms[1].Runs[0].Error = "error " + evil
	a.Sweep.Runs[0].Run.Meta = &rundir.Meta{Version: "version " + evil}
	page := pageOf(t, a)
	for _, s := range []string{"<script>alert", "<img src=x", `" onmouseover="`, "</script><"} {
		if strings.Contains(page, s) {
			t.Errorf("%q came through", s)
		}
	}
	if n := strings.Count(page, "<script"); n != 1 {
		t.Errorf("%d scripts", n)
	}
	if n := strings.Count(page, "<img"); n != 2 {
		t.Errorf("%d images", n)
	}
	shown := shownText(regexp.MustCompile(`(?s)<script>.*`).ReplaceAllString(page, ""))
	words := strings.Join(strings.Fields(shown), " ")
	for _, what := range []string{"title", "base", "key", "fixed", "varied", "set", "question", "headline", "line", "caveat", "missing",
		"label", "status", "reason", "error", "version"} {
		if !strings.Contains(words, what+" "+evil) {
			t.Errorf("the %s is not shown as it is", what)
		}
	}
}

// A name must not turn the text around it.
func TestPageHasNoDirectionControls(t *testing.T) {
	a := mustReport(t, reporttest.DrawnSweep(1, nil, reporttest.DrawnArm{Name: "a", Label: "left\u202eright\u2067", Final: 0.5}))
	page := pageOf(t, a)
	if strings.ContainsAny(page, "\u202e\u2067") || !strings.Contains(page, `left\u202eright\u2067`) {
		t.Error("a direction control came through")
	}
}

// tableRows are the texts of a table's body.
func tableRows(t *testing.T, page, label string) [][]string {
	t.Helper()
	_, after, ok := strings.Cut(page, `aria-label="`+label+`"`)
	if !ok {
		t.Fatalf("no table %q", label)
	}
	body, _, _ := strings.Cut(after, "</table>")
	var rows [][]string
	for _, row := range regexp.MustCompile(`(?s)<tr>(.*?)</tr>`).FindAllStringSubmatch(body, -1) {
		var cells []string
		for _, cell := range regexp.MustCompile(`(?s)<t[hd][^>]*>(.*?)</t[hd]>`).FindAllStringSubmatch(row[1], -1) {
			cells = append(cells, shownText(cell[1]))
		}
		rows = append(rows, cells)
	}
	return rows
}

// The page's numbers are those of results.md.
func TestPageHasTheNumbersOfTheTables(t *testing.T) {
	a := mustReport(t, reporttest.DrawnSweep(3, reporttest.RatesAxis("1e-4", "3e-4", "1e-3", "3e-3", "1e-2"), reporttest.RateArms()...))
	page := pageOf(t, a)
	rows := tableRows(t, page, "Results by arm")
	want := markdownRows(t, a.Markdown(), "## Arms")
	if len(rows) != len(a.Arms)+1 || len(want) != len(a.Arms)+2 {
		t.Fatalf("%d rows, want a head and %d", len(rows), len(a.Arms))
	}
	for i := range a.Arms {
		if rows[i+1][0] = strings.TrimSuffix(rows[i+1][0], " best"); !slices.Equal(rows[i+1], want[i+2]) {
			t.Errorf("%q, want %q", rows[i+1], want[i+2])
		}
	}
	if got := tableRows(t, page, "Results by arm")[a.Best+1][0]; !strings.HasSuffix(got, " best") {
		t.Errorf("the best arm is called %q", got)
	}
	differences := tableRows(t, page, "Paired differences")
	finals := 0
	for _, c := range a.Comparisons {
		if c.Metric == "final" {
			finals++
			if s := fmt.Sprintf("%.1f", 100*c.Mean); !strings.HasPrefix(differences[finals][2], s) {
				t.Errorf("difference %q, want %s", differences[finals][2], s)
			}
		}
	}
	if len(differences) != finals+1 {
		t.Errorf("%d differences, want %d", len(differences)-1, finals)
	}
	runs := tableRows(t, page, "Runs")
	if len(runs) != 16 || !strings.HasPrefix(runs[15][3], "diverged at step 20: validation reward fell") || runs[15][2] != analysis.Decimals(a.Arms[4].Of(analysis.FinalMetric).Values[2], 3) {
		t.Errorf("%d runs, the last one %q", len(runs)-1, runs[len(runs)-1])
	}
}

// Without the script every head is there to read.
func TestPageWorksWithoutScript(t *testing.T) {
	page := pageOf(t, mustReport(t, reporttest.DrawnSweep(2, nil, reporttest.ManyArms(2)...)))
	body, _, _ := strings.Cut(page, "<script>")
	if strings.Contains(body, "<button") || strings.Contains(body, "hidden") {
		t.Error("the page has something that only the script serves")
	}
	for _, cells := range tableRows(t, page, "Results by arm")[:1] {
		for _, head := range cells {
			if head == "" {
				t.Error("an empty head")
			}
		}
	}
}

func TestPageOfUnusualSweeps(t *testing.T) {
	failed := mustReport(t, reporttest.DrawnSweep(2, nil, reporttest.ManyArms(2)...))
	failed.Arms[0].Runs[0].State, failed.Arms[0].Runs[0].Run, failed.Arms[0].Runs[0].Error = rundir.StateFailed, nil, "unknown key \"x\""
	dead := mustReport(t, reporttest.DrawnSweep(2, nil, reporttest.DrawnArm{Name: "a", Final: 0.5, Left: 2}))
	dead.Arms[0].Runs[0].State = sweepdir.Dead
	unsaid := mustReport(t, reporttest.DrawnSweep(2, nil, reporttest.ManyArms(2)...))
	unsaid.Sweep.Manifest.Title, unsaid.Sweep.Manifest.Argv, unsaid.Sweep.Manifest.Base = "", nil, ""
	tests := []struct {
		name string
		a    *Report
		has  []string
		not  []string
	}{
		{"nothing has run", mustReport(t, reporttest.DrawnSweep(2, nil, reporttest.DrawnArm{Name: "a", Absent: 2}, reporttest.DrawnArm{Name: "b", Absent: 2})),
			[]string{"2 arms × 2 seeds = 4 runs: 4 not finished", "What is missing"}, []string{`aria-label="Paired differences"`}},
		{"half", mustReport(t, reporttest.DrawnSweep(2, nil, reporttest.DrawnArm{Name: "a", Final: 0.5, Left: 1})), []string{"1 done, 1 not finished", "not finished: step 35 of 120, running"}, nil},
		{"a failed run", failed, []string{"failed: unknown key &#34;x&#34;"}, nil},
		{"a dead run", dead, []string{"dead: not finished: step 35 of 120"}, nil},
		{"stopped by halving", mustReport(t, halved()), []string{"5 arms × 2 seeds = 10 runs: 6 done, 2 diverged, 2 stopped"}, nil},
		{"no title, command or base", unsaid, []string{"<h1>drawn</h1>"}, []string{"<h3>Command</h3>", "Resolved base"}},
		{"one arm", mustReport(t, reporttest.DrawnSweep(1, nil, reporttest.ManyArms(1)...)), []string{"1 arm × 1 seed = 1 run: 1 done"}, []string{`aria-label="Paired differences"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			page := pageOf(t, tt.a)
			for _, s := range tt.has {
				if !strings.Contains(page, s) {
					t.Errorf("no %q", s)
				}
			}
			for _, s := range tt.not {
				if strings.Contains(page, s) {
					t.Errorf("%q is there", s)
				}
			}
		})
	}
}

// Runs are linked only from the sweep's own folder.
func TestPageLinksRunsFromTheirSweep(t *testing.T) {
	a := mustReport(t, reporttest.DrawnSweep(1, nil, reporttest.ManyArms(2)...))
	if page := pageOf(t, a); !strings.Contains(page, `href="runs/arm0%2Cseed=1-0badcafe`) && !strings.Contains(page, `href="runs/arm0,seed=1-0badcafe`) {
		t.Error("no link to the run")
	}
	elsewhere := filepath.Join(t.TempDir(), "report.html")
	expect.OK(t, WriteHTML(elsewhere, a, nil))
	if data, _ := os.ReadFile(elsewhere); strings.Contains(string(data), `href="runs/`) {
		t.Error("a link to a folder that is not there")
	}
	expect.Error(t, WriteHTML(filepath.Join(elsewhere, "report.html"), a, nil), "write report")
}

func TestWhatDiffersByArm(t *testing.T) {
	a := mustReport(t, reporttest.DrawnSweep(1, nil, reporttest.ManyArms(3)...))
	m := &a.Sweep.Manifest
	m.Varied = []string{"algorithm.loss_type", "train.learning_rate"}
	m.Runs[0].Config = "algorithm: {loss_type: no_baseline}\ntrain: {learning_rate: 0.001}\n"
	m.Runs[1].Config = "algorithm: {loss_type: ''}\ntrain: 3\n"
	m.Runs[2].Config = ""
	m.Arms[2].Set = []sweepdir.Override{{Key: "algorithm.loss_type", Value: "nonsense"}}
	var got []string
	for _, row := range a.settingsTable().Rows {
		got = append(got, row.Cells[1].Text+" "+row.Cells[2].Text)
	}
	if want := []string{"no_baseline 0.001", "(empty) n/a", "nonsense n/a"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A link is relative whatever the folder is called, and leads there.
func TestLink(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		folder := rapid.StringMatching(`[a-z:=,#?%"<&. ]{1,12}`).Draw(t, "folder")
		file := rapid.StringMatching(`[a-z:=,#?%"<& ]{1,12}`).Draw(t, "file")
		u, err := url.Parse(link(folder, file))
		if err != nil || u.Scheme != "" || u.Host != "" || u.RawQuery != "" || u.Fragment != "" {
			t.Fatalf("%q: %v", link(folder, file), err)
		}
		if want := folder + "/" + file; u.Path != want && u.Path != "./"+want {
			t.Fatalf("it leads to %q", u.Path)
		}
	})
}

func TestCommandLine(t *testing.T) {
	if got := commandLine([]string{"/usr/local/bin/grpo", "sweep", "lr", "--values", "1e-4,1e-3", "--set", "name=it's"}); got != `grpo sweep lr --values 1e-4,1e-3 --set 'name=it'\''s'` {
		t.Errorf("got %s", got)
	}
}
