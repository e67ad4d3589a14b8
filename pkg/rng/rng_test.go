package rng

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Known answers of Philox4x32-10, from the Random123 distribution (kat_vectors).
func TestPhiloxKnownAnswers(t *testing.T) {
	for _, c := range []struct {
		name   string
		x      [4]uint32
		k0, k1 uint32
		want   [4]uint32
	}{
		{"zeros", [4]uint32{}, 0, 0, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{"ones", [4]uint32{^uint32(0), ^uint32(0), ^uint32(0), ^uint32(0)}, ^uint32(0), ^uint32(0),
			[4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{"pi", [4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0,
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		if got := philox(c.x, c.k0, c.k1); got != c.want {
			t.Errorf("%s: philox = %08x, want %08x", c.name, got, c.want)
		}
	}
}

func TestStreamsDiffer(t *testing.T) {
	seen := map[float64]string{}
	for seed := range uint64(4) {
		for p := Weights; p <= Verdict; p++ {
			for i := range uint32(4) {
				for j, v := range []float64{
					New(seed, p).Float64(i, 0, 0, 9), New(seed, p).Float64(9, i+1, 0, 0),
					New(seed, p).Float64(0, 9, i+1, 0), New(seed, p).Float64(0, 0, 9, i+1)} {
					if at, ok := seen[v]; ok {
						t.Fatalf("seed %d purpose %d i %d coordinate %d draws %v, as did %s", seed, p, i, j, v, at)
					}
					seen[v] = "another place"
				}
			}
		}
	}
}

func TestFloat64IsUniform(t *testing.T) {
	const n = 200000
	s := New(7, Rollout)
	var sum, sq float64
	var bins [20]int
	for i := range uint32(n) {
		v := s.Float64(i/100, i%100, 3, i)
		if v < 0 || v >= 1 {
			t.Fatalf("draw %d = %v is outside [0, 1)", i, v)
		}
		sum += v
		sq += v * v
		bins[int(v*20)]++
	}
	mean, variance := sum/n, sq/n-sum*sum/n/n
	if math.Abs(mean-0.5) > 4/math.Sqrt(12*n) || math.Abs(variance-1.0/12) > 0.001 {
		t.Errorf("mean %v, variance %v, want 1/2 and 1/12", mean, variance)
	}
	for b, c := range bins {
		if d := math.Abs(float64(c) - n/20); d > 5*math.Sqrt(n/20) {
			t.Errorf("bin %d has %d of %d", b, c, n)
		}
	}
}

func TestSequenceIsASource(t *testing.T) {
	a := rand.New(New(1, Order).Sequence(5, 0, 0)).Perm(100)
	b := rand.New(New(1, Order).Sequence(5, 0, 0)).Perm(100)
	c := rand.New(New(1, Order).Sequence(6, 0, 0)).Perm(100)
	same, differ := true, false
	for i := range a {
		same = same && a[i] == b[i]
		differ = differ || a[i] != c[i]
	}
	if !same || !differ {
		t.Errorf("sequence repeats: %v, another place differs: %v", same, differ)
	}
}

// Each pass draws all items.
func TestEpochs(t *testing.T) {
	o := Epochs{Stream: New(1, Order), N: 7}
	for epoch := range 3 {
		seen := map[int]bool{}
		for i := range 7 {
			seen[o.At(epoch*7+i)] = true
		}
		if len(seen) != 7 {
			t.Errorf("epoch %d draws %d of 7", epoch, len(seen))
		}
	}
	first := o.At(3) // back into the first epoch: the order has no memory
	if again := (&Epochs{Stream: New(1, Order), N: 7}); again.At(3) != first {
		t.Error("the order depends on what was asked before")
	}
}
