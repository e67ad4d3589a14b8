package plots

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// DPI of every PNG. Sizes below are in points (1/72 inch): a figure can be printed at
// its own size and still be read at half of it. Tests that look at no picture draw
// coarser ones, in less time.
var DPI = 200

// Sizes of figures, inches.
const (
	pageWidth   = 7.2
	wideWidth   = 9.6
	phoneWidth  = 4.2 // of a figure whose text is readable on a phone
	pageHeight  = 4.0
	panelInches = 2.1 // height of one of many panels
)

// The palette of Okabe and Ito (Color Universal Design, 2008) without its yellow,
// which is hardly visible on white. People with any common color blindness can
// tell it apart.
var (
	blue       = color.NRGBA{0x00, 0x72, 0xb2, 0xff}
	vermillion = color.NRGBA{0xd5, 0x5e, 0x00, 0xff}
	green      = color.NRGBA{0x00, 0x9e, 0x73, 0xff}
	purple     = color.NRGBA{0xcc, 0x79, 0xa7, 0xff}
	orange     = color.NRGBA{0xe6, 0x9f, 0x00, 0xff}
	sky        = color.NRGBA{0x56, 0xb4, 0xe9, 0xff}

	black = color.NRGBA{0x00, 0x00, 0x00, 0xff}
	dark  = color.NRGBA{0x40, 0x40, 0x40, 0xff}
	grey  = color.NRGBA{0xc2, 0xc2, 0xc2, 0xff}
	pale  = color.NRGBA{0xe4, 0xe4, 0xe4, 0xff}
	white = color.NRGBA{0xff, 0xff, 0xff, 0xff}
)

// alpha is c at the given opacity.
func alpha(c color.NRGBA, opacity float64) color.NRGBA {
	c.A = uint8(opacity*255 + 0.5)
	return c
}

// textStyle is Liberation Sans, embedded by gonum/plot: a figure is the same on a
// machine without fonts.
func textStyle(size float64, bold bool) text.Style {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(size)}
	if bold {
		f.Weight = 3 // WeightBold of golang.org/x/image/font
	}
	return text.Style{Color: black, Font: f, Handler: plot.DefaultTextHandler}
}

var (
	titleText   = textStyle(13, true)
	settingText = textStyle(9.5, false)
	panelText   = textStyle(10.5, true)
	labelText   = textStyle(10, false)
	tickText    = textStyle(9.5, false)
	legendText  = textStyle(9.5, false)
	captionText = textStyle(8.5, false)
	// Next to the data, and in the cells of a map: the first line and the others.
	valueText  = textStyle(9.5, true)
	detailText = textStyle(9, false)
)

// style is how a curve is drawn.
type style struct {
	color  color.NRGBA
	dashes []vg.Length
	marker draw.GlyphDrawer
}

var (
	dashed     = []vg.Length{vg.Points(5), vg.Points(2.5)}
	longDashed = []vg.Length{vg.Points(9), vg.Points(4)}
	dotted     = []vg.Length{vg.Points(1.2), vg.Points(2.6)}
	dashDotted = []vg.Length{vg.Points(6), vg.Points(2.2), vg.Points(1.4), vg.Points(2.2)}
)

var (
	plainStyle   = style{color: blue}
	trainStyle   = style{color: vermillion}
	sampledStyle = style{color: blue, marker: draw.CircleGlyph{}}
	greedyStyle  = style{color: vermillion, dashes: dashed, marker: draw.PyramidGlyph{}}
	// Unseen facts and the last evaluation's problems have the colors of the decoding modes and hollow markers.
	unseenSampledStyle = style{color: blue, marker: shape{corners: 4}}
	unseenGreedyStyle  = style{color: vermillion, marker: shape{corners: 3}}
	lastSampledStyle   = style{color: blue, marker: shape{corners: 4, onTip: true}}
	lastGreedyStyle    = style{color: vermillion, marker: shape{corners: 3, onTip: true}}

	rightStyle = style{color: blue}
	wrongStyle = style{color: vermillion, dashes: dashed}
	otherStyle = style{color: grey} // the other arms, behind the one that a panel shows

	baseStyle           = style{color: dark, dashes: longDashed}
	majorityStyle       = style{color: dark, dashes: dotted}
	unseenMajorityStyle = style{color: dark, dashes: dashDotted}
	referenceStyle      = style{color: dark, dashes: dotted}
)

