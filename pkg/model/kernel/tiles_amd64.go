//go:build !noasm

package kernel

// tiles computes rows×(panels·nr) elements of C for one block of depth kb,
// cutting it into the tiles that the assembly has. Any cut gives the same bits.
func tiles(rows, panels, kb int, a matrixA, packed []float32, add bool, c []float32, ldc int) {
	if active == pathGo {
		tilesGo(rows, panels, kb, a, packed, add, c, ldc)
		return
	}
	t := newTiling(panels, kb, a, packed, add, c, ldc)
	if active == pathAVX512 {
		t.cut512(rows)
	} else {
		t.cut256(rows)
	}
}

// lastTiles computes the panel of which only w columns are in use, into the nr
// columns of c. Those that are not in use are unspecified.
func lastTiles(rows, w, kb int, a matrixA, packed, c []float32) {
	if active != pathAVX2 || w > nr/2 {
		tiles(rows, 1, kb, a, packed, false, c, nr)
		return
	}
	t := newTiling(1, kb, a, packed, false, c, nr)
	strips := rows / 12
	if strips > 0 {
		tile12x8AVX2(strips, kb, &a.data[0], t.rowStride, t.kStride, 12*t.rowStride, &packed[0], 0, &c[0], 4*nr, false)
		t.row = 12 * strips
	}
	t.cut256(rows - t.row)
}

func newTiling(panels, kb int, a matrixA, packed []float32, add bool, c []float32, ldc int) tiling {
	return tiling{
		kb: kb, panels: panels, add: add,
		a: a.data, rowStride: 4 * a.rowStride, kStride: 4 * a.kStride,
		packed: packed, c: c, ldc: ldc,
	}
}

// tiling is a block that is being cut, from the top down.
type tiling struct {
	kb, panels         int
	add                bool
	a                  []float32
	rowStride, kStride int // bytes
	packed             []float32
	c                  []float32
	ldc                int // elements
	row                int
}

// cut256 prefers tiles of 6 rows, and 4+4 or 4+3 to 6+2 or 6+1.
func (t *tiling) cut256(rows int) {
	strips := rows / 6
	if left := rows % 6; strips > 0 && (left == 1 || left == 2) {
		strips--
	}
	if strips > 0 {
		t.band(6, strips, 1, tile256)
	}
	for left := rows - 6*strips; left > 0; {
		height := min(left, 5)
		if left > 5 {
			height = 4
		}
		wide := [...]int{0, 4, 3, 2, 1, 1}[height]
		t.band(height, 1, wide, tile256)
		left -= height
	}
}

func (t *tiling) cut512(rows int) {
	if strips := rows / 12; strips > 0 {
		t.band(12, strips, 2, tile512)
	}
	for left := rows % 12; left > 0; {
		height, wide := 8, 2
		switch {
		case left < 5:
			height, wide = left, 4
		case left < 8:
			height = 6
		}
		if height > left { // 5 = 4 + 1
			height, wide = 4, 4
		}
		t.band(height, 1, wide, tile512)
		left -= height
	}
}

// band computes strips of the given height over all panels, wide panels at a
// time and the rest one by one.
func (t *tiling) band(height, strips, wide int, tile func(*tiling, int, int, int, int)) {
	j := 0
	for ; j+wide <= t.panels; j += wide {
		tile(t, height, strips, j, wide)
	}
	for ; j < t.panels; j++ {
		tile(t, height, strips, j, 1)
	}
	t.row += height * strips
}

