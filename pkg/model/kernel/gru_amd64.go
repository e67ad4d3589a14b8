//go:build !noasm

package kernel

// vectorLanes is the number of float32 in a vector of the active path.
func vectorLanes() int {
	if active == pathAVX512 {
		return 16
	}
	return 8
}

func gruForwardVecs(rows, vecs, hidden int, gi, gh, bih, bhh, h, out, save []float32) {
	var s *float32
	if save != nil {
		s = &save[0]
	}
	if active == pathAVX512 {
		gruForwardAVX512(rows, vecs, hidden, &gi[0], &gh[0], &bih[0], &bhh[0], &h[0], &out[0], s)
	} else {
		gruForwardAVX2(rows, vecs, hidden, &gi[0], &gh[0], &bih[0], &bhh[0], &h[0], &out[0], s)
	}
}

func gruBackwardVecs(rows, vecs, hidden int, dout, h, save, dgh, dh []float32) {
	if active == pathAVX512 {
		gruBackwardAVX512(rows, vecs, hidden, &dout[0], &h[0], &save[0], &dgh[0], &dh[0])
	} else {
		gruBackwardAVX2(rows, vecs, hidden, &dout[0], &h[0], &save[0], &dgh[0], &dh[0])
	}
}
