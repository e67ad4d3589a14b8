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
	"io"
	"math"
	"slices"

	"grpo/pkg/rundir"
)

// WriteFigure draws a figure into memory and then moves it to path in one atomic
// step: a failed report leaves the old figure.
func WriteFigure(path string, render func(io.Writer) error) error {
	var buf bytes.Buffer
	if err := render(&buf); err != nil {
		return err
	}
	return rundir.WriteFileAtomic(path, buf.Bytes())
}

// encodePNG writes img with a palette and with its resolution: the standard
// encoder leaves out the pHYs chunk, and without it a document takes a figure for
// 72 or 96 dpi and shows it at twice its size.
//
// Reports hold a dozen figures twice, as files and in the page. Nearly all of the
// thousands of colors in one are at the edges of letters and lines, so 256 of them
// show the same picture in less than half of the bytes and of the time.
func encodePNG(w io.Writer, img *image.RGBA, dpi int) error {
	var buf bytes.Buffer
	// The best compression within reason takes three times as long and saves a sixteenth.
	encoder := png.Encoder{CompressionLevel: png.BestSpeed}
	if err := encoder.Encode(&buf, paletted(img)); err != nil {
		return fmt.Errorf("encode png: %w", err)
	}
	// The signature (8 bytes) and IHDR (4 length, 4 type, 13 data, 4 CRC) come
	// first in every PNG; pHYs has its place between IHDR and the pixels.
	const head = 8 + 4 + 4 + 13 + 4
	if _, err := w.Write(slices.Insert(buf.Bytes(), head, resolutionChunk(dpi)...)); err != nil {
		return fmt.Errorf("write png: %w", err)
	}
	return nil
}

// resolutionChunk is a pHYs chunk: pixels per metre in x and y, unit metre
// (PNG specification, section 11.3.4.3).
func resolutionChunk(dpi int) []byte {
	perMetre := uint32(dpi * 10000 / 254)
	body := []byte("pHYs")
	body = binary.BigEndian.AppendUint32(body, perMetre)
	body = binary.BigEndian.AppendUint32(body, perMetre)
	body = append(body, 1)
	chunk := binary.BigEndian.AppendUint32(nil, uint32(len(body)-4))
	chunk = append(chunk, body...)
	return binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE(body))
}

// maxColors is the size of a PNG palette.
const maxColors = 256

// colorCount is a color of a picture, the number of its pixels, and its place in the order in
// which the picture has its colors.
type colorCount struct {
	color color.RGBA
	n, id int
}

// pixelRun is some equal pixels in a row.
type pixelRun struct{ id, n int32 }

// paletted is img with a palette of its own colors: all, or 256 of more.
func paletted(img *image.RGBA) *image.Paletted {
	all, runs := countColors(img)
	key := func(c color.RGBA) uint32 { return binary.BigEndian.Uint32([]byte{c.R, c.G, c.B, c.A}) }
	slices.SortFunc(all, func(a, b colorCount) int {
		return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(key(a.color), key(b.color)))
	})
	palette, nearest := choosePalette(all)
	index := make([]uint8, len(all))
	for i, c := range all {
		index[c.id] = nearest[i]
	}
	out := image.NewPaletted(img.Bounds(), palette)
	pixels := out.Pix
	for _, r := range runs {
		if i := index[r.id]; i != 0 {
			for j := range pixels[:r.n] {
				pixels[j] = i
			}
		}
		pixels = pixels[r.n:]
	}
	return out
}

// countColors counts the pixels of each color, and lists the runs of equal pixels.
func countColors(img *image.RGBA) (all []colorCount, runs []pixelRun) {
	at := binary.LittleEndian.Uint32
	ids := map[uint32]int{}
	runs = make([]pixelRun, 0, len(img.Pix)/64)
	for pixels := img.Pix; len(pixels) > 0; {
		c, rest := at(pixels), pixels[4:]
		for two := uint64(c)<<32 | uint64(c); len(rest) >= 8 && binary.LittleEndian.Uint64(rest) == two; {
			rest = rest[8:]
		}
		for len(rest) > 0 && at(rest) == c {
			rest = rest[4:]
		}
		n := (len(pixels) - len(rest)) / 4
		pixels = rest
		id, ok := ids[c]
		if !ok {
			id = len(all)
			ids[c] = id
			all = append(all, colorCount{color.RGBA{uint8(c), uint8(c >> 8), uint8(c >> 16), uint8(c >> 24)}, 0, id})
		}
		all[id].n += n
		runs = append(runs, pixelRun{int32(id), int32(n)})
	}
	return all, runs
}

// choosePalette takes the most frequent color, and then repeatedly the one
// with the largest error under the palette so far: their number times the squared
// distance to the nearest color of the palette. all begins with the most frequent.
// nearest has the index in the palette for each color.
func choosePalette(all []colorCount) (palette color.Palette, nearest []uint8) {
	nearest = make([]uint8, len(all))
	distance := make([]int, len(all))
	for i := range distance {
		distance[i] = math.MaxInt
	}
	next := 0
	for len(palette) < min(maxColors, len(all)) {
		chosen := all[next].color
		worst := -1
		for i, c := range all {
			if d := squared(c.color, chosen); d < distance[i] {
				distance[i], nearest[i] = d, uint8(len(palette))
			}
			if e := c.n * distance[i]; e > worst {
				next, worst = i, e
			}
		}
		palette = append(palette, chosen)
	}
	return palette, nearest
}

// squared is the squared distance of two colors.
func squared(a, b color.RGBA) int {
	d := func(x, y uint8) int { v := int(x) - int(y); return v * v }
	return d(a.R, b.R) + d(a.G, b.G) + d(a.B, b.B) + d(a.A, b.A)
}
