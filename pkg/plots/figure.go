package plots

import (
	"math"
	"strings"

	"gonum.org/v1/plot"
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
	dpi            int      // 0 = defaultDPI
}

// panel is one plot with its title and legend above it.
type panel struct {
	*plot.Plot
	title  string
	value  string // at the end of the title
	legend []legendEntry
	side   []sideText
	y      yAxis // of curves
	// From the back to the front: bands of intervals, lines of seeds, everything else.
	bands, behind layer
	// horizontal panels have their values along x and a row for each name.
	horizontal bool
}

// sideText is lines of text on the right of the data at a height of the y axis.
type sideText struct {
	y     float64
	name  string // of the values that it is about, for [Drawing.Alt]
	lines []string
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
