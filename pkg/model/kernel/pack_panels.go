package kernel

// packPanels packs a kb×n block whose rows are ldb apart.
func packPanels(kb, n int, b []float32, ldb int, to []float32) {
	for j0 := 0; j0 < n; j0 += nr {
		panel := to[: kb*nr : kb*nr]
		to = to[kb*nr:]
		if w := n - j0; w >= nr {
			packRows(kb, b[j0:], ldb, panel)
		} else {
			packRowsGo(kb, w, b[j0:], ldb, panel)
		}
	}
}

// packPanelsT packs a kb×n block that is stored transposed, as n rows ldb apart.
func packPanelsT(kb, n int, b []float32, ldb int, to []float32) {
	for j0 := 0; j0 < n; j0 += nr {
		panel := to[: kb*nr : kb*nr]
		to = to[kb*nr:]
		if n-j0 < nr {
			clear(panel)
		}
		for j := j0; j < min(j0+nr, n); j += nr / 2 {
			packColumns(kb, min(nr/2, n-j), b[j*ldb:], ldb, panel[j-j0:])
		}
	}
}

// packRowsGo copies w ≤ nr columns of kb rows into a panel and pads them with
// zeros.
func packRowsGo(kb, w int, b []float32, ldb int, panel []float32) {
	for p := range kb {
		row := panel[p*nr : (p+1)*nr]
		clear(row[copy(row, b[p*ldb:p*ldb+w]):])
	}
}

// packColumnsGo writes w rows of kb numbers as columns of a panel.
func packColumnsGo(kb, w int, b []float32, ldb int, panel []float32) {
	for j := range w {
		for p, v := range b[j*ldb : j*ldb+kb] {
			panel[p*nr+j] = v
		}
	}
}
