package plots

import (
	"cmp"
	"image"
	"image/color"
	"image/draw"
	"slices"
)

// maxColours is the size of a PNG palette.
const maxColours = 256

// shade is a colour of a picture and how many pixels have it.
type shade struct {
	color color.RGBA
	n     int
}

// paletted is img with the colours of its palette: each as it is where there
// are at most 256.
func paletted(img image.Image) *image.Paletted {
	b := img.Bounds()
	rgba, ok := img.(*image.RGBA)
	if !ok {
		rgba = image.NewRGBA(b)
		draw.Draw(rgba, b, img, b.Min, draw.Src)
	}
	shades := countShades(rgba)
	chosen := choosePalette(shades)
	palette := make(color.Palette, len(chosen))
	for i, s := range chosen {
		palette[i] = s.color
	}
	index := make(map[color.RGBA]uint8, len(shades))
	for _, s := range shades {
		index[s.color] = uint8(palette.Index(s.color))
	}
	out := image.NewPaletted(b, palette)
	var last color.RGBA
	var lastIndex uint8
	known := false
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			if c := rgba.RGBAAt(x, y); !known || c != last {
				last, lastIndex, known = c, index[c], true
			}
			out.Pix[out.PixOffset(x, y)] = lastIndex
		}
	}
	return out
}

// countShades lists the colours of img, the commonest first.
func countShades(img *image.RGBA) []shade {
	count := map[color.RGBA]int{}
	var last color.RGBA
	run := 0
	b := img.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			c := img.RGBAAt(x, y)
			if c != last && run > 0 {
				count[last] += run
				run = 0
			}
			last = c
			run++
		}
	}
	count[last] += run
	shades := make([]shade, 0, len(count))
	for c, n := range count {
		shades = append(shades, shade{c, n})
	}
	slices.SortFunc(shades, func(a, b shade) int {
		return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(key(a.color), key(b.color)))
	})
	return shades
}

func key(c color.RGBA) uint32 {
	return uint32(c.R)<<24 | uint32(c.G)<<16 | uint32(c.B)<<8 | uint32(c.A)
}

// choosePalette takes the commonest colour, and then, again and again, the one
// whose pixels would be changed most by the palette so far: their number times
// the squared distance to the nearest colour that is taken.
func choosePalette(shades []shade) []shade {
	if len(shades) <= maxColours {
		return shades
	}
	chosen := shades[:1:1]
	distance := make([]int, len(shades))
	for i, s := range shades {
		distance[i] = squared(s.color, chosen[0].color)
	}
	for len(chosen) < maxColours {
		worst := 0
		for i := range shades {
			if shades[i].n*distance[i] > shades[worst].n*distance[worst] {
				worst = i
			}
		}
		chosen = append(chosen, shades[worst])
		for i, s := range shades {
			distance[i] = min(distance[i], squared(s.color, shades[worst].color))
		}
	}
	return chosen
}

func squared(a, b color.RGBA) int {
	d := func(x, y uint8) int { v := int(x) - int(y); return v * v }
	return d(a.R, b.R) + d(a.G, b.G) + d(a.B, b.B) + d(a.A, b.A)
}
