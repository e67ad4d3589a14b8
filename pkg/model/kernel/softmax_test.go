package kernel

import (
	"math"
	"math/rand"
	"testing"

	"pgregory.net/rapid"
)

func randTargets(r *rand.Rand, rows, n int) []int {
	ts := make([]int, rows)
	for i := range ts {
		ts[i] = r.Intn(n)
	}
	return ts
}

// softmaxCase checks one shape in both directions against the reference.
func softmaxCase(t testing.TB, r *rand.Rand, rows, n int, scale, invTemp float32, entropyGradient bool) {
	t.Helper()
	x := vector(rows*n, r.Intn(9), uniform(r, scale))
	targets := randTargets(r, rows, n)
	logp, entropy, probs := vector(rows, 1, nil), vector(rows, 2, nil), vector(rows*n, r.Intn(9), nil)
	LogSoftmaxGather(rows, n, x.x, invTemp, targets, logp.x, entropy.x, probs.x)
	wantLogp, wantEntropy, wantProbs := make([]float64, rows), make([]float64, rows), make([]float64, rows*n)
	ReferenceLogSoftmaxGather(rows, n, wide64(x.x), float64(invTemp), targets, wantLogp, wantEntropy, wantProbs)
	spread := 2e-7 * (1 + float64(scale*invTemp)) // the rounding of z enters p in relative terms
	near(t, "logp", logp.x, wantLogp, 5e-7, spread)
	near(t, "entropy", entropy.x, wantEntropy, 1e-6, 4*spread)
	near(t, "probs", probs.x, wantProbs, 1e-6+spread, 0x1p-126)

	dlogp, dlogits := vector(rows, 3, uniform(r, 1)), vector(rows*n, r.Intn(9), nil)
	var dentropy []float32
	var dentropy64 []float64
	if entropyGradient {
		dentropy = randSlice(r, rows)
		dentropy64 = wide64(dentropy)
	}
	LogSoftmaxBackward(rows, n, probs.x, logp.x, entropy.x, targets, dlogp.x, dentropy, invTemp, dlogits.x)
	want := make([]float64, rows*n)
	ReferenceLogSoftmaxBackward(rows, n, wide64(probs.x), wide64(entropy.x), targets, wide64(dlogp.x), dentropy64, float64(invTemp), want)
	near(t, "dlogits", dlogits.x, want, 1e-6, 1e-6*float64(invTemp))
	for name, g := range map[string]*guarded{"logits": x, "logp": logp, "entropy": entropy, "probs": probs, "dlogp": dlogp, "dlogits": dlogits} {
		g.check(t, name)
	}

	inPlace := append([]float32(nil), x.x...)
	logp2, entropy2 := make([]float32, rows), make([]float32, rows)
	LogSoftmaxGather(rows, n, inPlace, invTemp, targets, logp2, entropy2, inPlace)
	sameBits(t, "probs in place", inPlace, probs.x)
	sameBits(t, "logp in place", logp2, logp.x)
	sameBits(t, "entropy in place", entropy2, entropy.x)
	LogSoftmaxBackward(rows, n, inPlace, logp.x, entropy.x, targets, dlogp.x, dentropy, invTemp, inPlace)
	sameBits(t, "dlogits in place", inPlace, dlogits.x)
}

func TestLogSoftmax(t *testing.T) {
	onEachPath(t, func(t *testing.T) {
		r := rand.New(rand.NewSource(1))
		for n := 1; n <= 70; n++ {
			softmaxCase(t, r, 1+r.Intn(3), n, 3, 1, n%2 == 0)
		}
		for _, c := range []struct{ scale, invTemp float32 }{{1, 0.5}, {10, 1}, {40, 2}, {200, 1}, {1e-3, 1}, {1, 1e-3}} {
			softmaxCase(t, r, 9, 100, c.scale, c.invTemp, true)
		}
	})
}

// TestSoftmaxSampler: the sampler's log-probabilities are bit-identical to the trainer's.
func TestSoftmaxSampler(t *testing.T) {
	onEachPath(t, func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			n := rapid.IntRange(1, 120).Draw(rt, "n")
			x := rapid.SliceOfN(rapid.Float32Range(-30, 30), n, n).Draw(rt, "x")
			invTemp := rapid.Float32Range(0.1, 5).Draw(rt, "invTemp")
			target := rapid.IntRange(0, n-1).Draw(rt, "target")
			probs, probs2, logp, entropy := make([]float32, n), make([]float32, n), make([]float32, 1), make([]float32, 1)
			LogSoftmaxGather(1, n, x, invTemp, []int{target}, logp, entropy, probs)
			top, logSumExp, h := Softmax(n, x, invTemp, probs2)
			sameBits(t, "probs", probs2, probs)
			sameBits(t, "logp", []float32{LogProb(x[target], top, invTemp, logSumExp)}, logp)
			sameBits(t, "entropy", []float32{h}, entropy)
		})
	})
}

func TestLogSoftmaxEdges(t *testing.T) {
	nan := float32(math.NaN())
	onEachPath(t, func(t *testing.T) {
		for _, n := range []int{3, 16, 21, 100} {
			row := make([]float32, n)
			for i := range row {
				row[i] = -inf32
			}
			row[1], row[2] = 5, 5
			logp, entropy, probs := make([]float32, 2), make([]float32, 2), make([]float32, 2*n)
			// Masked logits: probability 0 and no part in the entropy.
			LogSoftmaxGather(2, n, append(append([]float32(nil), row...), row...), 1, []int{1, 0}, logp, entropy, probs)
			near(t, "logp", logp, []float64{-math.Ln2, math.Inf(-1)}, 1e-7, 0)
			near(t, "entropy", entropy, []float64{math.Ln2, math.Ln2}, 1e-7, 0)
			if probs[0] != 0 || probs[1] != 0.5 || probs[2] != 0.5 {
				t.Errorf("n=%d: probabilities %v of a masked row", n, probs[:3])
			}
			d := make([]float32, n)
			LogSoftmaxBackward(1, n, probs, logp, entropy, []int{1}, []float32{1}, []float32{1}, 1, d)
			for j, v := range d {
				want := [...]float32{0, 0.5, -0.5}[min(j, 2)]
				if j > 2 {
					want = 0
				}
				if math.Abs(float64(v-want)) > 1e-6 {
					t.Errorf("n=%d: dlogits[%d] = %v, want %v", n, j, v, want)
				}
			}
			// A NaN makes its row NaN, and only its row.
			for at := range n {
				two := make([]float32, 2*n)
				two[at] = nan
				LogSoftmaxGather(2, n, two, 1, []int{0, 0}, logp, entropy, probs)
				for j := range n {
					if probs[j] == probs[j] || probs[n+j] != probs[n+j] {
						t.Fatalf("n=%d, NaN at %d: probabilities %v and %v", n, at, probs[j], probs[n+j])
					}
				}
				if logp[0] == logp[0] || entropy[0] == entropy[0] || logp[1] != logp[1] {
					t.Fatalf("n=%d, NaN at %d: logp %v, entropy %v", n, at, logp, entropy)
				}
			}
		}
	})
}

func FuzzLogSoftmax(f *testing.F) {
	f.Add(uint8(1), uint8(100), int64(1), float32(5), float32(1))
	f.Fuzz(func(t *testing.T, rows, n uint8, seed int64, scale, invTemp float32) {
		if !(scale >= 0 && scale < 500 && invTemp > 1e-3 && invTemp < 10) {
			t.Skip()
		}
		softmaxCase(t, rand.New(rand.NewSource(seed)), int(rows%5), 1+int(n), scale, invTemp, seed%2 == 0)
	})
}
