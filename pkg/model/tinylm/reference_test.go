package tinylm

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grpo/pkg/model"
)

func TestMixInto(t *testing.T) {
	spec := Spec{5, 3, 1}
	for _, c := range []struct {
		name               string
		alpha              float64
		ref, policy, mixed float32
	}{
		{"TRL's default 0.6", 0.6, 1, 2, 1.6},
		{"a quarter", 0.25, -4, 8, -1},
		{"0 keeps", 0, 3, 7, 3},
		{"1 copies", 1, 3, 7, 7},
		{"0 keeps beside a policy that diverged", 0, 3, float32(math.Inf(1)), 3},
		{"1 copies over a reference that is not finite", 1, float32(math.NaN()), 7, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			ref, policy := filled(t, spec, c.ref), filled(t, spec, c.policy)
			if err := model.MixInto(ref.Params, policy.Params, c.alpha); err != nil {
				t.Fatal(err)
			}
			if i := slices.IndexFunc(ref.Flat, func(v float32) bool { return v != c.mixed }); i >= 0 {
				t.Errorf("element %d is %v, want %v", i, ref.Flat[i], c.mixed)
			}
			if i := slices.IndexFunc(policy.Flat, func(v float32) bool { return v != c.policy }); i >= 0 {
				t.Errorf("the policy's element %d became %v", i, policy.Flat[i])
			}
		})
	}
	for _, alpha := range []float64{-0.1, 1.1, math.NaN()} {
		if err := model.MixInto(filled(t, spec, 1).Params, filled(t, spec, 2).Params, alpha); err == nil || !strings.Contains(err.Error(), "must be in [0, 1]") {
			t.Errorf("alpha %v: error %v", alpha, err)
		}
	}
	if err := model.MixInto(filled(t, spec, 1).Params, filled(t, Spec{5, 4, 1}, 2).Params, 0.5); err == nil || !strings.Contains(err.Error(), "shape [5 4]") {
		t.Errorf("another size: error %v", err)
	}
}

// filled has one number everywhere.
func filled(t *testing.T, s Spec, v float32) *Weights {
	p, err := NewWeights(s)
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Flat {
		p.Flat[i] = v
	}
	return p
}

// Each element is the formula's, rounded once; lies between the two that it
// mixes; and stays where they agree.
func TestMixIntoLaws(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		spec := Spec{2, 2, 1}
		alpha := rapid.Float64Range(0, 1).Draw(r, "alpha")
		draw := func(name string) *Weights {
			p := newWeights(spec, 2)
			copy(p.Flat, rapid.SliceOfN(rapid.Float32Range(-1e6, 1e6), len(p.Flat), len(p.Flat)).Draw(r, name))
			return p
		}
		ref, policy := draw("ref"), draw("policy")
		copy(policy.Flat[:10], ref.Flat[:10]) // agreed
		old := ref.Clone()
		if err := model.MixInto(ref.Params, policy.Params, alpha); err != nil {
			r.Fatal(err)
		}
		for i, got := range ref.Flat {
			a, b := old.Flat[i], policy.Flat[i]
			want := alpha*float64(b) + (1-alpha)*float64(a)
			if got != float32(want) && !near(float64(got), want, 1e-7, 0) {
				r.Fatalf("element %d: %v and %v at %v give %v, want %v", i, a, b, alpha, got, want)
			}
			if got < min(a, b) || got > max(a, b) {
				r.Fatalf("element %d: %v and %v at %v give %v", i, a, b, alpha, got)
			}
		}
	})
}
