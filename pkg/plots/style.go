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

// defaultDPI of every PNG. Sizes below are in points (1/72 inch), so that a figure
// can be printed at its own size and still be read at half of it.
const DefaultDPI = 200

// The palette of Okabe and Ito (Color Universal Design, 2008), which people
// with any common colour blindness can tell apart. Curves differ in dash and
// marker as well, for print without colour.
var (
	blue       = color.NRGBA{0x00, 0x72, 0xb2, 0xff}
	vermillion = color.NRGBA{0xd5, 0x5e, 0x00, 0xff}
	black      = color.NRGBA{0x00, 0x00, 0x00, 0xff}
	dark       = color.NRGBA{0x40, 0x40, 0x40, 0xff}
	pale       = color.NRGBA{0xe4, 0xe4, 0xe4, 0xff}
)

// alpha is c at the given opacity.
func alpha(c color.NRGBA, opacity float64) color.NRGBA {
	c.A = uint8(opacity*255 + 0.5)
	return c
}

// weightBold is golang.org/x/image/font's WeightBold.
const weightBold = 3

// textStyle is Liberation Sans, embedded by gonum/plot, so that a figure looks
// the same on a machine without fonts.
func textStyle(size float64, bold bool) text.Style {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(size)}
	if bold {
		f.Weight = weightBold
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
)

// look is how a curve is drawn.
type look struct {
	color  color.NRGBA
	dashes []vg.Length
	marker draw.GlyphDrawer
}

// In the figure of validation, colour tells the decoding and a hollow marker
// the unseen facts.
var (
	lookUnseenSampled = look{color: blue, marker: outline{4}}
	lookUnseenGreedy  = look{color: vermillion, marker: outline{3}}

	lookSampled  = look{color: blue, marker: draw.CircleGlyph{}}
	lookGreedy   = look{color: vermillion, dashes: dashed, marker: draw.PyramidGlyph{}}
	lookBase     = look{color: dark, dashes: longDashed}
	lookMajority = look{color: dark, dashes: dotted}
	// Validation and the unseen facts have a majority answer each.
	lookUnseenMajority = look{color: dark, dashes: dashDotted}
	lookTrain          = look{color: vermillion}
	lookRight          = look{color: blue}
	lookWrong          = look{color: vermillion, dashes: dashed}
	lookPlain          = look{color: blue}
)

var (
	dashed     = []vg.Length{vg.Points(5), vg.Points(2.5)}
	longDashed = []vg.Length{vg.Points(9), vg.Points(4)}
	dotted     = []vg.Length{vg.Points(1.2), vg.Points(2.6)}
)

// Widths of lines and markers.
const (
	thick        = 1.9
	medium       = 1.2
	thin         = 0.8
	markerRadius = 2.6
	seedOpacity  = 0.55
	bandOpacity  = 0.15
)

func (l look) line(width float64) draw.LineStyle {
	return draw.LineStyle{Color: l.color, Width: vg.Points(width), Dashes: l.dashes}
}

func (l look) glyph(radius float64) draw.GlyphStyle {
	return draw.GlyphStyle{Color: l.color, Radius: vg.Points(radius), Shape: l.marker}
}

// faint is the look of one seed among several: thin, translucent, solid.
func (l look) faint() draw.LineStyle {
	return draw.LineStyle{Color: alpha(l.color, seedOpacity), Width: vg.Points(thin)}
}

// outline draws the edge of a shape and nothing inside it: what lies below stays
// visible. gonum's RingGlyph and its kind do the same with a line that is too thin.
type outline struct{ corners int } // 0: a circle

// DrawGlyph implements [draw.GlyphDrawer].
func (o outline) DrawGlyph(c *draw.Canvas, sty draw.GlyphStyle, pt vg.Point) {
	c.SetLineStyle(draw.LineStyle{Color: sty.Color, Width: vg.Points(1.3)})
	var p vg.Path
	r := sty.Radius * 1.2
	if o.corners == 0 {
		p.Move(vg.Point{X: pt.X + r, Y: pt.Y})
		p.Arc(pt, r, 0, 2*math.Pi)
	}
	for i := range o.corners {
		// A side lies below.
		angle := math.Pi * (2*float64(i) + 1 - float64(o.corners)/2) / float64(o.corners)
		q := vg.Point{X: pt.X + r*vg.Length(math.Cos(angle)), Y: pt.Y + r*vg.Length(math.Sin(angle))}
		if i == 0 {
			p.Move(q)
		} else {
			p.Line(q)
		}
	}
	p.Close()
	c.Stroke(p)
}

// cross is gonum's CrossGlyph with a line that is still seen at half size.
type cross struct{}

// DrawGlyph implements [draw.GlyphDrawer].
func (cross) DrawGlyph(c *draw.Canvas, sty draw.GlyphStyle, pt vg.Point) {
	r := sty.Radius
	c.StrokeLines(draw.LineStyle{Color: sty.Color, Width: vg.Points(1.8)},
		[]vg.Point{{X: pt.X - r, Y: pt.Y - r}, {X: pt.X + r, Y: pt.Y + r}},
		[]vg.Point{{X: pt.X - r, Y: pt.Y + r}, {X: pt.X + r, Y: pt.Y - r}})
}
