// Package plots draws the figures of runs, of sweeps and of worked examples as PNG, SVG and PDF.
// sweep.go and runs.go list the figures. A figure is built from a view of the analysis (view.go) with curves
// (chart.go) in panels (panel.go), laid out on a page with its texts (figure.go) in the colors and fonts of
// style.go, and encoded by render.go.
package plots

import (
	"bytes"
	"fmt"
	"image/png"
	"path/filepath"
	"slices"
	"strings"

	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
)

// Drawing is a figure of a sweep or of a run.
type Drawing struct {
	File  string // its name in the folder: "validation_reward.png"
	Title string
	Alt   string   // what it shows, in words
	Notes []string // sentences beyond its caption
	// Main figures are about the question of the sweep; the others are about how
	// its runs trained.
	Main          bool
	Wide          bool // it has several panels and needs the width of a page
	PNG           []byte
	Width, Height int // pixels
	Vector        []VectorFile
	// Page is the figure for HTML, and Phone the same for narrow screens, if it
	// can be drawn that narrow.
	Page, Phone PageSVG
}

// VectorFile is a figure in another format.
type VectorFile struct {
	Format string // "svg" or "pdf"
	Data   []byte
}

// SweepOptions choose what [Sweep] draws.
type SweepOptions struct {
	DPI      int      // 0 = that of the package, 200
	MainOnly bool     // only the figures about the question of the sweep
	PageOnly bool     // no PNG and no other files, only Page and Phone
	Formats  []string // "svg" and "pdf", besides PNG
}

// Sweep draws the figures that the sweep has data for, those about its question
// first:
//
//	validation_reward.png           each arm: seeds thin, mean thick, band of the mean over seeds
//	final_vs_<axis>.png             the last validation against a swept key
//	final_by_arm.png                the same, where arms have no axis or more than two
//	final_vs_noise.png              the last validation against the verifier's errors
//	paired_difference.png           A - B over the seeds, for each comparison
//	validation_reward_vs_tokens.png, reward_train_vs_validation.png,
//	response_length.png, entropy.png, grad_norm.png
//	learned_vs_true_reward.png      where an arm trains with a reward model
//	pass_at_k.png                   where problems are sampled several times
//	validation_reward_vs_time.png   where runs took more than a minute
//	clip_fraction.png               where updates are off-policy
//
// A sweep of which nothing has run yet has no figures. The same analysis gives
// the same bytes.
func Sweep(a *analysis.Analysis, opt SweepOptions) ([]Drawing, error) {
	return drawSweep(a, opt, func(f sweepFigure) bool { return f.main || !opt.MainOnly })
}

// Progress draws the validation answer reward of the arms, for a page only; nothing before the first
// validation.
func Progress(a *analysis.Analysis) ([]Drawing, error) {
	return drawSweep(a, SweepOptions{PageOnly: true}, func(f sweepFigure) bool { return f.file == rundir.ValidationPlot })
}

// MainFiles are the names of the main figures that the sweep has data for.
func MainFiles(a *analysis.Analysis) []string {
	v := newView(a)
	var out []string
	for _, f := range v.figures() {
		if f.main && f.build(v) != nil {
			out = append(out, f.file)
		}
	}
	return out
}

// WriteDrawings puts figures into dir, each in one atomic move, and returns
// their paths.
func WriteDrawings(dir string, all []Drawing) ([]string, error) {
	var paths []string
	write := func(file string, data []byte) error {
		path := filepath.Join(dir, file)
		if err := rundir.WriteFileAtomic(path, data); err != nil {
			return fmt.Errorf("write figure: %w", err)
		}
		paths = append(paths, path)
		return nil
	}
	for _, d := range all {
		if err := write(d.File, d.PNG); err != nil {
			return paths, err
		}
		for _, v := range d.Vector {
			if err := write(strings.TrimSuffix(d.File, ".png")+"."+v.Format, v.Data); err != nil {
				return paths, err
			}
		}
	}
	return paths, nil
}

// PairedFile is the file of the figure of differences.
const PairedFile = "paired_difference.png"

// sweepFigure is a figure that a sweep may have. build returns nil where there is
// nothing to draw.
type sweepFigure struct {
	file  string
	main  bool
	build func(*view) *figure
}

func (v *view) figures() []sweepFigure {
	all := []sweepFigure{
		{rundir.ValidationPlot, true, validationReward},
		v.finalFigure(),
		{PairedFile, true, pairedDifference},
		{"validation_reward_vs_tokens.png", false, validationVsTokens},
		{"validation_reward_vs_time.png", false, validationVsTime},
		{"reward_train_vs_validation.png", false, trainVsValidation},
		{rundir.LearnedPlot, false, learnedVsTrue},
		{rundir.PassAtKPlot, false, passAtK},
		{"response_length.png", false, responseLength},
	}
	if len(v.NoiseLines()) > 0 {
		all = slices.Insert(all, 2, sweepFigure{"final_vs_noise.png", true, finalVsNoise})
	}
	for _, m := range perStepFigures {
		all = append(all, sweepFigure{m.file, false, m.draw})
	}
	return all
}

