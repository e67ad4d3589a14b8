package plots

import (
	"image/color"

	"grpo/pkg/analysis"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// overlayMax is the largest number of arms that are drawn over each other;
// more get a panel each.
const overlayMax = 6

// armLooks tell arms apart in three ways at once: by a colour of Okabe and
// Ito's palette (its yellow is left out, which is hardly seen on white), by
// dashes and by markers.
var armLooks = [overlayMax]look{
	{color: blue, marker: draw.CircleGlyph{}},
	{color: vermillion, dashes: points(6, 2.5), marker: draw.PyramidGlyph{}},
	{color: green, dashes: points(9, 2.5, 2, 2.5), marker: draw.BoxGlyph{}},
	{color: purple, dashes: points(2, 1.8), marker: diamond{}},
	{color: orange, dashes: points(12, 3), marker: nabla{}},
	{color: sky, dashes: points(6, 2, 1.5, 2, 1.5, 2), marker: outline{}},
}

var (
	green  = color.NRGBA{0x00, 0x9e, 0x73, 0xff}
	purple = color.NRGBA{0xcc, 0x79, 0xa7, 0xff}
	orange = color.NRGBA{0xe6, 0x9f, 0x00, 0xff}
	sky    = color.NRGBA{0x56, 0xb4, 0xe9, 0xff}
	grey   = color.NRGBA{0xc2, 0xc2, 0xc2, 0xff}
	white  = color.NRGBA{0xff, 0xff, 0xff, 0xff}
)

func points(v ...float64) []vg.Length {
	out := make([]vg.Length, len(v))
	for i, x := range v {
		out[i] = vg.Points(x)
	}
	return out
}

// lookOther is an arm behind the one that its panel is about.
var lookOther = look{color: grey}

// diamond is a filled square on its corner.
type diamond struct{}

// DrawGlyph implements [draw.GlyphDrawer].
func (diamond) DrawGlyph(c *draw.Canvas, sty draw.GlyphStyle, pt vg.Point) {
	r := sty.Radius * 1.2
	c.FillPolygon(sty.Color, []vg.Point{{X: pt.X - r, Y: pt.Y}, {X: pt.X, Y: pt.Y + r}, {X: pt.X + r, Y: pt.Y}, {X: pt.X, Y: pt.Y - r}})
}

// nabla is a filled triangle that stands on its tip.
type nabla struct{}

// DrawGlyph implements [draw.GlyphDrawer].
func (nabla) DrawGlyph(c *draw.Canvas, sty draw.GlyphStyle, pt vg.Point) {
	r := sty.Radius * 1.1
	c.FillPolygon(sty.Color, []vg.Point{{X: pt.X - r, Y: pt.Y + 0.7*r}, {X: pt.X + r, Y: pt.Y + 0.7*r}, {X: pt.X, Y: pt.Y - r}})
}

// markers are points of a plot. Unlike [plotter.Scatter] they don't ask for room
// at the edges, which would make panels with a marker there smaller than those
// without.
type markers struct {
	at    analysis.Series
	glyph draw.GlyphStyle
}

// Plot implements [plot.Plotter].
func (m markers) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, q := range m.at {
		c.DrawGlyphNoClip(m.glyph, vg.Point{X: x(q.X), Y: y(q.Y)})
	}
}

// DataRange implements [plot.DataRanger].
func (m markers) DataRange() (xmin, xmax, ymin, ymax float64) {
	return plotter.XYRange(xys(m.at))
}

// addMarkers draws points, if there are any, and says whether there are.
func addMarkers(p *plot.Plot, at analysis.Series, glyph draw.GlyphStyle) bool {
	if len(at) > 0 {
		p.Add(markers{at, glyph})
	}
	return len(at) > 0
}

func divergedGlyph(c color.NRGBA) draw.GlyphStyle {
	return draw.GlyphStyle{Color: c, Radius: vg.Points(4.2), Shape: cross{}}
}

// divergedSeedGlyph is the smaller cross of a seed that stands close to others.
func divergedSeedGlyph(c color.NRGBA) draw.GlyphStyle {
	g := divergedGlyph(c)
	g.Radius = vg.Points(2.9)
	return g
}
