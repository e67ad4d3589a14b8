//go:build (amd64 || arm64) && !noasm

package kernel

// tileFunc is the assembly of a tile of C: see genTile in asm.
type tileFunc func(strips, kb int, a *float32, rowStride, kStride, stripStride int, b *float32, panelStride int,
	c *float32, ldc int, add bool)

// tiles6 are tiles of at most 6 rows, by height and by width in panels of nr columns.
type tiles6 [7][5]tileFunc

func newTiling(panels, kb int, a matrixA, packed []float32, add bool, c []float32, ldc int) tiling {
	return tiling{
		kb: kb, panels: panels, add: add,
		a: a.data, rowStride: 4 * a.rowStride, kStride: 4 * a.kStride,
		strip: 4 * a.strip, packed: packed, c: c, ldc: ldc,
	}
}

// tiling is a block that is being split, from the top down.
type tiling struct {
	kb, panels         int
	add                bool
	a                  []float32
	rowStride, kStride int // bytes
	strip              int // bytes, or 0: see matrixA
	packed             []float32
	c                  []float32
	ldc                int // elements
	row                int
}

// cut6 prefers tiles of 6 rows, and 4+4 or 4+3 to 6+2 or 6+1.
func (t *tiling) cut6(rows int, tiles *tiles6) {
	strips := rows / 6
	if left := rows % 6; strips > 0 && (left == 1 || left == 2) {
		strips--
	}
	if strips > 0 {
		t.band(6, strips, 1, &tiles[6])
	}
	for left := rows - 6*strips; left > 0; {
		height := min(left, 5)
		if left > 5 {
			height = 4
		}
		wide := [...]int{0, 4, 3, 2, 1, 1}[height]
		t.band(height, 1, wide, &tiles[height])
		left -= height
	}
}

// band computes strips of the given height over all panels: wide panels at a time, the rest one by
// one.
func (t *tiling) band(height, strips, wide int, tile *[5]tileFunc) {
	a, strip := &t.a[t.row*t.rowStride/4], height*t.rowStride
	if t.strip > 0 {
		strip = t.strip
	}
	for j := 0; j < t.panels; j += wide {
		if j+wide > t.panels {
			wide = 1
		}
		tile[wide](strips, t.kb, a, t.rowStride, t.kStride, strip,
			&t.packed[j*t.kb*nr], 4*nr*t.kb, &t.c[t.row*t.ldc+j*nr], 4*t.ldc, t.add)
	}
	t.row += height * strips
}

// lastTiles6 computes a panel of which at most half is used, with a tile of 12×8 and others.
func lastTiles6(rows, kb int, a matrixA, packed, c []float32, half tileFunc, tiles *tiles6) {
	t := newTiling(1, kb, a, packed, false, c, nr)
	if strips := rows / 12; strips > 0 {
		half(strips, kb, &a.data[0], t.rowStride, t.kStride, 12*t.rowStride, &packed[0], 0, &c[0], 4*nr, false)
		t.row = 12 * strips
	}
	t.cut6(rows-t.row, tiles)
}
