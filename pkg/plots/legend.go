package plots

import (
	"image/color"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// legendEntry is a name with a sample of its line and marker.
type legendEntry struct {
	name  string
	line  draw.LineStyle  // zero width: no line
	glyph draw.GlyphStyle // nil shape: no marker
	band  color.NRGBA     // of a band behind the line; transparent: none
}

const (
	sampleWidth = 30.0 // points
	sampleGap   = 5.0
	entryGap    = 16.0
	rowGap      = 3.0
)

// addEntry adds an entry to the panel's legend unless its name is empty or there
// already.
func (p *panel) addEntry(e legendEntry) { p.legend = union(p.legend, e) }

func union(all []legendEntry, more ...legendEntry) []legendEntry {
	for _, e := range more {
		if e.name != "" && !slices.ContainsFunc(all, func(have legendEntry) bool { return have.name == e.name }) {
			all = append(all, e)
		}
	}
	return all
}

// shareLegend makes one legend of those of the panels.
func (f *figure) shareLegend() {
	for _, p := range slices.Concat(f.rows...) {
		f.legend, p.legend = union(f.legend, p.legend...), nil
	}
}

// legendColumns arranges entries, row by row, in all columns that fit into
// the given width, and returns the width of each column. A legend outside the data
// can't hide any of it.
func legendColumns(entries []legendEntry, width vg.Length) []vg.Length {
	for n := len(entries); n > 1; n-- {
		columns := make([]vg.Length, n)
		for i, e := range entries {
			w := vg.Points(sampleWidth+sampleGap) + legendText.Width(e.name)
			columns[i%n] = max(columns[i%n], w)
		}
		total := vg.Points(entryGap) * vg.Length(n-1)
		for _, w := range columns {
			total += w
		}
		if total <= width {
			return columns
		}
	}
	return []vg.Length{width}
}

func legendRowHeight() vg.Length { return lineHeight(legendText) + vg.Points(rowGap) }

// legendHeight is the room that entries take at the given width, 0 without any.
func legendHeight(entries []legendEntry, width vg.Length) vg.Length {
	columns := len(legendColumns(entries, width))
	rows := (len(entries) + columns - 1) / columns
	return vg.Length(rows) * legendRowHeight()
}

// drawLegend draws entries from the top left corner of c.
func drawLegend(c draw.Canvas, entries []legendEntry) {
	columns := legendColumns(entries, c.Max.X-c.Min.X)
	top, x := c.Max.Y, c.Min.X
	for i, e := range entries {
		column := i % len(columns)
		if column == 0 && i > 0 {
			top -= legendRowHeight()
			x = c.Min.X
		}
		drawEntry(c, e, x, top)
		x += columns[column] + vg.Points(entryGap)
	}
}

// drawEntry draws one entry with its top left corner at x, top.
func drawEntry(c draw.Canvas, e legendEntry, x, top vg.Length) {
	height := lineHeight(legendText)
	middle, end := top-height/2, x+vg.Points(sampleWidth)
	if e.band.A > 0 {
		c.StrokeLine2(draw.LineStyle{Color: e.band, Width: height * 0.72}, x, middle, end, middle)
	}
	if e.line.Width > 0 {
		c.StrokeLine2(e.line, x, middle, end, middle)
	}
	c.DrawGlyphNoClip(e.glyph, vg.Point{X: (x + end) / 2, Y: middle})
	drawText(c, legendText, end+vg.Points(sampleGap), top, e.name)
}
