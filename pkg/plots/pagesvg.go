package plots

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"regexp"
	"strings"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgsvg"
)

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

var textTag = regexp.MustCompile(`<text `)

// plainFont is what vgsvg writes for each text, and the style sheet says once.
var plainFont = regexp.MustCompile(`font-family:Liberation Sans;font-variant:normal;(font-weight:normal;)?(font-weight:bold;)?font-style:normal;`)

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
	data := textTag.ReplaceAllStringFunc(b.String(), func(tag string) string {
		if i++; canvas.widths[i] < long {
			return tag
		}
		return fmt.Sprintf(`%stextLength="%.1f" lengthAdjust="spacingAndGlyphs" `, tag, canvas.widths[i].Points())
	})
	data = plainFont.ReplaceAllString(data, "$2")
	data = strings.Replace(data, "<g ", "<style>"+pageStyle+"</style>\n<g ", 1)
	return PageSVG{[]byte(data), int(math.Round(width.Points())), int(math.Round(l.height.Points()))}, nil
}
