package cmd

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"grpo/internal/textutil"
	"grpo/pkg/plots"
	"grpo/pkg/report"
	"grpo/pkg/sweep"
	"grpo/pkg/sweep/launch"
)

// followPage writes the page of a status, and writes it again until no run is in progress or ctx
// ends. It returns the last status.
func followPage(ctx context.Context, s *State, o *statusOptions, st *sweep.Status) (*sweep.Status, error) {
	if err := report.CheckStatusFile(o.html); err != nil {
		return nil, err
	}
	if st.InProgress() {
		textutil.Fprintf(s.Err, "%s is written every %s until no run is in progress (Ctrl-C stops this, not the runs)\n",
			filepath.ToSlash(o.html), shortTime(o.every.Seconds()))
	}
	tick := time.NewTicker(o.every)
	defer tick.Stop()
	var curves curvesSoFar
	for {
		page := statusPage(st, s.Now())
		curves.add(&page, o.dir, s.Now, st.InProgress())
		if st.InProgress() {
			if page.Every = o.every; ctx.Err() != nil {
				page.Every, page.Stopped = 0, true
			}
		}
		if err := page.Write(o.html); err != nil {
			return nil, err
		}
		if page.Every == 0 {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			continue // the last page
		}
		var err error
		if st, err = launch.ReadStatus(ctx, o.dir, s.Now()); err != nil && ctx.Err() == nil {
			return nil, err
		}
	}
	wrote(s, o.html)
	if ctx.Err() != nil {
		return nil, errStopped
	}
	return st, nil
}

// statusPage is the page of a status, without its figures.
func statusPage(st *sweep.Status, now time.Time) report.StatusPage {
	return report.StatusPage{
		Title: statusTitle(st), Lead: statusSummary(st), Written: now,
		Runs: statusTable(st), Notes: statusNotes(st),
	}
}

// statusTitle names the folder too: two sweeps over a key have the same name.
func statusTitle(st *sweep.Status) string {
	dir := filepath.ToSlash(filepath.Clean(st.Dir))
	if st.Name == "" || st.Name == filepath.Base(st.Dir) {
		return "Status of " + dir
	}
	return fmt.Sprintf("Status of %s (%s)", st.Name, dir)
}

// curvesSoFar are the figures of the last page. Drawing reads all logs, which may take seconds, and
// the runs need the processor.
type curvesSoFar struct {
	drawn []plots.Drawing
	err   error
	next  time.Time // when they are drawn again
}

// add puts the figures on a page. Of runs in progress they are drawn at most a twentieth of the time.
func (c *curvesSoFar) add(p *report.StatusPage, dir string, now func() time.Time, inProgress bool) {
	if start := now(); !inProgress || !start.Before(c.next) {
		c.drawn, c.err = report.Curves(dir)
		end := now()
		c.next = end.Add(19 * end.Sub(start))
	}
	if p.Curves = c.drawn; c.err != nil {
		p.Notes = append(p.Notes, fmt.Sprintf("no figure: %v", c.err))
	}
}
