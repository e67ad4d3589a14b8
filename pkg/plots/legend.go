package plots

import (
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// legendEntry is a name with the line and marker that it stands for.
type legendEntry struct {
	Name   string
	line   draw.LineStyle  // zero width: no line
	glyph  draw.GlyphStyle // nil shape: no marker
	shaded look            // band behind the line when its colour is set
}

const (
	thumbWidth = 30.0 // points
	thumbGap   = 5.0
	entryGap   = 16.0
	rowGap     = 3.0
)

// legendColumns arranges entries, row by row, in as many columns as fit into
// the given width, and returns the width of each column. A legend that stands
// outside the data can't hide any of it.
func legendColumns(entries []legendEntry, width vg.Length) []vg.Length {
	for n := len(entries); n > 1; n-- {
		columns := make([]vg.Length, n)
		for i, e := range entries {
			columns[i%n] = max(columns[i%n], entryWidth(e))
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

func entryWidth(e legendEntry) vg.Length {
	return vg.Points(thumbWidth+thumbGap) + legendText.Width(e.Name)
}

func legendRowHeight() vg.Length { return lineHeight(legendText) + vg.Points(rowGap) }

// legendHeight is the room that entries take at the given width.
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
	middle := top - height/2
	end := x + vg.Points(thumbWidth)
	if e.shaded.color.A > 0 {
		half := height * 0.36
		c.FillPolygon(alpha(e.shaded.color, bandOpacity), []vg.Point{
			{X: x, Y: middle - half}, {X: end, Y: middle - half}, {X: end, Y: middle + half}, {X: x, Y: middle + half},
		})
	}
	if e.line.Width > 0 {
		c.StrokeLine2(e.line, x, middle, end, middle)
	}
	c.DrawGlyphNoClip(e.glyph, vg.Point{X: (x + end) / 2, Y: middle})
	drawText(c, legendText, end+vg.Points(thumbGap), top, e.Name)
}
