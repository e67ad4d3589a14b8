//go:build openblas && cgo

package openblas

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"grpo/pkg/model/kernel"
)

var shapes = []struct{ m, k, n int }{
	{256, 64, 192}, {256, 128, 384}, {4096, 64, 100}, // those of the performance table
	{192, 6144, 64}, {384, 6144, 128}, // gradients of recurrent weights
	{36, 64, 192}, {36, 128, 384}, // a step of a chunk
}

func matrix(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(math.Sin(float64(i)))
	}
	return x
}

func BenchmarkSgemm(b *testing.B) {
	for _, s := range shapes {
		for _, t := range []struct {
			name           string
			transA, transB bool
		}{{"NN", false, false}, {"NT", false, true}, {"TN", true, false}, {"TT", true, true}} {
			b.Run(fmt.Sprintf("%s_%dx%dx%d", t.name, s.m, s.k, s.n), func(b *testing.B) {
				x, y := matrix(s.m*s.k), matrix(s.k*s.n)
				ours, theirs := make([]float32, s.m*s.n), make([]float32, s.m*s.n)
				lda, ldb := s.k, s.n
				if t.transA {
					lda = s.m
				}
				if t.transB {
					ldb = s.k
				}
				us := func() { kernel.Gemm(t.transA, t.transB, s.m, s.n, s.k, x, lda, y, ldb, false, ours, s.n) }
				they := func() { sgemm(t.transA, t.transB, s.m, s.n, s.k, x, lda, y, ldb, theirs, s.n) }
				us()
				they()
				for i, v := range theirs {
					if d := math.Abs(float64(v - ours[i])); d > 1e-4*math.Sqrt(float64(s.k)) {
						b.Fatalf("element %d: %v, OpenBLAS %v", i, ours[i], v)
					}
				}
				flops := 2 * float64(s.m) * float64(s.k) * float64(s.n)
				calls := max(1, int(2e6/flops*50)) // about a millisecond
				var mine, other []float64
				for b.Loop() {
					mine, other = append(mine, seconds(us, calls)), append(other, seconds(they, calls))
				}
				g := func(t []float64) float64 { slices.Sort(t); return flops / t[len(t)/2] / 1e9 }
				b.ReportMetric(g(mine), "GFLOP/s")
				b.ReportMetric(g(other), "OpenBLAS-GFLOP/s")
				b.ReportMetric(g(mine)/g(other), "ratio")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

func seconds(f func(), calls int) float64 {
	begin := time.Now()
	for range calls {
		f()
	}
	return time.Since(begin).Seconds() / float64(calls)
}
