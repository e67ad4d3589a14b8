package plots

import (
	"math"
	"sort"
	"strings"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"grpo/internal/textutil"
)

// What a figure of several panels has once for all of them: a legend, the
// labels of the axes, and text beside the data.

// legendHeight is the room of the common legend, with the gap below it.
func (f figure) legendHeight(width vg.Length) vg.Length {
	if len(f.legend) == 0 {
		return 0
	}
	return legendHeight(f.legend, width) + vg.Points(sectionGap)
}

func (f figure) yLabelWidth() vg.Length {
	if f.yLabel == "" {
		return 0
	}
	return lineHeight(labelText) + vg.Points(7)
}

func (f figure) xLabelHeight() vg.Length {
	if f.xLabel == "" {
		return 0
	}
	return lineHeight(labelText)
}

// drawSharedLabels draws the common x label at the top of page, which is below
// the panels, and the common y label on their left, where the panels begin at
// top.
func (f figure) drawSharedLabels(page draw.Canvas, top vg.Length, areas [][]draw.Canvas) {
	right := page.Min.X
	for _, row := range areas {
		for _, a := range row {
			right = max(right, a.Max.X)
		}
	}
	if f.xLabel != "" {
		style := labelText
		style.XAlign, style.YAlign = draw.XCenter, draw.YTop
		page.FillText(style, vg.Point{X: (page.Min.X + f.yLabelWidth() + right) / 2, Y: page.Max.Y}, f.xLabel)
	}
	if f.yLabel != "" {
		style := labelText
		style.Rotation = math.Pi / 2
		style.XAlign, style.YAlign = draw.XCenter, draw.YCenter
		page.FillText(style, vg.Point{X: page.Min.X + lineHeight(labelText)/2 - vg.Points(2), Y: (top + page.Max.Y) / 2}, f.yLabel)
	}
}

// sideText is lines of text on the right of the data at a height of the y axis.
type sideText struct {
	y     float64
	of    string   // what it is about, for [Drawing.Alt]
	lines []string // the first is bold
}

const sideGap = 10.0 // points, between the data and the text beside it

var (
	sideText1 = textStyle(9.5, true)
	sideText2 = textStyle(9, false)
)

func (s sideText) style(line int) text.Style {
	if line == 0 {
		return sideText1
	}
	return sideText2
}

// sideWidth is the room that the text beside the data takes.
func (p *panel) sideWidth() vg.Length {
	var w vg.Length
	for _, s := range p.side {
		for i, line := range s.lines {
			w = max(w, s.style(i).Width(line))
		}
	}
	if w > 0 {
		w += vg.Points(sideGap)
	}
	return w
}

// drawSide draws the text beside the data of a plot that was drawn in area.
func (p *panel) drawSide(area draw.Canvas) {
	data := p.plot.DataCanvas(area)
	_, y := p.plot.Transforms(&data)
	for _, s := range p.side {
		var height vg.Length
		for i := range s.lines {
			height += lineHeight(s.style(i))
		}
		top := y(s.y) + height/2
		for i, line := range s.lines {
			drawText(area, s.style(i), area.Max.X+vg.Points(sideGap), top, line)
			top -= lineHeight(s.style(i))
		}
	}
}

// titleLines are the lines of a panel's title.
func (p *panel) titleLines() []string { return strings.Split(p.title, "\n") }

// twoLines makes at most two lines of s and the value behind it.
func twoLines(style text.Style, s, value string, width vg.Length) string {
	s = oneLine(s)
	if s == "" || style.Width(s+value) <= width {
		return s + value
	}
	lines := wrap(style, s, width)
	first := shorten(style, lines[0], width)
	rest := strings.Join(lines[1:], " ")
	return first + "\n" + strings.TrimSpace(shorten(style, rest, width-style.Width(value))+value)
}

// oneLine makes one line of text from a manifest.
func oneLine(s string) string {
	return strings.Join(strings.Fields(textutil.Printable(s, 0)), " ")
}

// shorten makes one line of s that is not wider than width; an ellipsis stands
// for what is left out.
func shorten(style text.Style, s string, width vg.Length) string {
	s = oneLine(s)
	if style.Width(s) <= width {
		return s
	}
	runes := []rune(s)
	cut := func(n int) string { return strings.TrimRight(string(runes[:n]), " ,;=-") + "…" }
	// The first length that is too wide; a longer text is never narrower.
	n := sort.Search(len(runes), func(n int) bool { return style.Width(cut(n)) > width })
	return cut(max(0, n-1))
}
