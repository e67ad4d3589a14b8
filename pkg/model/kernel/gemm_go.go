package kernel

// tilesGo computes rows×(panels·nr) elements of C for one block of depth kb.
func tilesGo(rows, panels, kb int, a matrixA, packed []float32, add bool, c []float32, ldc int) {
	for j := range panels {
		panel := packed[j*kb*nr : (j+1)*kb*nr]
		for i := 0; i < rows; i += 2 {
			a := a.from(i)
			to := c[i*ldc+j*nr:]
			for q := 0; q < nr; q += 4 {
				if i+1 < rows {
					tile2x4(kb, a, panel[q:], add, to[q:], ldc)
				} else {
					tile1x4(kb, a, panel[q:], add, to[q:])
				}
			}
		}
	}
}

func tile2x4(kb int, a matrixA, panel []float32, add bool, c []float32, ldc int) {
	var s00, s01, s02, s03, s10, s11, s12, s13 float32
	ia, ib := 0, 0
	for range kb {
		b := panel[ib : ib+4 : ib+4]
		x, y := a.data[ia], a.data[ia+a.rowStride]
		s00 += float32(x * b[0])
		s01 += float32(x * b[1])
		s02 += float32(x * b[2])
		s03 += float32(x * b[3])
		s10 += float32(y * b[0])
		s11 += float32(y * b[1])
		s12 += float32(y * b[2])
		s13 += float32(y * b[3])
		ia += a.kStride
		ib += nr
	}
	store4(c[:4:4], add, s00, s01, s02, s03)
	store4(c[ldc:ldc+4:ldc+4], add, s10, s11, s12, s13)
}

func tile1x4(kb int, a matrixA, panel []float32, add bool, c []float32) {
	var s0, s1, s2, s3 float32
	ia, ib := 0, 0
	for range kb {
		b := panel[ib : ib+4 : ib+4]
		x := a.data[ia]
		s0 += float32(x * b[0])
		s1 += float32(x * b[1])
		s2 += float32(x * b[2])
		s3 += float32(x * b[3])
		ia += a.kStride
		ib += nr
	}
	store4(c[:4:4], add, s0, s1, s2, s3)
}

func store4(c []float32, add bool, s0, s1, s2, s3 float32) {
	if add {
		s0, s1, s2, s3 = c[0]+s0, c[1]+s1, c[2]+s2, c[3]+s3
	}
	c[0], c[1], c[2], c[3] = s0, s1, s2, s3
}