// finalFigure is the figure of the last validation: against the swept keys where
// there are one or two, else arm by arm.
func (v *view) finalFigure() sweepFigure {
	axes := v.manifest().Axes
	x, lines := 0, -1
	draw := (*view).finalVsAxis
	switch {
	case v.Ladder() != nil && v.onAxes():
		return sweepFigure{finalName(axes[0].Short), true, finalVsDifficulty}
	case len(axes) == 1 && v.onAxes() && numeric(axes[0].Values) && len(v.linesOver(0, -1)) <= overlayMax:
	case len(axes) == 2 && v.onAxes():
		lines = 1
		if !numeric(axes[0].Values) && numeric(axes[1].Values) { // numbers belong on the x axis
			x, lines = 1, 0
		}
		if len(axes[lines].Values) > overlayMax {
			draw = (*view).finalMap
		}
	default:
		return sweepFigure{"final_by_arm.png", true, finalByArm}
	}
	return sweepFigure{finalName(axes[x].Short), true, func(v *view) *figure { return draw(v, x, lines) }}
}

// onAxes reports whether every arm has its place on the axes.
func (v *view) onAxes() bool {
	axes := v.manifest().Axes
	for _, a := range v.Arms {
		if len(a.Arm.Point) != len(axes) {
			return false
		}
		for i, value := range a.Arm.Point {
			if !slices.Contains(axes[i].Values, value) {
				return false
			}
		}
	}
	return len(v.Arms) > 0
}

// drawSweep draws the figures that wanted accepts.
func drawSweep(a *analysis.Analysis, opt SweepOptions, wanted func(sweepFigure) bool) ([]Drawing, error) {
	v := newView(a)
	phone := v.forPhone()
	var out []Drawing
	for _, f := range v.figures() {
		if !wanted(f) {
			continue
		}
		fig := v.draw(f)
		if fig == nil {
			continue
		}
		fig.dpi = opt.DPI
		d, err := fig.drawing(f.file, phone.draw(f), opt)
		if err != nil {
			return nil, err
		}
		d.Main = f.main
		out = append(out, d)
	}
	return out, nil
}

// drawing renders the figure in all its forms; phone is the same for narrow screens, nil if it can't be drawn
// that narrow.
func (f *figure) drawing(file string, phone *figure, opt SweepOptions) (Drawing, error) {
	d := Drawing{File: file, Title: f.title, Alt: f.altText(), Notes: f.notes, Wide: f.width > pageWidth}
	failed := func(err error) (Drawing, error) { return Drawing{}, fmt.Errorf("draw %s: %w", file, err) }
	var err error
	if !opt.PageOnly {
		if d.PNG, err = f.encode("png"); err != nil {
			return failed(err)
		}
		size, err := png.DecodeConfig(bytes.NewReader(d.PNG))
		if err != nil {
			return failed(err)
		}
		d.Width, d.Height = size.Width, size.Height
		for _, format := range opt.Formats {
			if format == "png" {
				continue
			}
			data, err := f.encode(format)
			if err != nil {
				return failed(err)
			}
			d.Vector = append(d.Vector, VectorFile{format, data})
		}
	}
	if d.Page, err = f.pageSVG(); err == nil {
		d.Phone, err = phone.pageSVG()
	}
	if err != nil {
		return failed(fmt.Errorf("for the page: %w", err))
	}
	return d, nil
}

// draw builds a figure and adds what all figures of the sweep have: the setting, the
// number of missing runs, and notes by arm.
func (v *view) draw(f sweepFigure) *figure {
	fig := f.build(v)
	if fig == nil {
		return nil
	}
	fig.setting = v.setting()
	fig.caption = append(fig.caption, v.missing()...)
	fig.notes = slices.Concat([]string{sentence(analysis.SeedsText(v.manifest().Seeds))}, fig.notes, v.armNotes())
	return fig
}

// altText describes what a figure shows: its title, and the names in its legends,
// which hold the last values.
func (f *figure) altText() string {
	parts := []string{f.title}
	for _, e := range f.legend {
		parts = append(parts, e.name)
	}
	for _, p := range slices.Concat(f.rows...) {
		if p.title != "" {
			parts = append(parts, p.title)
		}
		for _, e := range p.legend {
			parts = append(parts, e.name)
		}
		for _, s := range p.side {
			parts = append(parts, s.name+": "+strings.Join(s.lines, ", "))
		}
	}
	return strings.Join(parts, "; ")
}
