package plots

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"io"
	"strings"
	"sync"
	"time"

	"codeberg.org/go-pdf/fpdf"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgpdf"
	"gonum.org/v1/plot/vg/vgsvg"
)

// render writes the figure as PNG.
func (f *figure) render(w io.Writer) error {
	dpi := f.dpi
	if dpi == 0 {
		dpi = defaultDPI
	}
	l := f.layout()
	canvas := vgimg.NewWith(vgimg.UseWH(vg.Length(f.width)*vg.Inch, l.height), vgimg.UseDPI(dpi),
		vgimg.UseBackgroundColor(color.White))
	f.draw(canvas, l)
	return encodePNG(w, canvas.Image().(*image.RGBA), dpi)
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

// pdfCanvas encodes text for vgpdf, whose fonts have the characters of Windows-1252.
type pdfCanvas struct{ *vgpdf.Canvas }

var minus = strings.NewReplacer("−", "–")

// FillString implements [vg.Canvas]. A character that the font does not have becomes a question mark.
func (c pdfCanvas) FillString(f font.Face, at vg.Point, s string) {
	text, err := encoding.ReplaceUnsupported(charmap.Windows1252.NewEncoder()).String(minus.Replace(s))
	if err != nil {
		text = "?" // text is valid UTF-8 and unsupported characters are replaced
	}
	c.Canvas.FillString(f, at, strings.ReplaceAll(text, "\x1a", "?"))
}
