package plots

import (
	"bytes"
	"fmt"
	"image/png"
	"path/filepath"
	"strings"

	"grpo/pkg/analysis"

	"grpo/pkg/rundir"
)

// Drawing is a figure of a sweep.
type Drawing struct {
	File  string // its name in the sweep's folder: "validation_reward.png"
	Title string
	Alt   string   // what it shows, in words
	Notes []string // sentences beyond its caption
	// Main says that the figure is about what the sweep asks; the others are
	// about how its runs trained.
	Main          bool
	PNG           []byte
	Width, Height int // pixels
}

// DrawSweep draws every figure that the sweep has data for, those about its
// question first:
//
//	validation_reward.png           each arm: seeds thin, mean thick, band of the mean over seeds
//	final_vs_<axis>.png             the last validation against a swept key
//	final_by_arm.png                the same, where arms have no axis or more than two
//	paired_difference.png           A - B over the seeds, for each comparison
//	validation_reward_vs_tokens.png, reward_train_vs_validation.png,
//	response_length.png, entropy.png, grad_norm.png
//	clip_fraction.png               where updates are off-policy
//
// A sweep of which nothing has run yet has no figures. The same analysis gives
// the same bytes.
func DrawSweep(a *analysis.Analysis) ([]Drawing, error) { return DrawSweepAt(a, DefaultDPI, nil) }

// drawSweep draws the figures whose name wanted accepts; nil accepts all.
func DrawSweepAt(a *analysis.Analysis, dpi int, wanted func(file string) bool) ([]Drawing, error) {
	v := NewSweepView(a)
	var out []Drawing
	for _, f := range v.figures() {
		if wanted != nil && !wanted(f.file) {
			continue
		}
		fig, ok := f.build(v)
		if !ok {
			continue
		}
		fig.dpi = dpi
		if fig.setting == "" {
			fig.setting = v.setting()
		}
		var buf bytes.Buffer
		if err := fig.render(&buf); err != nil {
			return nil, fmt.Errorf("draw %s: %w", f.file, err)
		}
		size, err := png.DecodeConfig(bytes.NewReader(buf.Bytes()))
		if err != nil {
			return nil, fmt.Errorf("draw %s: %w", f.file, err)
		}
		out = append(out, Drawing{
			File: f.file, Title: fig.title, Alt: altText(fig), Notes: fig.Notes, Main: f.main,
			PNG: buf.Bytes(), Width: size.Width, Height: size.Height,
		})
	}
	return out, nil
}

// WriteDrawings puts figures into dir, each in one atomic move, and returns
// their paths.
func WriteDrawings(dir string, all []Drawing) ([]string, error) {
	var paths []string
	for _, d := range all {
		path := filepath.Join(dir, d.File)
		if err := rundir.WriteFileAtomic(path, d.PNG); err != nil {
			return paths, fmt.Errorf("write figure: %w", err)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// sweepFigure is a figure that a sweep may have. build says ok = false where
// there is nothing to draw.
type sweepFigure struct {
	file  string
	main  bool
	build func(*sweepView) (figure, bool)
}

func (v *sweepView) figures() []sweepFigure {
	all := []sweepFigure{{rundir.ValidationPlot, true, (*sweepView).validation}}
	all = append(all, v.finalFigures()...)
	return append(all,
		sweepFigure{"paired_difference.png", true, (*sweepView).Paired},
		sweepFigure{"validation_reward_vs_tokens.png", false, (*sweepView).againstTokens},
		sweepFigure{"reward_train_vs_validation.png", false, (*sweepView).trainAndValidation},
		sweepFigure{"response_length.png", false, (*sweepView).responseLength},
		sweepFigure{"entropy.png", false, (*sweepView).Entropy},
		sweepFigure{"grad_norm.png", false, (*sweepView).gradNorm},
		sweepFigure{"clip_fraction.png", false, (*sweepView).clipFraction},
	)
}

// altText says what a figure shows: its title, and the names in its legends,
// which hold the last values.
func altText(f figure) string {
	parts := []string{f.title}
	names := func(entries []legendEntry) {
		for _, e := range entries {
			parts = append(parts, e.Name)
		}
	}
	names(f.legend)
	for _, row := range f.Rows {
		for _, p := range row {
			if p.title != "" {
				parts = append(parts, p.title)
			}
			names(p.Legend)
			for _, s := range p.side {
				parts = append(parts, s.of+": "+strings.Join(s.lines, ", "))
			}
		}
	}
	return strings.Join(parts, "; ")
}
