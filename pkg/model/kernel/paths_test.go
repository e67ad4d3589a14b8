package kernel

import (
	"math/rand"
	"os"
	"testing"
)

func TestChoosePath(t *testing.T) {
	for _, c := range []struct {
		wish string
		best path
		want path
	}{
		{"", pathAVX512, pathAVX512},
		{"", pathGo, pathGo},
		{"go", pathAVX512, pathGo},
		{"avx2", pathAVX512, pathAVX2},
		{"avx2", pathAVX2, pathAVX2},
		{"avx512", pathAVX2, pathAVX2},
		{"avx512", pathGo, pathGo},
		{"sse", pathAVX2, pathAVX2},
	} {
		if got := choosePath(c.wish, c.best); got != c.want {
			t.Errorf("choosePath(%q, %v) = %v, want %v", c.wish, c.best, got, c.want)
		}
	}
	if wish := os.Getenv("GRPO_KERNEL"); Name() != choosePath(wish, bestPath()).String() {
		t.Errorf("Name() = %q with GRPO_KERNEL=%q", Name(), wish)
	}
}

// TestVectorPathsAgree: AVX2 and AVX-512 give the same bits in everything.
func TestVectorPathsAgree(t *testing.T) {
	if bestPath() < pathAVX512 {
		t.Skip("this processor has no AVX-512")
	}
	results := func(p path) (all [][]float32) {
		usePath(t, p)
		r := rand.New(rand.NewSource(1))
		for hidden := 1; hidden < 70; hidden += 3 {
			c := newCellCase(r, 3, hidden, hidden%2 == 0, 5)
			c.forward(true)
			c.backward()
			all = append(all, c.out.x, c.save.x, c.dgh.x, c.dh.x)
		}
		for n := 1; n < 120; n += 7 {
			const rows = 3
			x, targets := randSlice(r, rows*n), randTargets(r, rows, n)
			for i := range x {
				x[i] *= 20
			}
			logp, entropy, probs, d := make([]float32, rows), make([]float32, rows), make([]float32, rows*n), make([]float32, rows*n)
			LogSoftmaxGather(rows, n, x, 0.7, targets, logp, entropy, probs)
			LogSoftmaxBackward(rows, n, probs, logp, entropy, targets, logp, entropy, 0.7, d)
			all = append(all, logp, entropy, probs, d)
		}
		for m := 1; m < 40; m++ {
			p := newProduct(r, m%2 == 0, m%3 == 0, m%5 == 0, m, 1+r.Intn(150), 1+r.Intn(700), 1)
			all = append(all, p.run(t, Gemm).x)
		}
		return all
	}
	want, got := results(pathAVX2), results(pathAVX512)
	for i := range want {
		sameBits(t, "result", got[i], want[i])
	}
}