// overlayMax is the largest number of arms that share one plot; more arms get a
// panel each.
const overlayMax = 6

// armStyles tell arms apart by color, dashes and markers: in print without color
// two of these are left.
var armStyles = [overlayMax]style{
	{color: blue, marker: draw.CircleGlyph{}},
	{color: vermillion, dashes: points(6, 2.5), marker: draw.PyramidGlyph{}},
	{color: green, dashes: points(9, 2.5, 2, 2.5), marker: draw.BoxGlyph{}},
	{color: purple, dashes: points(2, 1.8), marker: shape{corners: 4, filled: true, onTip: true}},
	{color: orange, dashes: points(12, 3), marker: shape{corners: 3, filled: true, onTip: true}},
	{color: sky, dashes: points(6, 2, 1.5, 2, 1.5, 2), marker: shape{}},
}

func points(v ...float64) []vg.Length {
	out := make([]vg.Length, len(v))
	for i, x := range v {
		out[i] = vg.Points(x)
	}
	return out
}

// Widths of lines and radii of markers in points, and opacities.
const (
	thick         = 1.9
	medium        = 1.3
	thin          = 0.8
	markerRadius  = 2.6
	meanRadius    = 3.8
	seedRadius    = 2.3
	crossRadius   = 4.2
	seedCross     = 2.9 // a seed's cross among others
	errorBarWidth = 8   // length of the ends of an error bar
	bandOpacity   = 0.15
)

func (s style) line(width float64) draw.LineStyle {
	return draw.LineStyle{Color: s.color, Width: vg.Points(width), Dashes: s.dashes}
}

// faint is the line of one seed among several: thin, translucent, solid.
func (s style) faint(opacity float64) draw.LineStyle {
	return draw.LineStyle{Color: alpha(s.color, opacity), Width: vg.Points(thin)}
}

func (s style) glyph(radius float64) draw.GlyphStyle { return glyph(s.color, radius, s.marker) }

func glyph(c color.Color, radius float64, shape draw.GlyphDrawer) draw.GlyphStyle {
	return draw.GlyphStyle{Color: c, Radius: vg.Points(radius), Shape: shape}
}

// shape is a marker: a regular polygon that rests on a side or on its tip, or a
// circle where corners is 0. A hollow one paints nothing inside, so that curves
// below stay visible; gonum's RingGlyph does that with a line that is too thin.
type shape struct {
	corners       int
	filled, onTip bool
}

// DrawGlyph implements [draw.GlyphDrawer].
func (s shape) DrawGlyph(c *draw.Canvas, sty draw.GlyphStyle, pt vg.Point) {
	var p vg.Path
	r := sty.Radius * 1.2
	if s.corners == 0 {
		p.Move(vg.Point{X: pt.X + r, Y: pt.Y})
		p.Arc(pt, r, 0, 2*math.Pi)
	}
	for i := range s.corners {
		angle := 2*math.Pi*float64(i)/float64(s.corners) - math.Pi/2 // the first corner is at the bottom
		if !s.onTip {
			angle += math.Pi / float64(s.corners)
		}
		corner := vg.Point{X: pt.X + r*vg.Length(math.Cos(angle)), Y: pt.Y + r*vg.Length(math.Sin(angle))}
		if i == 0 {
			p.Move(corner)
		} else {
			p.Line(corner)
		}
	}
	p.Close()
	if s.filled {
		c.SetColor(sty.Color)
		c.Fill(p)
		return
	}
	c.SetLineStyle(draw.LineStyle{Color: sty.Color, Width: vg.Points(1.3)})
	c.Stroke(p)
}

// cross is gonum's CrossGlyph with a line that is still visible at half size.
type cross struct{}

// DrawGlyph implements [draw.GlyphDrawer].
func (cross) DrawGlyph(c *draw.Canvas, sty draw.GlyphStyle, pt vg.Point) {
	r := sty.Radius
	c.StrokeLines(draw.LineStyle{Color: sty.Color, Width: vg.Points(1.8)},
		[]vg.Point{{X: pt.X - r, Y: pt.Y - r}, {X: pt.X + r, Y: pt.Y + r}},
		[]vg.Point{{X: pt.X - r, Y: pt.Y + r}, {X: pt.X + r, Y: pt.Y - r}})
}

func divergedGlyph(c color.Color) draw.GlyphStyle { return glyph(c, crossRadius, cross{}) }
