package report

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/internal/untrusted"
	"grpo/pkg/plots"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// runPage writes the page of a run with its figures and reads it.
func runPage(t *testing.T, r *rundir.Run) string {
	t.Helper()
	figures, err := plots.Runs([]*rundir.Run{r}, "", nil)
	expect.OK(t, err)
	path := filepath.Join(t.TempDir(), sweepdir.ReportHTML)
	expect.OK(t, WriteRunHTML(path, r, figures))
	data, err := os.ReadFile(path)
	expect.OK(t, err)
	page := string(data)
	untrusted.CheckText(t, page)
	wantAnchors(t, page)
	return page
}

// The answer comes first, then the figure, the counts, samples, and last the settings, folded.
func TestRunPage(t *testing.T) {
	r := reporttest.SynthRun(t, 1, 200)
	r.Samples = nil
	withSamples(r, 0, 100, 200)
	r.Samples[1].Completion, r.Samples[1].Ended, r.Samples[1].Length = "</pre><script>\x1b[2J", false, 64
	r.Meta = &rundir.Meta{Version: "1.2.3", Argv: []string{"/home/x/grpo", "train"}}
	r.Result.Warnings = []string{"a warning <b>"}
	page := runPage(t, r)
	inOrder(t, page, `<h1>`, `class="headline"`, "The validation answer reward rose from ", "after step 200.", "validation problems right by sampling", "Test problems: ",
		"A warning &lt;b&gt;.", `<img src="data:image/svg`, `id="counts"`, "<table", `id="samples"`,
		"<details open>\n<summary>b: wrong, wrong, right", "Ask b\n&lt;b&gt;", "Right answer: 16", "wrong, cut at the limit of tokens", "(reward 0, 64 tokens)",
		"&lt;/pre&gt;&lt;script&gt;\\x1b[2J", "<details>\n<summary>a: right, right, right", `id="training"`, `<img src="data:image/svg`,
		`id="made"`, "<code>grpo train</code>", "<details>\n<summary>Resolved configuration")
	if strings.Count(page, "Ask b") != 1 || strings.Contains(page, "/home/x") {
		t.Error("a prompt is shown more than once, or where the program lay")
	}
	for _, m := range regexp.MustCompile(`(?:src|srcset|href)="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if !strings.HasPrefix(m[1], "data:") && !strings.HasPrefix(m[1], "#") && filepath.Ext(m[1]) != ".png" {
			t.Errorf("the page loads or links %q", m[1])
		}
	}
	if n := strings.Count(page, "<source media"); n != 2 {
		t.Errorf("%d figures have a form for phones, want 2", n)
	}
}

func TestRunPageWithoutResults(t *testing.T) {
	for name, r := range map[string]*rundir.Run{
		"nothing yet":        {Dir: "x", Config: []byte("name: a\nseed: 3\n"), Status: &rundir.Status{State: rundir.StateRunning, Steps: 9}},
		"one evaluation":     {Dir: "x", Config: []byte("name: a\nseed: 3\n"), Evals: []rundir.Eval{{Split: rundir.SplitVal, Sampled: rundir.Counts{N: 8, CorrectNum: 2, ErrorNum: 6, AnswerReward: 0.25}}}},
		"a set without rows": {Dir: "x", Config: []byte("name: a\nseed: 3\n"), Evals: []rundir.Eval{{Split: rundir.SplitVal}}},
	} {
		t.Run(name, func(t *testing.T) {
			page := runPage(t, r)
			inOrder(t, page, "<h1>a, seed 3</h1>", `class="headline"`, `id="made"`)
			if strings.Contains(page, ">NaN") || strings.Contains(page, `id="samples"`) {
				t.Error("a number or samples that are not there")
			}
		})
	}
}

func TestRunHeadline(t *testing.T) {
	eval := func(step, right int) rundir.Eval {
		return rundir.Eval{Step: step, Split: rundir.SplitVal, Sampled: rundir.Counts{N: 100, CorrectNum: right, AnswerReward: float64(right) / 100}}
	}
	for _, tt := range []struct {
		evals []rundir.Eval
		want  string
	}{
		{nil, "no evaluation"},
		{[]rundir.Eval{eval(0, 25)}, "is 25.0% after step 0."},
		{[]rundir.Eval{eval(0, 25), eval(5, 50)}, "rose from 25.0% to 50.0% after step 5."},
		{[]rundir.Eval{eval(0, 50), eval(5, 25)}, "fell from 50.0% to 25.0% after step 5."},
		{[]rundir.Eval{eval(0, 50), eval(5, 55)}, "went from 50.0% to 55.0% after step 5: 100 problems can't tell these apart."},
		{[]rundir.Eval{eval(0, 50), eval(5, 50)}, "went from 50.0% to 50.0%"},
	} {
		if got := runHeadline(&rundir.Run{Evals: tt.evals}); !strings.Contains(got, tt.want) {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
