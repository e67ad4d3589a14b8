package plots

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"strings"
	"sync"
	"time"

	"grpo/internal/pattern"

	"codeberg.org/go-pdf/fpdf"
	xfont "golang.org/x/image/font"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgpdf"
	"gonum.org/v1/plot/vg/vgsvg"
)

// undated makes PDF files that do not depend on the time or on the order of a map.
var undated = sync.OnceFunc(func() {
	fpdf.SetDefaultCreationDate(time.Unix(0, 0).UTC())
	fpdf.SetDefaultModificationDate(time.Unix(0, 0).UTC())
	fpdf.SetDefaultCatalogSort(true)
})

// pdfCanvas is the canvas of vgpdf v0.16.0 with its own text and colors. It draws letters as shapes:
// vgpdf writes fonts to temporary files, confuses two of them in one document, and has only the
// characters of Windows-1252.
type pdfCanvas struct{ *vgpdf.Canvas }

// FillString implements [vg.Canvas].
func (c pdfCanvas) FillString(f font.Face, at vg.Point, s string) {
	if path := outline(f, at, s); len(path) > 0 {
		c.Fill(path)
	}
}

// SetColor implements [vg.Canvas].
func (c pdfCanvas) SetColor(x color.Color) {
	if x != nil {
		x = straight(color.NRGBAModel.Convert(x).(color.NRGBA))
	}
	c.Canvas.SetColor(x)
}

// straight is a color whose RGBA are not multiplied by the opacity, as vgpdf expects them.
type straight color.NRGBA

// RGBA implements [color.Color].
func (s straight) RGBA() (r, g, b, a uint32) {
	wide := func(x uint8) uint32 { return uint32(x) * 0x101 }
	return wide(s.R), wide(s.G), wide(s.B), wide(s.A)
}

// outline is the shape of text that begins at a point on its baseline. A character that the font
// does not have is a box.
func outline(f font.Face, at vg.Point, s string) vg.Path {
	var buf sfnt.Buffer
	units := fixed.Int26_6(f.Face.UnitsPerEm())
	scale := f.Font.Size / vg.Length(units)
	var out vg.Path
	var before sfnt.GlyphIndex
	for i, r := range s {
		glyph, err := f.Face.GlyphIndex(&buf, r)
		if err != nil {
			glyph = 0
		}
		if i > 0 {
			if kern, err := f.Face.Kern(&buf, before, glyph, units, xfont.HintingNone); err == nil {
				at.X += vg.Length(kern) * scale
			}
		}
		if segments, err := f.Face.LoadGlyph(&buf, glyph, units, nil); err == nil {
			out = appendGlyph(out, segments, at, scale)
		}
		if advance, err := f.Face.GlyphAdvance(&buf, glyph, units, xfont.HintingNone); err == nil {
			at.X += vg.Length(advance) * scale
		}
		before = glyph
	}
	return out
}

// appendGlyph adds the contours of a glyph whose origin is at a point.
func appendGlyph(out vg.Path, segments sfnt.Segments, at vg.Point, scale vg.Length) vg.Path {
	point := func(p fixed.Point26_6) vg.Point {
		return vg.Point{X: at.X + vg.Length(p.X)*scale, Y: at.Y - vg.Length(p.Y)*scale}
	}
	var last vg.Point
	// toward is two thirds of the way from a point to the control point of a quadratic curve.
	toward := func(p, control vg.Point) vg.Point { return p.Add(control.Sub(p).Scale(2. / 3)) }
	for i, s := range segments {
		p := point(s.Args[0])
		switch s.Op {
		case sfnt.SegmentOpMoveTo:
			if i > 0 {
				out.Close()
			}
			out.Move(p)
		case sfnt.SegmentOpLineTo:
			out.Line(p)
		case sfnt.SegmentOpQuadTo:
			control := p
			p = point(s.Args[1])
			out.CubeTo(toward(last, control), toward(p, control), p)
		case sfnt.SegmentOpCubeTo:
			first := p
			p = point(s.Args[2])
			out.CubeTo(first, point(s.Args[1]), p)
		}
		last = p
	}
	if len(segments) > 0 {
		out.Close()
	}
	return out
}

// PageSVG is a figure for an HTML page: it has no background, and where the reader prefers
// dark pages it has colors for them. Without Data there is none.
type PageSVG struct {
	Data          []byte
	Width, Height int // points
}

