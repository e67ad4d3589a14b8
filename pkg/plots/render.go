package plots

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"io"
	"sync"
	"time"

	"codeberg.org/go-pdf/fpdf"
	xfont "golang.org/x/image/font"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgpdf"
	"gonum.org/v1/plot/vg/vgsvg"
)

// render writes the figure as PNG.
func (f *figure) render(w io.Writer) error {
	dpi := cmp.Or(f.dpi, defaultDPI)
	l := f.layout()
	canvas, img := newImageCanvas(vg.Length(f.width)*vg.Inch, l.height, dpi)
	f.draw(canvas, l)
	return encodePNG(w, img, dpi)
}

// vector returns the figure as "svg" or "pdf". The same figure gives the same bytes.
func (f *figure) vector(format string) ([]byte, error) {
	l := f.layout()
	width := vg.Length(f.width) * vg.Inch
	var b bytes.Buffer
	switch format {
	case "svg":
		canvas := vgsvg.New(width, l.height)
		fillWhite(canvas)
		f.draw(canvas, l)
		_, err := canvas.WriteTo(&b)
		return bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans;"), []byte(svgFonts)), err
	case "pdf":
		undated()
		canvas := pdfCanvas{vgpdf.New(width, l.height)}
		f.draw(canvas, l)
		_, err := canvas.WriteTo(&b)
		return b.Bytes(), err
	}
	return nil, fmt.Errorf("draw a figure as %q: the formats are svg and pdf", format)
}

// svgFonts: where Liberation Sans is missing, Arial and Helvetica have letters of the same widths.
const svgFonts = "font-family:'Liberation Sans',Arial,Helvetica,sans-serif;"

// fillWhite gives an SVG the background that the other formats have.
func fillWhite(c *vgsvg.Canvas) {
	w, h := c.Size()
	c.SetColor(color.White)
	c.Fill(vg.Rectangle{Max: vg.Point{X: w, Y: h}}.Path())
	c.SetColor(color.Black)
}

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
