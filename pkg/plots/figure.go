package plots

import (
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// figure is a page: title, setting, legend, panels in a grid and a caption,
// stacked from top to bottom. gonum draws the inside of a panel; everything around
// it is placed here by measured text, so that nothing overlaps. The page is as
// high as that takes: a long legend or caption never squeezes the data.
type figure struct {
	width       float64 // of the page, inches
	panelHeight float64 // of a plot with its axes, inches
	title       string
	setting     string
	legend      []legendEntry // of all panels
	rows        [][]*panel
	// xLabel and yLabel are drawn once for all panels, below and on their left;
	// empty where each panel has labels of its own.
	xLabel, yLabel string
	caption        []string // sentences, at most two lines
	notes          []string // further facts for the page; not drawn
	dpi            int      // 0 = DPI
}

const (
	margin     = 10.0 // points, around the page
	panelGap   = 14.0 // between panels
	sectionGap = 6.0  // between heading, panels and caption
	sideGap    = 10.0 // between the data and the text next to it
)

// addPanel appends a panel in rows of the given number of columns.
func (f *figure) addPanel(columns int, p *panel) {
	n := len(f.rows)
	if n == 0 || len(f.rows[n-1]) == columns {
		f.rows = append(f.rows, nil)
		n++
	}
	f.rows[n-1] = append(f.rows[n-1], p)
}

// textWidth is the width of the page within its margins.
func (f *figure) textWidth() vg.Length { return vg.Length(f.width)*vg.Inch - 2*vg.Points(margin) }

// columnWidth is the width of a panel.
func (f *figure) columnWidth() vg.Length {
	columns := 1
	for _, row := range f.rows {
		columns = max(columns, len(row))
	}
	return (f.textWidth() - f.yLabelWidth() - vg.Points(panelGap)*vg.Length(columns-1)) / vg.Length(columns)
}

// layout is the text of a page, broken into lines, and the heights of its parts.
type layout struct {
	title, setting, caption []string
	legend, xLabel, height  vg.Length
	headings                []vg.Length // of the panels, the highest of each row
}

func (f *figure) layout() layout {
	width := f.textWidth()
	l := layout{
		title: wrap(titleText, f.title, width), setting: wrap(settingText, f.setting, width),
		caption:  wrap(captionText, strings.Join(f.caption, " "), width),
		headings: make([]vg.Length, len(f.rows)),
	}
	if len(f.legend) > 0 {
		l.legend = legendHeight(f.legend, width) + vg.Points(sectionGap)
	}
	if f.xLabel != "" {
		l.xLabel = lineHeight(labelText)
	}
	l.height = 2*vg.Points(margin+sectionGap) + vg.Points(panelGap)*vg.Length(len(f.rows)-1)
	l.height += blockHeight(titleText, l.title) + blockHeight(settingText, l.setting) + l.legend
	l.height += blockHeight(captionText, l.caption) + l.xLabel
	for i, row := range f.rows {
		for _, p := range row {
			l.headings[i] = max(l.headings[i], p.headingHeight(f.columnWidth()))
		}
		l.height += l.headings[i] + vg.Length(f.panelHeight)*vg.Inch
	}
	return l
}

// draw draws the figure on a canvas of its width and the layout's height.
func (f *figure) draw(canvas vg.CanvasSizer, l layout) {
	columnWidth, headings := f.columnWidth(), l.headings
	edge := vg.Points(margin)
	page := draw.Crop(draw.New(canvas), edge, -edge, edge, -edge)
	page.Max.Y -= drawBlock(page, titleText, l.title)
	page.Max.Y -= drawBlock(page, settingText, l.setting)
	page.Max.Y -= vg.Points(sectionGap)
	drawLegend(page, f.legend)
	page.Max.Y -= l.legend

	panels := page
	areas := make([][]draw.Canvas, len(f.rows))
	for i, row := range f.rows {
		for j, p := range row {
			area := page
			area.Min.X += f.yLabelWidth() + vg.Length(j)*(columnWidth+vg.Points(panelGap))
			area.Max.X = area.Min.X + columnWidth
			heading := area
			if f.yLabel != "" { // among many panels, a short title is next to its plot
				heading.Max.Y -= headings[i] - p.headingHeight(columnWidth)
			}
			heading.Max.Y -= drawBlock(heading, panelText, p.titleLines())
			drawLegend(heading, p.legend)
			area.Max.Y -= headings[i]
			area.Min.Y = area.Max.Y - vg.Length(f.panelHeight)*vg.Inch
			areas[i] = append(areas[i], area)
		}
		page.Max.Y = areas[i][0].Min.Y
		panels.Min.Y = page.Max.Y
		page.Max.Y -= vg.Points(panelGap)
	}
	f.drawPanels(areas)
	f.drawSharedLabels(panels)
	page.Max.Y = panels.Min.Y - vg.Points(sectionGap) - l.xLabel
	drawBlock(page, captionText, l.caption)
}

// drawPanels draws the inside of the panels with the data areas of each column
// aligned.
func (f *figure) drawPanels(areas [][]draw.Canvas) {
	axisWidth := func(p *panel, c draw.Canvas) vg.Length { return p.DataCanvas(c).Min.X - c.Min.X }
	for i, row := range f.rows {
		for j, p := range row {
			var widest vg.Length
			for k := range f.rows {
				if j < len(f.rows[k]) {
					widest = max(widest, axisWidth(f.rows[k][j], areas[k][j]))
				}
			}
			area := areas[i][j]
			area.Min.X += widest - axisWidth(p, area)
			area.Max.X -= p.sideWidth()
			p.Draw(area)
			p.drawSide(area)
		}
	}
}

func (f *figure) yLabelWidth() vg.Length {
	if f.yLabel == "" {
		return 0
	}
	return lineHeight(labelText) + vg.Points(7)
}

// drawSharedLabels draws the common x label below the panels and the common y
// label on their left.
func (f *figure) drawSharedLabels(panels draw.Canvas) {
	style := labelText
	style.XAlign, style.YAlign = draw.XCenter, draw.YTop
	right := panels.Min.X + f.yLabelWidth()
	right += vg.Length(len(f.rows[0]))*(f.columnWidth()+vg.Points(panelGap)) - vg.Points(panelGap)
	panels.FillText(style, vg.Point{X: (panels.Min.X + f.yLabelWidth() + right) / 2, Y: panels.Min.Y}, f.xLabel)

	style.Rotation, style.YAlign = math.Pi/2, draw.YCenter
	x := panels.Min.X + lineHeight(labelText)/2 - vg.Points(2)
	panels.FillText(style, vg.Point{X: x, Y: (panels.Max.Y + panels.Min.Y) / 2}, f.yLabel)
}

func (p *panel) titleLines() []string {
	if p.title == "" {
		return nil
	}
	return strings.Split(p.title, "\n")
}

// headingHeight is the room that a panel's title and legend take.
func (p *panel) headingHeight(width vg.Length) vg.Length {
	h := blockHeight(panelText, p.titleLines())
	if len(p.legend) > 0 {
		h += legendHeight(p.legend, width) + vg.Points(3)
	}
	return h
}

// sideStyle is the style of a line of text next to the data or in a cell.
func sideStyle(line int) text.Style {
	if line == 0 {
		return valueText
	}
	return detailText
}

// sideWidth is the room that the text next to the data takes.
func (p *panel) sideWidth() vg.Length {
	var w vg.Length
	for _, s := range p.side {
		for i, line := range s.lines {
			w = max(w, sideStyle(i).Width(line)+vg.Points(sideGap))
		}
	}
	return w
}

// drawSide draws the text next to the data of a plot that was drawn in area.
func (p *panel) drawSide(area draw.Canvas) {
	data := p.DataCanvas(area)
	_, y := p.Transforms(&data)
	for _, s := range p.side {
		drawCentered(area, area.Max.X+vg.Points(sideGap), y(s.y), draw.XLeft, black, s.lines)
	}
}

// shareLegend makes one legend of those of the panels.
func (f *figure) shareLegend() {
	for _, p := range slices.Concat(f.rows...) {
		f.legend, p.legend = union(f.legend, p.legend...), nil
	}
}

const (
	sampleWidth = 30.0 // points
	sampleGap   = 5.0
	entryGap    = 16.0
	rowGap      = 3.0
)

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

// drawText draws one line of text with its top left corner at x, top.
func drawText(c draw.Canvas, style text.Style, x, top vg.Length, s string) {
	style.XAlign, style.YAlign = draw.XLeft, draw.YTop
	c.FillText(style, vg.Point{X: x, Y: top}, s)
}

// drawBlock draws lines from the top left corner of c and returns their height.
func drawBlock(c draw.Canvas, style text.Style, lines []string) vg.Length {
	for i, line := range lines {
		drawText(c, style, c.Min.X, c.Max.Y-vg.Length(i)*lineHeight(style), line)
	}
	return blockHeight(style, lines)
}

func blockHeight(style text.Style, lines []string) vg.Length {
	return vg.Length(len(lines)) * lineHeight(style)
}

// lineHeight is the distance of two lines of text.
func lineHeight(style text.Style) vg.Length { return style.Font.Size * 1.28 }

// drawCentered draws a value and its details, one line each, at x with their
// middle at y.
func drawCentered(c draw.Canvas, x, y vg.Length, align text.XAlignment, col color.Color, lines []string) {
	top := y
	for i := range lines {
		top += lineHeight(sideStyle(i)) / 2
	}
	for i, line := range lines {
		style := sideStyle(i)
		style.Color, style.XAlign, style.YAlign = col, align, draw.YTop
		c.FillText(style, vg.Point{X: x, Y: top}, line)
		top -= lineHeight(style)
	}
}
