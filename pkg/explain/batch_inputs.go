package explain

import (
	"fmt"
	"math"

	"grpo/pkg/rl"
)

// tokenInputs are the matrices that the cases of a file share.
type tokenInputs struct {
	shape                           rl.Shape
	mask                            []bool
	logps, old, ref, entropies, adv []float64 // nil where missing
}

// readInputs reads "inputs"; the root keeps the error.
func readInputs(root *fields) *tokenInputs {
	in := &tokenInputs{shape: rl.Shape{B: 1, T: 1}} // never empty, also after an error
	n, ok := root.must("inputs")
	if !ok {
		return in
	}
	f := n.fields()
	// Fields that the reference data has and no loss needs.
	f.ignore("lens", "rewards", "num_generations", "token_level_rewards", "index")
	in.readMask(f)
	for _, x := range []struct {
		name string
		have int
	}{{"B", in.shape.B}, {"T", in.shape.T}} {
		if v := f.integer(x.name, x.have, 1, maxNumbers); f.err == nil && v != x.have {
			f.fail(f.child(x.name, nil).errorf("%d, but the mask is of shape %v", v, in.shape))
		}
	}
	in.logps = in.tokens(f, "per_token_logps", true)
	in.old = in.tokens(f, "old_per_token_logps", false)
	in.ref = in.tokens(f, "ref_per_token_logps", false)
	in.entropies = in.tokens(f, "entropies", false)
	in.advantages(f)
	if err := f.done(); err != nil {
		root.fail(err)
	}
	return in
}

// readMask reads "mask" and takes the shape from it.
func (in *tokenInputs) readMask(f *fields) {
	if m, ok := f.must("mask"); ok {
		x, r, c, err := m.matrix(false)
		switch {
		case err != nil:
			f.fail(err)
		case r == 0 || c == 0:
			f.fail(m.errorf("no tokens: shape (%d, %d)", r, c))
		default:
			in.shape = rl.Shape{B: r, T: c}
			in.mask = make([]bool, len(x))
			for i, v := range x {
				if v != 0 && v != 1 {
					f.fail(m.cell(i, c).errorf("%v; a mask is 0 or 1", v))
				}
				in.mask[i] = v != 0
			}
		}
	}
}

// tokens reads a matrix of the mask's shape; null may stand where the mask is 0.
func (in *tokenInputs) tokens(f *fields, name string, needed bool) []float64 {
	n, ok := f.get(name)
	if f.err != nil {
		return nil
	}
	if !ok {
		if needed {
			f.fail(n.errorf("missing"))
		}
		return nil
	}
	x, r, c, err := n.matrix(true)
	if err == nil && (rl.Shape{B: r, T: c}) != in.shape {
		err = n.errorf("shape (%d, %d), but the mask is of shape %v", r, c, in.shape)
	}
	if err != nil {
		f.fail(err)
		return nil
	}
	for i, v := range x {
		if in.mask[i] && math.IsNaN(v) {
			f.fail(n.cell(i, c).errorf("null where the mask is 1"))
		}
	}
	return x
}

// advantages reads one advantage for each sequence, or one for each token.
func (in *tokenInputs) advantages(f *fields) {
	n, ok := f.must("advantages")
	if !ok || f.err != nil {
		return
	}
	if n.nested() {
		in.adv = in.tokens(f, "advantages", true)
		return
	}
	x, err := n.numbers(false)
	if err == nil && len(x) != in.shape.B {
		err = n.errorf("%d numbers; there are %d sequences", len(x), in.shape.B)
	}
	if err != nil {
		f.fail(err)
	}
	in.adv = x
}

// suit says whether the inputs have what a case needs.
func (in *tokenInputs) suit(r lossRequest) error {
	for _, x := range []struct {
		needed bool
		have   []float64
		name   string
		why    string
	}{
		{r.cfg.Beta != 0, in.ref, "ref_per_token_logps", fmt.Sprintf("beta is %v", r.cfg.Beta)},
		{r.cfg.EntropyCoef != 0, in.entropies, "entropies", fmt.Sprintf("entropy_coef is %v", r.cfg.EntropyCoef)},
		{r.quantile < 1, in.entropies, "entropies", fmt.Sprintf("top_entropy_quantile is %v", r.quantile)},
	} {
		if x.needed && x.have == nil && in.logps != nil {
			return r.at.errorf("%s, but inputs.%s is missing", x.why, x.name)
		}
	}
	return nil
}
