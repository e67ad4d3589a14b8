package plots

import (
	"image"
	"image/color"

	"git.sr.ht/~sbinet/gg"
	xdraw "golang.org/x/image/draw"
	"golang.org/x/image/math/f64"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgimg"
)

// imageCanvas is a canvas of pixels. vgimg alone makes a second picture, and takes a quarter of the
// time of a figure for its text.
type imageCanvas struct {
	*vgimg.Canvas
	width, height vg.Length
	rounded       vg.Length // height rounded up to whole pixels, minus height
}

// newImageCanvas returns a white canvas and its picture.
func newImageCanvas(width, height vg.Length, dpi int) (imageCanvas, *image.RGBA) {
	pixels := func(l vg.Length) int { return int(l/vg.Inch*vg.Length(dpi) + 0.5) }
	img := image.NewRGBA(image.Rect(0, 0, pixels(width), pixels(height)))
	ctx := gg.NewContextForRGBA(img)
	ctx.SetLineCapButt()
	ctx.InvertY()
	ctx.SetInterpolator(letters{xdraw.BiLinear})
	canvas := vgimg.NewWith(vgimg.UseImageWithContext(img, ctx), vgimg.UseDPI(dpi))
	_, whole := canvas.Size()
	return imageCanvas{canvas, width, height, whole - height}, img
}

// Size implements [vg.CanvasSizer].
func (c imageCanvas) Size() (width, height vg.Length) { return c.width, c.height }

// FillString implements [vg.Canvas]. vgimg measures the place of text from the top.
func (c imageCanvas) FillString(f font.Face, at vg.Point, s string) {
	at.Y += c.rounded
	c.Canvas.FillString(f, at, s)
}

// letters draws upright letters of one color pixel by pixel, and everything else as the interpolator
// does. Where a letter is moved by whole pixels both give the same picture.
type letters struct{ xdraw.Interpolator }

// Transform implements [xdraw.Transformer].
func (l letters) Transform(dst xdraw.Image, m f64.Aff3, src image.Image, sr image.Rectangle, op xdraw.Op, o *xdraw.Options) {
	img, isRGBA := dst.(*image.RGBA)
	ink, isUniform := src.(*image.Uniform)
	to := image.Pt(int(m[2]), int(m[5]))
	moves := m == f64.Aff3{1, 0, float64(to.X), 0, 1, float64(to.Y)}
	var mask *image.Alpha
	if o != nil && o.DstMask == nil {
		mask, _ = o.SrcMask.(*image.Alpha)
	}
	if mask == nil || !isRGBA || !isUniform || !moves || op != xdraw.Over {
		l.Interpolator.Transform(dst, m, src, sr, op, o)
		return
	}
	r, g, b, a := ink.RGBA()
	area := sr.Add(to).Intersect(img.Rect)
	from := o.SrcMaskP.Sub(to)
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			cover := uint32(mask.AlphaAt(x+from.X, y+from.Y).A) * 0x101
			if cover == 0 {
				continue
			}
			rest := 0xffff - a*cover/0xffff
			// over is a part of the color over the same part of the picture.
			over := func(part uint32, under uint8) uint8 {
				return uint8((uint32(under)*0x101*rest/0xffff + part*cover/0xffff) >> 8)
			}
			c := img.RGBAAt(x, y)
			img.SetRGBA(x, y, color.RGBA{over(r, c.R), over(g, c.G), over(b, c.B), over(a, c.A)})
		}
	}
}
