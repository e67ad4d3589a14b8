//go:build (amd64 || arm64) && !noasm

package kernel

import "sync/atomic"

func gruForward(rows, hidden int, gi, gh, bih, bhh, h, out, save []float32) {
	if active == pathGo {
		gruForwardGo(rows, hidden, gi, gh, bih, bhh, h, out, save)
		return
	}
	if bih == nil {
		bih = zeros(3 * hidden)
	}
	if bhh == nil {
		bhh = zeros(3 * hidden)
	}
	w := vectorLanes()
	if vecs := hidden / w; vecs > 0 {
		gruForwardVecs(rows, vecs, hidden, gi, gh, bih, bhh, h, out, save)
	}
	if left := hidden % w; left > 0 {
		gruForwardTail(rows, hidden, left, w, gi, gh, bih, bhh, h, out, save)
	}
}

// gruForwardTail runs the last columns of each row, fewer than a vector, in a padded cell.
func gruForwardTail(rows, hidden, left, w int, gi, gh, bih, bhh, h, out, save []float32) {
	var pgi, pgh, pbih, pbhh [3 * lanes]float32
	var ph, pout [lanes]float32
	var psave [4 * lanes]float32
	at := hidden - left
	pad(pbih[:], w, bih, hidden, at, 3)
	pad(pbhh[:], w, bhh, hidden, at, 3)
	for i := range rows {
		pad(pgi[:], w, gi[i*3*hidden:], hidden, at, 3)
		pad(pgh[:], w, gh[i*3*hidden:], hidden, at, 3)
		pad(ph[:], w, h[i*hidden:], hidden, at, 1)
		gruForwardVecs(1, 1, w, pgi[:], pgh[:], pbih[:], pbhh[:], ph[:], pout[:], psave[:])
		unpad(pout[:], w, out[i*hidden:], hidden, at, 1)
		if save != nil {
			unpad(psave[:], w, save[i*4*hidden:], hidden, at, 4)
		}
	}
}

func gruBackward(rows, hidden int, dout, h, save, dgh, dh []float32) {
	if active == pathGo {
		gruBackwardGo(rows, hidden, dout, h, save, dgh, dh)
		return
	}
	w := vectorLanes()
	if vecs := hidden / w; vecs > 0 {
		gruBackwardVecs(rows, vecs, hidden, dout, h, save, dgh, dh)
	}
	if left := hidden % w; left > 0 {
		gruBackwardTail(rows, hidden, left, w, dout, h, save, dgh, dh)
	}
}

func gruBackwardTail(rows, hidden, left, w int, dout, h, save, dgh, dh []float32) {
	var pdout, ph, pdh [lanes]float32
	var psave [4 * lanes]float32
	var pdgh [3 * lanes]float32
	at := hidden - left
	for i := range rows {
		pad(pdout[:], w, dout[i*hidden:], hidden, at, 1)
		pad(ph[:], w, h[i*hidden:], hidden, at, 1)
		pad(psave[:], w, save[i*4*hidden:], hidden, at, 4)
		gruBackwardVecs(1, 1, w, pdout[:], ph[:], psave[:], pdgh[:], pdh[:])
		unpad(psave[:], w, save[i*4*hidden:], hidden, at, 4)
		unpad(pdgh[:], w, dgh[i*3*hidden:], hidden, at, 3)
		unpad(pdh[:], w, dh[i*hidden:], hidden, at, 1)
	}
}

// pad copies the columns from at on of each gate of a row of hidden columns
// into gates of w columns.
func pad(to []float32, w int, row []float32, hidden, at, gates int) {
	for g := range gates {
		copy(to[g*w:(g+1)*w], row[g*hidden+at:(g+1)*hidden])
	}
}

// unpad is the inverse.
func unpad(from []float32, w int, row []float32, hidden, at, gates int) {
	for g := range gates {
		copy(row[g*hidden+at:(g+1)*hidden], from[g*w:(g+1)*w])
	}
}

// zeroBias is read-only: zeros for biases that are nil, grown on demand.
var zeroBias atomic.Pointer[[]float32]

func zeros(n int) []float32 {
	if z := zeroBias.Load(); z != nil && len(*z) >= n {
		return *z
	}
	z := make([]float32, n)
	zeroBias.Store(&z)
	return z
}