func tile256(t *tiling, height, strips, panel, wide int) {
	a, b, c := &t.a[t.row*t.rowStride/4], &t.packed[panel*t.kb*nr], &t.c[t.row*t.ldc+panel*nr]
	stripStride, panelStride, ldc := height*t.rowStride, 4*nr*t.kb, 4*t.ldc
	switch height<<4 | wide {
	case 0x61:
		tile6x16AVX2(strips, t.kb, a, t.rowStride, t.kStride, stripStride, b, panelStride, c, ldc, t.add)
	case 0x51:
		tile5x16AVX2(strips, t.kb, a, t.rowStride, t.kStride, stripStride, b, panelStride, c, ldc, t.add)
	case 0x41:
		tile4x16AVX2(strips, t.kb, a, t.rowStride, t.kStride, stripStride, b, panelStride, c, ldc, t.add)
	case 0x32:
		tile3x32AVX2(strips, t.kb, a, t.rowStride, t.kStride, stripStride, b, panelStride, c, ldc, t.add)
	case 0x31:
		tile3x16AVX2(strips, t.kb, a, t.rowStride, t.kStride, stripStride, b, panelStride, c, ldc, t.add)
	case 0x23:
		tile2x48AVX2(strips, t.kb, a, t.rowStride, t.kStride, stripStride, b, panelStride, c, ldc, t.add)
	case 0x21:
		tile2x16AVX2(strips, t.kb, a, t.rowStride, t.kStride, stripStride, b, panelStride, c, ldc, t.add)
	case 0x14:
		tile1x64AVX2(strips, t.kb, a, t.rowStride, t.kStride, stripStride, b, panelStride, c, ldc, t.add)
	case 0x11:
		tile1x16AVX2(strips, t.kb, a, t.rowStride, t.kStride, stripStride, b, panelStride, c, ldc, t.add)
	default:
		panic("kernel: no AVX2 tile of this shape")
	}
}

func tile512(t *tiling, height, strips, panel, wide int) {
	a, b, c := &t.a[t.row*t.rowStride/4], &t.packed[panel*t.kb*nr], &t.c[t.row*t.ldc+panel*nr]
	stripStride, panelStride, ldc := height*t.rowStride, 4*nr*t.kb, 4*t.ldc
	switch height<<4 | wide {
	case 0xc2:
		tile12x32AVX512(strips, t.kb, a, t.rowStride, t.kStride, stripStride, b, panelStride, c, ldc, t.add)
	case 0xc1:
		tile12x16AVX512(strips, t.kb, a, t.rowStride, t.kStride, stripStride, b, panelStride, c, ldc, t.add)
	case 0x82:
		tile8x32AVX512(strips, t.kb, a, t.rowStride, t.kStride, stripStride, b, panelStride, c, ldc, t.add)
	case 0x81:
		tile8x16AVX512(strips, t.kb, a, t.rowStride, t.kStride, stripStride, b, panelStride, c, ldc, t.add)
	case 0x62:
		tile6x32AVX512(strips, t.kb, a, t.rowStride, t.kStride, stripStride, b, panelStride, c, ldc, t.add)
	case 0x61:
		tile6x16AVX512(strips, t.kb, a, t.rowStride, t.kStride, stripStride, b, panelStride, c, ldc, t.add)
	case 0x44:
		tile4x64AVX512(strips, t.kb, a, t.rowStride, t.kStride, stripStride, b, panelStride, c, ldc, t.add)
	case 0x41:
		tile4x16AVX512(strips, t.kb, a, t.rowStride, t.kStride, stripStride, b, panelStride, c, ldc, t.add)
	case 0x34:
		tile3x64AVX512(strips, t.kb, a, t.rowStride, t.kStride, stripStride, b, panelStride, c, ldc, t.add)
	case 0x31:
		tile3x16AVX512(strips, t.kb, a, t.rowStride, t.kStride, stripStride, b, panelStride, c, ldc, t.add)
	case 0x24:
		tile2x64AVX512(strips, t.kb, a, t.rowStride, t.kStride, stripStride, b, panelStride, c, ldc, t.add)
	case 0x21:
		tile2x16AVX512(strips, t.kb, a, t.rowStride, t.kStride, stripStride, b, panelStride, c, ldc, t.add)
	case 0x14:
		tile1x64AVX512(strips, t.kb, a, t.rowStride, t.kStride, stripStride, b, panelStride, c, ldc, t.add)
	case 0x11:
		tile1x16AVX512(strips, t.kb, a, t.rowStride, t.kStride, stripStride, b, panelStride, c, ldc, t.add)
	default:
		panic("kernel: no AVX-512 tile of this shape")
	}
}
