//go:build !noasm

package kernel

import "golang.org/x/sys/cpu"

// tiles256, tiles512 and tilesBF16 are the tiles by height and by width in panels of nr columns.
var (
	tiles256 = tiles6{
		6: {1: tile6x16AVX2},
		5: {1: tile5x16AVX2},
		4: {1: tile4x16AVX2},
		3: {1: tile3x16AVX2, 2: tile3x32AVX2},
		2: {1: tile2x16AVX2, 3: tile2x48AVX2},
		1: {1: tile1x16AVX2, 4: tile1x64AVX2},
	}
	tiles512 = [13][5]tileFunc{
		12: {1: tile12x16AVX512, 2: tile12x32AVX512},
		8:  {1: tile8x16AVX512, 2: tile8x32AVX512},
		6:  {1: tile6x16AVX512, 2: tile6x32AVX512},
		4:  {1: tile4x16AVX512, 4: tile4x64AVX512},
		3:  {1: tile3x16AVX512, 4: tile3x64AVX512},
		2:  {1: tile2x16AVX512, 4: tile2x64AVX512},
		1:  {1: tile1x16AVX512, 4: tile1x64AVX512},
	}
	tilesBF16 = [13][5]tileFunc{
		12: {1: tile12x16BF16, 2: tile12x32BF16},
		8:  {1: tile8x16BF16, 2: tile8x32BF16},
		6:  {1: tile6x16BF16, 2: tile6x32BF16},
		4:  {1: tile4x16BF16, 4: tile4x64BF16},
		3:  {1: tile3x16BF16, 4: tile3x64BF16},
		2:  {1: tile2x16BF16, 4: tile2x64BF16},
		1:  {1: tile1x16BF16, 4: tile1x64BF16},
	}
)

// tiles computes rows×(panels·nr) elements of C for one block of depth kb, split into tiles that
// the assembly has. Any split gives the same bits.
func tiles(rows, panels, kb int, a matrixA, packed []float32, add bool, c []float32, ldc int) {
	if a.format == pairs && !HasBF16() {
		tilesPairs(rows, panels, kb, a, packed, add, c, ldc)
		return
	}
	if active == pathGo {
		tilesGo(rows, panels, kb, a, packed, add, c, ldc)
		return
	}
	t := newTiling(panels, kb, a, packed, add, c, ldc)
	switch {
	case a.format == pairs:
		t.cut512(rows, &tilesBF16)
	case active == pathAVX512:
		t.cut512(rows, &tiles512)
	default:
		t.cut6(rows, &tiles256)
	}
}

// lastTiles computes the panel of which only w columns are used, into the nr columns of c. Unused
// columns are unspecified.
func lastTiles(rows, w, kb int, a matrixA, packed, c []float32) {
	if active != pathAVX2 || w > nr/2 || a.format == pairs {
		tiles(rows, 1, kb, a, packed, false, c, nr)
		return
	}
	lastTiles6(rows, kb, a, packed, c, tile12x8AVX2, &tiles256)
}

func (t *tiling) cut512(rows int, tiles *[13][5]tileFunc) {
	if strips := rows / 12; strips > 0 {
		t.band(12, strips, 2, &tiles[12])
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
		t.band(height, 1, wide, &tiles[height])
		left -= height
	}
}

func hasBF16() bool { return cpu.X86.HasAVX512BF16 }

// roundRow rounds x to ⌈len(x)/2⌉ pairs of neighbours.
func roundRow(x, to []float32) {
	done := 0
	if vecs := len(x) / 32; vecs > 0 && HasBF16() {
		roundBF16(vecs, &x[0], &to[0])
		done = 16 * vecs
	}
	roundRowGo(x[2*done:], to[done:])
}

// pairRowsVecs rounds and interleaves 2·n rows in whole vectors and returns how many columns it did.
func pairRowsVecs(n, columns int, x []float32, ld int, to []float32, ldt int) (done int) {
	vecs := columns / 16
	if n == 0 || vecs == 0 || !HasBF16() {
		return 0
	}
	pairRowsBF16(n, vecs, &x[0], 4*ld, &to[0], 4*ldt)
	return 16 * vecs
}
