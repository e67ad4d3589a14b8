package plots

import (
	"bytes"
	"image"
	"image/color"
	"testing"

	xdraw "golang.org/x/image/draw"
	"golang.org/x/image/math/f64"
)

// Letters have the bits that gg draws with its own interpolator, inside the picture and at its edges,
// moved by whole pixels and by parts of one, and turned.
func TestLettersAreThoseOfTheInterpolator(t *testing.T) {
	mask := image.NewAlpha(image.Rect(0, 0, 9, 7))
	for i := range mask.Pix {
		mask.Pix[i] = uint8(37 * i)
	}
	matrices := []f64.Aff3{
		{1, 0, 4, 0, 1, 6}, {1, 0, -3, 0, 1, -2}, {1, 0, 27, 0, 1, 20}, {1, 0, 4.3, 0, 1, 6.8}, {0, 1, 5, -1, 0, 20},
	}
	for _, ink := range []color.Color{color.Black, color.NRGBA{213, 94, 0, 255}, color.NRGBA{0, 114, 178, 90}} {
		for _, m := range matrices {
			draw := func(by xdraw.Interpolator) []uint8 {
				img := image.NewRGBA(image.Rect(0, 0, 32, 24))
				for i := range img.Pix {
					img.Pix[i] = 255 - uint8(i%7)
				}
				by.Transform(img, m, image.NewUniform(ink), mask.Rect, xdraw.Over, &xdraw.Options{SrcMask: mask})
				return img.Pix
			}
			if !bytes.Equal(draw(letters{xdraw.BiLinear}), draw(xdraw.BiLinear)) {
				t.Errorf("%v moved by %v: other pixels", ink, m)
			}
		}
	}
}
