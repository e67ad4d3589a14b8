package plots

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgpdf"
	"gonum.org/v1/plot/vg/vgsvg"
)

// encode returns the figure as "png", "svg" or "pdf". The same figure gives the same bytes.
func (f *figure) encode(format string) ([]byte, error) {
	l := f.layout()
	width := vg.Length(f.width) * vg.Inch
	var b bytes.Buffer
	switch format {
	case "png":
		dpi := cmp.Or(f.dpi, DPI)
		canvas := vgimg.NewWith(vgimg.UseWH(width, l.height), vgimg.UseDPI(dpi))
		f.draw(canvas, l)
		return encodePNG(canvas.Image().(*image.RGBA), dpi)
	case "svg":
		canvas := vgsvg.New(width, l.height)
		canvas.SetColor(color.White) // the background that the other formats have
		canvas.Fill(vg.Rectangle{Max: vg.Point{X: width, Y: l.height}}.Path())
		canvas.SetColor(color.Black)
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
	return nil, fmt.Errorf("draw a figure as %q: the formats are png, svg and pdf", format)
}

// svgFonts: where Liberation Sans is missing, Arial and Helvetica have letters of the same widths.
const svgFonts = "font-family:'Liberation Sans',Arial,Helvetica,sans-serif;"

// encodePNG writes img with a palette and with its resolution: the standard
// encoder leaves out the pHYs chunk, and without it a document takes a figure for
// 72 or 96 dpi and shows it at twice its size.
//
// Nearly all of the thousands of colors in a figure are at the edges of letters and
// lines, so 256 of them show the same picture in less than half of the bytes.
func encodePNG(img *image.RGBA, dpi int) ([]byte, error) {
	var buf bytes.Buffer
	// The best compression within reason takes three times as long and saves a sixteenth.
	encoder := png.Encoder{CompressionLevel: png.BestSpeed}
	if err := encoder.Encode(&buf, paletted(img)); err != nil {
		return nil, fmt.Errorf("encode png: %w", err)
	}
	// The signature (8 bytes) and IHDR (4 length, 4 type, 13 data, 4 CRC) come
	// first in every PNG; pHYs has its place between IHDR and the pixels.
	const head = 8 + 4 + 4 + 13 + 4
	return slices.Insert(buf.Bytes(), head, resolutionChunk(dpi)...), nil
}

// resolutionChunk is a pHYs chunk: pixels per metre in x and y, unit metre
// (PNG specification, section 11.3.4.3).
func resolutionChunk(dpi int) []byte {
	perMetre := uint32(dpi * 10000 / 254)
	body := []byte("pHYs")
	body = binary.BigEndian.AppendUint32(body, perMetre)
	body = append(binary.BigEndian.AppendUint32(body, perMetre), 1)
	chunk := binary.BigEndian.AppendUint32(nil, uint32(len(body)-4))
	chunk = append(chunk, body...)
	return binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE(body))
}

// paletted is img with a palette of its own colors: all, or maxColors of more.
func paletted(img *image.RGBA) *image.Paletted {
	at := func(i int) color.RGBA { return color.RGBA{img.Pix[i], img.Pix[i+1], img.Pix[i+2], img.Pix[i+3]} }
	counts := map[color.RGBA]int{}
	for begin, end := 0, 0; begin < len(img.Pix); begin = end { // equal pixels in a row at once
		end = begin + equalPixels(img.Pix[begin:])
		counts[at(begin)] += (end - begin) / 4
	}
	key := func(c color.RGBA) uint32 { return binary.BigEndian.Uint32([]byte{c.R, c.G, c.B, c.A}) }
	all := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(key(a), key(b)))
	})
	palette, index := choosePalette(all, counts)
	out := image.NewPaletted(img.Bounds(), palette)
	for begin, end := 0, 0; begin < len(img.Pix); begin = end {
		end = begin + equalPixels(img.Pix[begin:])
		if nearest := index[at(begin)]; nearest != 0 { // new pixels are 0
			for i := begin / 4; i < end/4; i++ {
				out.Pix[i] = nearest
			}
		}
	}
	return out
}

// equalPixels is the number of bytes at the beginning of pix, in pixels of 4 bytes, that repeat the first pixel.
func equalPixels(pix []byte) int {
	first := uint64(binary.LittleEndian.Uint32(pix))
	n := 4
	for ; n+8 <= len(pix) && binary.LittleEndian.Uint64(pix[n:]) == first<<32|first; n += 8 {
	}
	for n+4 <= len(pix) && uint64(binary.LittleEndian.Uint32(pix[n:])) == first {
		n += 4
	}
	return n
}

// maxColors is the size of a PNG palette.
const maxColors = 256

// choosePalette takes the first of all, the most frequent color, and then repeatedly the one with the largest
// error under the palette so far: the number of its pixels times the squared distance to the nearest color of
// the palette. index has the nearest one of each color.
func choosePalette(all []color.RGBA, counts map[color.RGBA]int) (palette color.Palette, index map[color.RGBA]uint8) {
	n, nearest, distance := make([]int, len(all)), make([]uint8, len(all)), make([]int, len(all))
	for i, c := range all {
		n[i], distance[i] = counts[c], math.MaxInt
	}
	next := 0
	for len(palette) < min(maxColors, len(all)) {
		chosen, worst := all[next], -1
		for i, c := range all {
			if d := squared(c, chosen); d < distance[i] {
				distance[i], nearest[i] = d, uint8(len(palette))
			}
			if e := n[i] * distance[i]; e > worst {
				next, worst = i, e
			}
		}
		palette = append(palette, chosen)
	}
	index = map[color.RGBA]uint8{}
	for i, c := range all {
		index[c] = nearest[i]
	}
	return palette, index
}

// squared is the squared distance of two colors.
func squared(a, b color.RGBA) int {
	d := func(x, y uint8) int { v := int(x) - int(y); return v * v }
	return d(a.R, b.R) + d(a.G, b.G) + d(a.B, b.B) + d(a.A, b.A)
}
