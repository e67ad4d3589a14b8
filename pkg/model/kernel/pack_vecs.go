//go:build (amd64 || arm64) && !noasm

package kernel

// packRows packs nr columns of kb ≥ 1 rows.
func packRows(kb int, b []float32, ldb int, panel []float32) {
	if active == pathGo {
		packRowsGo(kb, nr, b, ldb, panel)
		return
	}
	packRowsVecs(kb, &b[0], 4*ldb, &panel[0])
}

// packColumns packs w ≤ nr/2 rows of kb numbers as columns.
func packColumns(kb, w int, b []float32, ldb int, panel []float32) {
	if active == pathGo || w < 8 || kb < 8 {
		packColumnsGo(kb, w, b, ldb, panel)
		return
	}
	blocks := kb / 8
	packTransposeVecs(blocks, &b[0], 4*ldb, &panel[0])
	if done := 8 * blocks; done < kb {
		packColumnsGo(kb-done, w, b[done:], ldb, panel[done*nr:])
	}
}
