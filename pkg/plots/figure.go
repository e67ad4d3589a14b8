package plots

import (
	"image/color"
	"io"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// figure is a page: title, setting, panels in a grid and a caption, stacked
// from top to bottom. gonum draws the inside of a panel; everything around it
// is placed here by measured text, so that nothing overlaps. The page is as
// high as that takes: a long legend or caption never squeezes the data.
type figure struct {
	width       float64 // of the page, inches
	panelHeight float64 // of a plot with its axes, inches
	title       string
	setting     string
	legend      []legendEntry // of all panels
	Rows        [][]*panel
	// xLabel and yLabel stand once for all panels, below and on their left;
	// empty where each panel has labels of its own.
	xLabel, yLabel string
	Caption        []string // sentences, at most two lines
	Notes          []string // what else a reader may want to know; not drawn
	dpi            int      // 0 = defaultDPI
}

// panel is one plot with its heading and legend above it.
type panel struct {
	title  string
	value  string // at the end of the title
	Legend []legendEntry
	plot   *plot.Plot
	// side is text on the right of the data, beside the values that it is about.
	side []sideText
}

const (
	margin     = 10.0 // points, around the page
	panelGap   = 14.0 // between panels
	sectionGap = 6.0  // between heading, panels and caption
)

// render writes the figure as PNG.
func (f figure) render(w io.Writer) error {
	pageWidth := vg.Length(f.width) * vg.Inch
	width := pageWidth - 2*vg.Points(margin)
	title := wrap(titleText, f.title, width)
	setting := wrap(settingText, f.setting, width)
	caption := wrap(captionText, strings.Join(f.Caption, " "), width)

	left := f.yLabelWidth()
	columns := 1
	for _, row := range f.Rows {
		columns = max(columns, len(row))
	}
	columnWidth := (width - left - vg.Points(panelGap)*vg.Length(columns-1)) / vg.Length(columns)
	headings := make([]vg.Length, len(f.Rows)) // the highest of each row
	height := 2*vg.Points(margin+sectionGap) + vg.Points(panelGap)*vg.Length(len(f.Rows)-1)
	height += blockHeight(titleText, title) + blockHeight(settingText, setting) + blockHeight(captionText, caption)
	height += f.legendHeight(width) + f.xLabelHeight()
	for i, row := range f.Rows {
		for _, p := range row {
			headings[i] = max(headings[i], p.headingHeight(columnWidth))
		}
		height += headings[i] + vg.Length(f.panelHeight)*vg.Inch
	}

	dpi := f.dpi
	if dpi == 0 {
		dpi = DefaultDPI
	}
	canvas := vgimg.NewWith(vgimg.UseWH(pageWidth, height), vgimg.UseDPI(dpi), vgimg.UseBackgroundColor(color.White))
	page := draw.Crop(draw.New(canvas), vg.Points(margin), -vg.Points(margin), vg.Points(margin), -vg.Points(margin))
	page.Max.Y -= drawBlock(page, titleText, title)
	page.Max.Y -= drawBlock(page, settingText, setting)
	page.Max.Y -= vg.Points(sectionGap)
	drawLegend(page, f.legend)
	page.Max.Y -= f.legendHeight(width)

	top := page.Max.Y
	areas := make([][]draw.Canvas, len(f.Rows))
	for i, row := range f.Rows {
		for j, p := range row {
			area := page
			area.Min.X += left + vg.Length(j)*(columnWidth+vg.Points(panelGap))
			area.Max.X = area.Min.X + columnWidth
			heading := area
			if f.yLabel != "" { // among many panels, a short title stands near its plot
				heading.Max.Y -= headings[i] - p.headingHeight(columnWidth)
			}
			p.drawHeading(heading)
			area.Max.Y -= headings[i]
			area.Min.Y = area.Max.Y - vg.Length(f.panelHeight)*vg.Inch
			areas[i] = append(areas[i], area)
		}
		page.Max.Y = areas[i][0].Min.Y - vg.Points(panelGap)
	}
	drawPlots(f.Rows, areas)
	page.Max.Y += vg.Points(panelGap)
	f.drawSharedLabels(page, top, areas)
	page.Max.Y -= vg.Points(sectionGap) + f.xLabelHeight()
	drawBlock(page, captionText, caption)
	return encodePNG(w, canvas.Image(), dpi)
}

// drawPlots draws the inside of the panels with the data areas of each column
// aligned.
func drawPlots(rows [][]*panel, areas [][]draw.Canvas) {
	for i, row := range rows {
		for j, p := range row {
			var widest vg.Length
			for k := range rows {
				if j < len(rows[k]) {
					widest = max(widest, axisWidth(rows[k][j].plot, areas[k][j]))
				}
			}
			area := areas[i][j]
			area.Min.X += widest - axisWidth(p.plot, area)
			area.Max.X -= p.sideWidth()
			p.plot.Draw(area)
			p.drawSide(area)
		}
	}
}

// headingHeight is the room that a panel's title and legend take.
func (p *panel) headingHeight(width vg.Length) vg.Length {
	var h vg.Length
	if p.title != "" {
		h += blockHeight(panelText, p.titleLines())
	}
	if len(p.Legend) > 0 {
		h += legendHeight(p.Legend, width) + vg.Points(3)
	}
	return h
}

// drawHeading draws a panel's title and legend at the top of c.
func (p *panel) drawHeading(c draw.Canvas) {
	if p.title != "" {
		c.Max.Y -= drawBlock(c, panelText, p.titleLines())
	}
	drawLegend(c, p.Legend)
}

// axisWidth is the room that the y axis takes on the left of the data.
func axisWidth(p *plot.Plot, c draw.Canvas) vg.Length {
	return p.DataCanvas(c).Min.X - c.Min.X
}

// newPlot is an empty plot in the house style with light horizontal rules.
func newPlot(xLabel, yLabel string) *plot.Plot {
	p := plot.New()
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font = labelText.Font
		axis.Tick.Label.Font = tickText.Font
		axis.Tick.Length = vg.Points(4)
		axis.Tick.LineStyle.Width = vg.Points(0.7)
		axis.LineStyle.Width = vg.Points(0.7)
		axis.Label.Padding = vg.Points(3)
	}
	p.X.Label.Text, p.Y.Label.Text = xLabel, yLabel
	p.X.Tick.Marker = niceTicks{want: 4, integer: true}
	p.Y.Tick.Marker = niceTicks{want: 4}
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	grid.Horizontal = draw.LineStyle{Color: pale, Width: vg.Points(0.7)}
	p.Add(grid)
	return p
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

// wrap breaks text at spaces into lines of at most the given width; a word
// that is wider by itself gets a line of its own.
func wrap(style text.Style, s string, width vg.Length) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(s) {
		longer := word
		if line != "" {
			longer = line + " " + word
		}
		if line != "" && style.Width(longer) > width {
			lines = append(lines, line)
			longer = word
		}
		line = longer
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
