package main

import "fmt"

// genTilesNEON writes tiles of the shapes of AVX2 (see genTile). Their registers are chosen by hand: the
// sums first, then a panel's row of B, and what is left for A, one number at a time.
func genTilesNEON() {
	for _, s := range tileShapes[avx2] {
		genTileNEON(s[0], s[1])
	}
	n := newNEON("peak", "func(turns int)", "does turns ≥ 1 times 24 multiply-adds of vectors.")
	turns := n.arg("turns")
	const sums = 24
	for v := range sums + 1 {
		n.line("VEOR V%d.B16, V%d.B16, V%d.B16", v, v, v)
	}
	n.label("loop")
	for v := range sums {
		n.line("VFMLA V%d.S4, V%d.S4, V%d.S4", sums, sums, v)
	}
	n.line("SUBS $1, %s", turns)
	n.jump("BNE", "loop")
	n.finish()
}

func genTileNEON(height, width int) {
	n := newNEON(fmt.Sprintf("tile%dx%d", height, width),
		"func(strips, kb int, a *float32, rowStride, kStride, stripStride int, b *float32, panelStride int, "+
			"c *float32, ldc int, add bool)")
	panels := (width + 15) / 16
	per := min(width, 16) / 4 // vectors of a panel
	perRow := per * panels
	firstB := height * perRow
	firstA := firstB + per
	spare := 32 - firstA
	if spare < 1 || panels > 1 && spare < height || firstB > 30 {
		panic(n.name + " needs more registers")
	}
	strips, a, rowStride, kStride := n.arg("strips"), n.arg("a"), n.arg("rowStride"), n.arg("kStride")
	stripStride, c, ldc := n.arg("stripStride"), n.arg("c"), n.arg("ldc")
	at, k, offset := n.general(), n.general(), n.general()
	aRows, bPanels := make([]string, height), make([]string, panels)
	for i := range aRows {
		aRows[i] = n.general()
	}
	for j := range bPanels {
		bPanels[j] = n.general()
	}

	n.label("strip")
	n.line("MOVD %s, %s", n.parameter("b"), bPanels[0])
	if panels > 1 {
		n.line("MOVD %s, %s", n.parameter("panelStride"), k)
	}
	for j := 1; j < panels; j++ {
		n.line("ADD %s, %s, %s", k, bPanels[j-1], bPanels[j])
	}
	n.line("MOVD %s, %s", n.parameter("kb"), k)
	n.line("MOVD %s, %s", a, aRows[0])
	for i := 1; i < height; i++ {
		n.line("ADD %s, %s, %s", rowStride, aRows[i-1], aRows[i])
	}
	n.line("MOVD ZR, %s", offset)
	for v := range firstB {
		n.line("VEOR V%d.B16, V%d.B16, V%d.B16", v, v, v)
	}

	n.label("loop")
	loadA := func(i int) int {
		r := firstA + i%spare
		n.line("FMOVS (%s)(%s), F%d", aRows[i], offset, r)
		return r
	}
	loadB := func(j int) {
		for v := 0; v < per; v += 2 {
			n.line("FLDPQ %d(%s), (F%d, F%d)", 16*v, bPanels[j], firstB+v, firstB+v+1)
		}
		n.line("ADD $%d, %s", panelBytes, bPanels[j])
	}
	// d += x·y[0]
	multiplyAdd := func(x, y, d int) {
		n.line("WORD $0x%08x // FMLA V%d.4S, V%d.4S, V%d.S[0]",
			0x4f801000|uint32(y>>4)<<20|uint32(y&15)<<16|uint32(x)<<5|uint32(d), d, x, y)
	}
	if panels == 1 {
		loadB(0)
		for i := range height {
			x := loadA(i)
			for v := range per {
				multiplyAdd(firstB+v, x, i*perRow+v)
			}
		}
	} else {
		for i := range height {
			loadA(i)
		}
		for j := range panels {
			loadB(j)
			for i := range height {
				for v := range per {
					multiplyAdd(firstB+v, firstA+i, i*perRow+j*per+v)
				}
			}
		}
	}
	n.line("ADD %s, %s", kStride, offset)
	n.line("SUBS $1, %s", k)
	n.jump("BNE", "loop")

	n.line("MOVD %s, %s", c, at)
	n.line("MOVBU %s, %s", n.parameter("add"), k)
	n.jump(fmt.Sprintf("CBZ %s,", k), "overwrite")
	for i := range height {
		for v := 0; v < perRow; v += 2 {
			n.line("FLDPQ %d(%s), (F30, F31)", 16*v, at)
			for w := range 2 {
				sum := i*perRow + v + w
				n.line("WORD $0x%08x // FADD V%d.4S, V%d.4S, V%d.4S",
					0x4e20d400|uint32(30+w)<<16|uint32(sum)<<5|uint32(sum), sum, sum, 30+w)
			}
		}
		n.line("ADD %s, %s", ldc, at)
	}
	n.line("MOVD %s, %s", c, at)
	n.label("overwrite")
	for i := range height {
		for v := 0; v < perRow; v += 2 {
			n.line("FSTPQ (F%d, F%d), %d(%s)", i*perRow+v, i*perRow+v+1, 16*v, at)
		}
		n.line("ADD %s, %s", ldc, at)
	}
	n.line("MOVD %s, %s", at, c)
	n.line("ADD %s, %s", stripStride, a)
	n.line("SUBS $1, %s", strips)
	n.jump("BNE", "strip")
	n.finish()
}