// darkInk replaces black on a dark page.
var darkInk = color.NRGBA{0xe6, 0xe9, 0xec, 0xff}

// darkColors are the colors of figures and those that replace them on a dark page. Colors that
// are not in the list, such as the cells of a map and the text in them, stay.
var darkColors = []struct{ light, dark color.NRGBA }{
	{black, darkInk},
	{blue, color.NRGBA{0x4d, 0xa6, 0xe8, 0xff}},
	{vermillion, color.NRGBA{0xff, 0x84, 0x3d, 0xff}},
	{green, color.NRGBA{0x2c, 0xc2, 0x95, 0xff}},
	{purple, color.NRGBA{0xe3, 0x9a, 0xc4, 0xff}},
	{sky, color.NRGBA{0xa8, 0xdb, 0xf7, 0xff}},
	{dark, color.NRGBA{0xb8, 0xbf, 0xc7, 0xff}},
	{grey, color.NRGBA{0x5f, 0x68, 0x72, 0xff}},
	{pale, color.NRGBA{0x35, 0x3b, 0x42, 0xff}},
}

// pageStyle is the style sheet of figures on a page. vgsvg writes colors into style attributes,
// and none where it is black.
var pageStyle = func() string {
	hex := func(c color.NRGBA) string { return fmt.Sprintf("#%02X%02X%02X", c.R, c.G, c.B) }
	out := "text{" + svgFonts + "}@media(prefers-color-scheme:dark){svg{fill:" + hex(darkInk) + "}"
	for _, c := range darkColors {
		for _, property := range []string{"fill", "stroke"} {
			out += fmt.Sprintf(`[style*="%s:%s"]{%s:%s!important}`, property, hex(c.light), property, hex(c.dark))
		}
	}
	return out + "}"
}()

// pageCanvas is a canvas of vgsvg that keeps the widths of its texts.
type pageCanvas struct {
	*vgsvg.Canvas
	widths []vg.Length
}

// FillString implements [vg.Canvas].
func (c *pageCanvas) FillString(f font.Face, at vg.Point, s string) {
	c.widths = append(c.widths, f.Width(s))
	c.Canvas.FillString(f, at, s)
}

// SetColor implements [vg.Canvas].
func (c *pageCanvas) SetColor(x color.Color) {
	if x != nil {
		x = exact(color.NRGBAModel.Convert(x).(color.NRGBA))
	}
	c.Canvas.SetColor(x)
}

// exact is a color whose parts are rounded up when they are multiplied by the opacity: vgsvg divides
// them again and rounds down.
type exact color.NRGBA

// RGBA implements [color.Color].
func (c exact) RGBA() (r, g, b, a uint32) {
	up := func(x uint8) uint32 { return (uint32(x)*0x101*uint32(c.A) + 0xfe) / 0xff }
	return up(c.R), up(c.G), up(c.B), uint32(c.A) * 0x101
}

var textTag = pattern.Of(`<text `)

// plainFont is what vgsvg writes for each text, and the style sheet says once.
var plainFont = pattern.Of(`font-family:Liberation Sans;font-variant:normal;(font-weight:normal;)?` +
	`(font-weight:bold;)?font-style:normal;`)

// pageSVG is the figure for a page; of nil it is empty.
func (f *figure) pageSVG() (PageSVG, error) {
	if f == nil {
		return PageSVG{}, nil
	}
	l := f.layout()
	width := vg.Length(f.width) * vg.Inch
	canvas := &pageCanvas{Canvas: vgsvg.New(width, l.height)}
	f.draw(canvas, l)
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return PageSVG{}, err
	}
	// The width of a long text is stated: with another font it still fits into its place.
	const long = 60
	i := -1
	data := textTag().ReplaceAllStringFunc(b.String(), func(tag string) string {
		if i++; canvas.widths[i] < long {
			return tag
		}
		return fmt.Sprintf(`%stextLength="%.1f" lengthAdjust="spacingAndGlyphs" `, tag, canvas.widths[i].Points())
	})
	data = plainFont().ReplaceAllString(data, "$2")
	data = strings.Replace(data, "<g ", "<style>"+pageStyle+"</style>\n<g ", 1)
	return PageSVG{[]byte(data), int(math.Round(width.Points())), int(math.Round(l.height.Points()))}, nil
}
