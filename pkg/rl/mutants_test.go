package rl

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var runMutants = flag.Bool("mutants", false, "break the package in many small ways and check that the tests notice (minutes)")

// mutants are faults that are easy to make: a sign, a mask, a divisor, a bound.
var mutants = []struct{ name, file, from, to string }{
	{"std of a population", "moments.go", "float64(m.n-1)", "float64(m.n)"},
	{"mean not subtracted in the std", "moments.go", "d := v - first - shift", "d := v - first"},
	{"NaN counted as a reward", "moments.go", "if !math.IsNaN(v) {\n\t\t\td", "if true {\n\t\t\td"},
	{"baseline added", "advantage.go", "a[i] = v - base", "a[i] = v + base"},
	{"eps left out", "advantage.go", "a[i] /= scale + eps", "a[i] /= scale"},
	{"leave-one-out over n", "advantage.go", "max(group.n-1, 1)", "group.n"},
	{"zero-variance groups not counted", "advantage.go", "st.ZeroStdGroups++", ""},
	{"batch std in place of the group's", "advantage.go", "divide(a, m.std, opt.Eps)", "divide(a, batch.std, opt.Eps)"},
	{"reinforce, sign of the value", "term.go", "value: -adv * lp, dLogProb: -adv}", "value: adv * lp, dLogProb: -adv}"},
	{"reinforce, sign of the gradient", "term.go", "value: -adv * lp, dLogProb: -adv}", "value: -adv * lp, dLogProb: adv}"},
	{"no clip, sign of the gradient", "term.go", "dLogRatio: -r * adv}", "dLogRatio: r * adv}"},
	{"clip takes the larger side", "term.go", "if bound*adv < free*adv", "if bound*adv > free*adv"},
	{"clip bounds swapped", "term.go", "lo, hi := 1-p.Epsilon, 1+p.EpsilonHigh\n\tfree", "lo, hi := 1-p.EpsilonHigh, 1+p.Epsilon\n\tfree"},
	{"clipped token keeps its gradient", "term.go", "bound, dBound := clamp(r, lo, hi), 0.0", "bound, dBound := clamp(r, lo, hi), r"},
	{"delta ignored", "term.go", "p.Delta > 0 && r > p.Delta", "false"},
	{"dual clip for both signs", "term.go", "p.DualClip > 0 && adv < 0 &&", "p.DualClip > 0 &&"},
	{"clip fraction by the wrong sign", "term.go", "t.high = adv > 0 && free > hi", "t.high = adv < 0 && free > hi"},
	{"cispo, gradient through the ratio", "term.go", "return term{value: -w * lp, dLogProb: -w, high:", "return term{value: -w * lp, dLogProb: -w, dLogRatio: -w * lp, high:"},
	{"sapo, temperatures swapped", "term.go", "if adv > 0 {\n\t\ttau", "if adv < 0 {\n\t\ttau"},
	{"vespo, shapes swapped", "term.go", "if adv < 0 {\n\t\tk", "if adv >= 0 {\n\t\tk"},
	{"geo_mean, clip on the wrong side", "term.go", "case adv < 0 && lr < -p.Epsilon:", "case adv > 0 && lr < -p.Epsilon:"},
	{"ratio upside down", "ratio.go", "b.LogProbs[i] - b.OldLogProbs[i]", "b.OldLogProbs[i] - b.LogProbs[i]"},
	{"mask dropped in the sequence ratio", "ratio.go", "if !b.Mask[i] {", "if false {"},
	{"sequence ratio not a mean", "ratio.go", "logRatio: sum * mean", "logRatio: sum"},
	{"sequence gradient not shared", "loss.go", "grad[i] += g", ""},
	{"mask dropped in the loss", "loss.go", "if !b.Mask[i] {\n\t\t\tcontinue\n\t\t}\n\t\tlogR", "if false {\n\t\t\tcontinue\n\t\t}\n\t\tlogR"},
	{"mask dropped in the entropy bonus", "loss.go", "if in && (b.PolicyMask", "if (in || true) && (b.PolicyMask"},
	{"policy mask ignored", "loss.go", "b.PolicyMask != nil && !b.PolicyMask[i] {\n\t\t\tt = term{}", "false {\n\t\t\tt = term{}"},
	{"entropy bonus, sign", "loss.go", "into.Loss -= w * sum", "into.Loss += w * sum"},
	{"gradient without its weight", "loss.go", "grad[i] = w * t.dLogProb", "grad[i] = t.dLogProb"},
	{"off-policy mask for both signs", "loss.go", "p.OffPolicyMask && adv < 0 &&", "p.OffPolicyMask &&"},
	{"totals of the micro-batch", "aggregate.go", "return given, nil", "return own, nil"},
	{"masked_mean over non-empty sequences", "aggregate.go", "1 / (float64(n) * float64(total.Sequences))", "1 / (float64(n) * float64(total.NonEmpty))"},
	{"masked_normalize without the mean over sequences", "aggregate.go", "1 / (z * float64(total.Sequences))", "1 / z"},
	{"constant with a mean over sequences", "aggregate.go", "return 1 / z\n", "return 1 / (z * float64(total.Sequences))\n"},
	{"k3, sign of the gradient", "kl.go", "return k3(d), 1 - math.Exp(-d)", "return k3(d), math.Exp(-d) - 1"},
	{"k3 upside down", "kl.go", "math.Expm1(-d) + d", "math.Expm1(d) - d"},
	{"KL term without beta", "kl.go", "t.value += p.Beta * kl", "t.value += kl"},
	{"bias correction, gradient through the ratio left out", "kl.go", "t.dLogRatio += p.Beta * kl", ""},
	{"mask dropped in masked mean", "shape.go", "if mask[at] {", "if true {"},
	{"masked normalize by the count", "shape.go", "sum[i] /= z", "sum[i] /= z + 1"},
	{"mask dropped in whitening", "tokens.go", "in[i] = math.NaN(); mask[i]", "in[i] = math.NaN(); true"},
	{"gae, next value left out", "ppo.go", "gamma*nextV - values[i]", "0 - values[i]"},
	{"value loss takes the smaller side", "ppo.go", "e*e > free*free", "e*e < free*free"},
}

