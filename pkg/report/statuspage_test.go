package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/plots"
)

func statusPage(every time.Duration) StatusPage {
	return StatusPage{
		Title: "Status of <b>x</b>", Lead: "1 of 2 runs finished", Written: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Every: every,
		Runs:   Table{Label: "Runs", Columns: []Column{{Head: "run", Text: true}, {Head: "state", Text: true}}, Rows: []Row{{Cells: []Cell{{Text: "a"}, {Text: "failed", Bad: true}}}}},
		Notes:  []string{"to continue: grpo <x>"},
		Curves: []plots.Drawing{{File: "validation_reward.png", Title: "Validation", Alt: "it rises", Page: plots.PageSVG{Data: []byte("svg"), Width: 5, Height: 4}}},
	}
}

// A page about runs in progress loads itself again, with scripts and without; the last one does not.
func TestStatusPage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "status.html")
	for _, tt := range []struct {
		name    string
		page    StatusPage
		has     []string
		refresh bool
	}{
		{"in progress", statusPage(5 * time.Second), []string{`<noscript><meta http-equiv="refresh" content="5"></noscript>`, `data-every="5"`, "location.reload"}, true},
		{"often", statusPage(time.Millisecond), []string{`content="1"`}, true},
		{"the last", statusPage(0), []string{"No run is in progress"}, false},
		{"stopped", func() StatusPage { p := statusPage(0); p.Stopped = true; return p }(), []string{"was stopped"}, false},
	} {
		if err := CheckStatusFile(path); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		expect.OK(t, tt.page.Write(path))
		page := read(t, path)
		inOrder(t, page, "<title>Status of &lt;b&gt;x&lt;/b&gt;</title>", "1 of 2 runs finished", "2026-01-02 03:04:05 UTC", `<td class="text bad">failed</td>`,
			"to continue: grpo &lt;x&gt;", `alt="it rises"`)
		for _, s := range tt.has {
			if !strings.Contains(page, s) {
				t.Errorf("%s: no %q", tt.name, s)
			}
		}
		for _, s := range []string{"http-equiv=\"refresh\"", "location.reload"} {
			if strings.Contains(page, s) != tt.refresh {
				t.Errorf("%s: %q in the page is %v", tt.name, s, !tt.refresh)
			}
		}
		if strings.Contains(page, `href=""`) || strings.Contains(page, "full size") || strings.Contains(page, "How it was made") {
			t.Errorf("%s: a link to a figure that may not exist, or a part of a report", tt.name)
		}
	}
}

// Only status pages are replaced.
func TestCheckStatusFile(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]string{
		"result.json": "ends in .html", "report.html": "is no status page", "folder.html": "a directory", "link.html": "link", "new.HTML": "",
	} {
		path := filepath.Join(dir, name)
		var err error
		switch name {
		case "report.html":
			err = os.WriteFile(path, []byte("<!DOCTYPE html>"), 0o666)
		case "folder.html":
			err = os.Mkdir(path, 0o777)
		case "link.html":
			err = os.Symlink("report.html", path)
		}
		expect.OK(t, err)
		if err := CheckStatusFile(path); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// Curves of a run, and the errors of folders that hold none.
func TestCurves(t *testing.T) {
	drawn, err := Curves(reporttest.SynthFolder(t, 1, 60))
	if err != nil || len(drawn) != 1 || drawn[0].Page.Data == nil {
		t.Errorf("%d figures, %v", len(drawn), err)
	}
	if _, err := Curves(t.TempDir()); err == nil {
		t.Error("no error for an empty folder")
	}
}
