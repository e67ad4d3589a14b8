package kernel

import (
	"fmt"
	"math/rand"
	"os"
	"testing"
	"time"
)

func measure(f func()) float64 { // min seconds per call
	best := 1e9
	n := 1
	t0 := time.Now()
	f()
	d := time.Since(t0).Seconds()
	if d < 2e-4 {
		n = int(2e-4/d) + 1
	}
	end := time.Now().Add(400 * time.Millisecond)
	for time.Now().Before(end) {
		t0 := time.Now()
		for i := 0; i < n; i++ {
			f()
		}
		d := time.Since(t0).Seconds() / float64(n)
		if d < best {
			best = d
		}
	}
	return best
}
func TestMeasure(t *testing.T) {
	if os.Getenv("MEASURE") == "" {
		t.Skip()
	}
	r := rand.New(rand.NewSource(1))
	one := func(m, k, n int, mode string) {
		a, bb, c := randSlice(r, m*k), randSlice(r, n*k), make([]float32, m*n)
		lda, ldb := k, n
		ta, tb := mode[0] == 'T', mode[1] == 'T'
		if ta {
			lda = m
		}
		if tb {
			ldb = k
		}
		fl := 2 * float64(m) * float64(n) * float64(k) / 1e9
		d := measure(func() { Gemm(ta, tb, m, n, k, a, lda, bb, ldb, false, c, n) })
		var p Packed
		PackB(tb, k, n, bb, ldb, &p)
		e := measure(func() { GemmPacked(ta, m, n, k, a, lda, &p, false, c, n) })
		pk := measure(func() { PackB(tb, k, n, bb, ldb, &p) })
		fmt.Printf("%s m%d_k%d_n%d  %.1f  packed %.1f  pack %.2f ns/el\n", mode, m, k, n, fl/d, fl/e, pk*1e9/float64(k*n))
	}
	for _, s := range [][3]int{{256, 64, 192}, {256, 128, 384}, {4096, 64, 100}, {4096, 64, 192}, {1, 64, 192}, {8, 64, 192}, {32, 64, 192}, {32, 128, 384}} {
		one(s[0], s[1], s[2], "NT")
		one(s[0], s[1], s[2], "NN")
	}
	for _, s := range [][3]int{{192, 4096, 64}, {100, 4096, 64}, {384, 4096, 128}, {64, 256, 192}, {128, 256, 384}, {192, 20000, 64}} {
		one(s[0], s[1], s[2], "TN")
	}
}
