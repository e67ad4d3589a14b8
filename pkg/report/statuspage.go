package report

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"grpo/internal/regular"
	"grpo/pkg/analysis"
	"grpo/pkg/plots"
	"grpo/pkg/rundir"
)

// StatusPage is a page about runs that are in progress. Like a report it is one file. While Every
// is positive it loads itself again; a button stops that.
type StatusPage struct {
	Title, Lead string
	Written     time.Time
	Every       time.Duration // rounded to seconds, at least 1; 0: the page is not written again
	Stopped     bool          // it is not written again although runs are in progress
	Runs        Table
	Notes       []string // errors of runs, and how to continue
	Curves      []plots.Drawing
}

// statusGenerator marks the files that [StatusPage.Write] may replace.
const statusGenerator = `<meta name="generator" content="grpo status">`

// CheckStatusFile returns an error if path can't be the file of a status page: if its name does not
// end in .html, or if it exists and is anything else.
func CheckStatusFile(path string) error {
	if ext := strings.ToLower(filepath.Ext(path)); ext != ".html" && ext != ".htm" {
		return fmt.Errorf("write status page %s: the name of a page ends in .html", path)
	}
	const most = 64 << 20
	data, err := regular.Read(path, most)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("write status page: %w (give another name)", rundir.Explain(err))
	case !bytes.Contains(data[:min(len(data), 2048)], []byte(statusGenerator)):
		return fmt.Errorf("write status page: %s exists and is no status page (give another name)", path)
	}
	return nil
}

// Write writes the page to path in one atomic move.
func (s StatusPage) Write(path string) error {
	p := page{Title: s.Title, Lead: s.Lead, Generator: "grpo status", Status: &s}
	p.Every = int(s.Every.Round(time.Second) / time.Second)
	if s.Every > 0 {
		p.Every = max(1, p.Every)
	}
	for _, d := range s.Curves {
		f := newHTMLFigure(d, "")
		f.Link = ""
		p.Curves = append(p.Curves, f)
	}
	pairUp(p.Curves)
	return p.write(path)
}

// Curves draws for a page the validation answer reward of the runs in dir, the folder of a run, a
// sweep or a study; of a study, a figure for each part that has started. There is none before the
// first validation.
func Curves(dir string) ([]plots.Drawing, error) {
	sweeps, err := openSweeps(dir)
	if err != nil {
		return nil, err
	}
	if sweeps == nil {
		run, err := rundir.Open(dir)
		if err != nil {
			return nil, err
		}
		sw, err := analysis.ArmsOf([]*rundir.Run{run}, "")
		if err != nil {
			return nil, err
		}
		sweeps = append(sweeps, sw)
	}
	var out []plots.Drawing
	for _, sw := range sweeps {
		a, err := analysis.Analyse(sw)
		if err != nil {
			return nil, err
		}
		drawn, err := plots.Progress(a)
		if err != nil {
			return nil, err
		}
		out = append(out, drawn...)
	}
	return out, nil
}