// The text that each fault replaces occurs once in its file.
func TestMutantsFit(t *testing.T) {
	for _, m := range mutants {
		src, err := os.ReadFile(m.file)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(src), m.from); n != 1 {
			t.Errorf("%s: %s has the text to replace %d times; the list is out of date", m.name, m.file, n)
		}
	}
}

// TestMutantsAreCaught applies each fault to a copy of its file and runs the
// package's tests over it: they must fail. It runs with -mutants only.
func TestMutantsAreCaught(t *testing.T) {
	if !*runMutants {
		t.Skip("takes minutes: run make mutants")
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			path := filepath.Join(dir, m.file)
			src, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			tmp := t.TempDir()
			overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: filepath.Join(tmp, m.file)}})
			if err != nil {
				t.Fatal(err)
			}
			mutant := strings.Replace(string(src), m.from, m.to, 1)
			if err := os.WriteFile(filepath.Join(tmp, m.file), []byte(mutant), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(tmp, "overlay.json"), overlay, 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command("go", "test", "-vet=off", "-failfast", "-overlay", filepath.Join(tmp, "overlay.json"),
				".", "-args", "-rapid.nofailfile").CombinedOutput()
			switch {
			case err == nil:
				t.Errorf("the tests pass with this fault")
			case strings.Contains(string(out), "[build failed]"):
				t.Errorf("the fault does not compile:\n%s", out)
			case !strings.Contains(string(out), "--- FAIL"):
				t.Errorf("no test failed, but the run did:\n%s", out)
			}
		})
	}
}
