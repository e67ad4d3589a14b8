package plots

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/png"
	"io"

	"grpo/pkg/rundir"
)

// WriteFigure draws a figure into memory and then puts it at path in one
// atomic move, so that a failed report leaves the old figure.
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
// The palette is for the size of reports, which hold a dozen figures twice, as
// files and within their page. The thousands of colours in one are nearly all
// shades at the edges of letters and lines, so 256 well chosen ones show the same
// picture in less than half of the bytes, and in half of the time.
func encodePNG(w io.Writer, img image.Image, dpi int) error {
	var buf bytes.Buffer
	if err := png.Encode(&buf, paletted(img)); err != nil {
		return fmt.Errorf("encode png: %w", err)
	}
	// The signature (8 bytes) and IHDR (4 length, 4 type, 13 data, 4 CRC) come
	// first in every PNG; pHYs has its place between IHDR and the pixels.
	const head = 8 + 4 + 4 + 13 + 4
	data := buf.Bytes()
	for _, part := range [][]byte{data[:head], resolutionChunk(dpi), data[head:]} {
		if _, err := w.Write(part); err != nil {
			return fmt.Errorf("write png: %w", err)
		}
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
