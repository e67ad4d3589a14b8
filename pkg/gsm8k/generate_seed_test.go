package gsm8k

import (
	"crypto/sha256"
	"encoding/hex"
	"reflect"
	"slices"
	"testing"

	"grpo/internal/expect"
	"grpo/pkg/rng"
)

func TestGenerateFollowsTheSeed(t *testing.T) {
	a, opt := generate(t, defaults()), defaults()
	opt.Seed = 2
	b := generate(t, opt)
	if reflect.DeepEqual(facts(a.Unseen), facts(b.Unseen)) || slices.Equal(a.Val, b.Val) {
		t.Error("another seed gives the same problems")
	}
}

// A base model that was trained on SFT of seed 1 has valid held-out problems only while
// these splits are unchanged. After an intended change of the generator, regenerate the
// digests and the base model.
func TestGeneratePinned(t *testing.T) {
	want := map[string]string{
		"SFT": "7421de4d2ba52ec9", "Train": "9a6a1d480826f37c", "Val": "51a0a8591988f641",
		"Test": "0be918f368735173", "Unseen": "b50bd149b1332c18",
	}
	for _, sp := range generate(t, defaults()).all() {
		h := sha256.New()
		expect.OK(t, WriteJSONL(h, sp.problems))
		if got := hex.EncodeToString(h.Sum(nil)[:8]); got != want[sp.name] {
			t.Errorf("%s: digest %s, want %s", sp.name, got, want[sp.name])
		}
	}
}

// SFT may depend on the seed only, or a base model could have seen the
// validation problems of a split of another size.
func TestGenerateDealIgnoresSizesAndWeights(t *testing.T) {
	base := generate(t, defaults())
	opt := GenOptions{Seed: 1, WeightAdd: 3, WeightSub: 1, WeightMul: 0.5, ValSize: 100, TestSize: 7, UnseenSize: 9, TrainSize: 50}
	other := generate(t, opt)
	if !slices.Equal(base.SFT, other.SFT) {
		t.Error("SFT depends on sizes or weights")
	}
	for i, sp := range other.all()[1:] {
		if n := Overlap(base.SFT, sp.problems); n != 0 {
			t.Errorf("%d problems of %s are in the SFT of other options", n, sp.name)
		}
		for j, big := range base.all()[1:] {
			if n := Overlap(big.problems, sp.problems); i != j && n != 0 {
				t.Errorf("%d problems of %s are in the %s of other options", n, sp.name, big.name)
			}
		}
	}
	half := defaults()
	half.ValSize = 512
	if s := generate(t, half); !slices.Equal(s.Val, base.Val[:512]) {
		t.Error("a smaller validation set is not a prefix of a larger one")
	}
}

func newSequence(seed uint64) *rng.Sequence {
	return rng.New(seed, rng.Problems).Sequence(9, 9, 9)
}

func TestNextByWeight(t *testing.T) {
	for _, c := range []struct {
		name    string
		weights []float64
		want    []int
	}{
		{"equal", []float64{1, 1, 1}, []int{0, 1, 2, 0, 1, 2}},
		{"two to one", []float64{2, 1}, []int{0, 0, 1, 0, 0, 1}},
		{"zero is left out", []float64{0, 1, 0}, []int{1, 1, 1}},
		{"none", []float64{0, 0}, []int{-1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			counts := make([]int, len(c.weights))
			var got []int
			for range c.want {
				i := nextByWeight(counts, c.weights)
				got = append(got, i)
				if i >= 0 {
					counts[i]++
				}
			}
			slices.Sort(got[:min(3, len(got))]) // the order within a round is not the point
			slices.Sort(got[min(3, len(got)):])
			if !slices.Equal(got, c.want) {
				t.Errorf("order %v, want %v", got, c.want)
			}
		})
	}
}
