package kernel

import (
	"fmt"
	"math/rand"
	"testing"
)

func BenchmarkGemm(b *testing.B) {
	for _, s := range []struct{ m, k, n int }{
		{256, 64, 192}, {256, 128, 384}, {4096, 64, 100}, {1, 64, 192}, {8, 64, 192}, {32, 64, 192}, {192, 4096, 64}, {384, 4096, 128},
	} {
		for _, mode := range modes[:3] {
			r := rand.New(rand.NewSource(1))
			x, y, c := randSlice(r, s.m*s.k), randSlice(r, s.n*s.k), make([]float32, s.m*s.n)
			lda, ldb := s.k, s.n
			if mode.transA {
				lda = s.m
			}
			if mode.transB {
				ldb = s.k
			}
			run := func(name string, f func()) {
				b.Run(fmt.Sprintf("%s/%s", name, shapeName(mode.name, s.m, s.k, s.n)), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						f()
					}
					b.ReportMetric(2*float64(s.m*s.n*s.k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
				})
			}
			run("plain", func() { Gemm(mode.transA, mode.transB, s.m, s.n, s.k, x, lda, y, ldb, false, c, s.n) })
			var packed Packed
			PackB(mode.transB, s.k, s.n, y, ldb, &packed)
			run("packed", func() { GemmPacked(mode.transA, s.m, s.n, s.k, x, lda, &packed, false, c, s.n) })
		}
	}
}
