package rl

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"grpo/internal/expect"
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
	{"entropy bonus, sign", "loss.go", "into.Loss -= float64(w * sum)", "into.Loss += float64(w * sum)"},
	{"gradient without its weight", "loss.go", "grad[i] = float64(w * t.dLogProb)", "grad[i] = t.dLogProb"},
	{"off-policy mask for both signs", "loss.go", "p.OffPolicyMask && adv < 0 &&", "p.OffPolicyMask &&"},
	{"totals of the micro-batch", "aggregate.go", "return given, nil", "return own, nil"},
	{"masked_mean over non-empty sequences", "aggregate.go", "1 / (float64(n) * float64(total.Sequences))", "1 / (float64(n) * float64(total.NonEmpty))"},
	{"masked_normalize without the mean over sequences", "aggregate.go", "1 / (z * float64(total.Sequences))", "1 / z"},
	{"constant with a mean over sequences", "aggregate.go", "return 1 / z\n", "return 1 / (z * float64(total.Sequences))\n"},
	{"k3, sign of the gradient", "kl.go", "return k3(d), 1 - elementary.Exp(-d)", "return k3(d), elementary.Exp(-d) - 1"},
	{"k3 upside down", "kl.go", "elementary.Expm1(-d) + d", "elementary.Expm1(d) - d"},
	{"KL term without beta", "kl.go", "t.value += float64(p.Beta * kl)", "t.value += kl"},
	{"bias correction, gradient through the ratio left out", "kl.go", "t.dLogRatio += float64(p.Beta * kl)", ""},
	{"mask dropped in masked mean", "shape.go", "if mask[at] {", "if true {"},
	{"masked normalize by the count", "shape.go", "sum[i] /= z", "sum[i] /= z + 1"},
	{"mask dropped in whitening", "tokens.go", "in[i] = math.NaN(); mask[i]", "in[i] = math.NaN(); true"},
	{"gae, next value left out", "ppo.go", "float64(gamma*nextV) - values[i]", "0 - values[i]"},
	{"value loss takes the smaller side", "ppo.go", "e*e > free*free", "e*e < free*free"},
	{"dpo, beta left out", "preference_loss.go", "x := float64(beta * d)\n\tswitch", "x := d\n\tswitch"},
	{"dpo, sign of the gradient", "preference_loss.go", "return -logSigmoid(x), -beta * sigmoid(-x)", "return -logSigmoid(x), beta * sigmoid(-x)"},
	{"dpo, gradient of the rejected completion", "preference_loss.go", "-product(slope, dRejected)}", "product(slope, dRejected)}"},
	{"dpo, reference left out", "preference_loss.go", "return s.logProb - s.refLogProb", "return s.logProb"},
	{"dpo, infinite slope of a vanishing loss", "preference_loss.go", "if a == 0 {\n\t\treturn 0\n\t}\n", ""},
	{"ipo not divided by the length", "preference_loss.go", "if perToken {", "if false {"},
	{"ipo, target", "preference_loss.go", "diff := d - 1/(2*beta)", "diff := d - 1/beta"},
	{"exo, labels swapped", "preference_loss.go", "product(q, logSigmoid(x)-elementary.Log1p(-e))", "product(q, logSigmoid(x)-elementary.Log(e))"},
	{"robust not rescaled", "preference_loss.go", "(float64(-(1-e)*logSigmoid(x)) + float64(e*logSigmoid(-x))) / (1 - float64(2*e))",
		"-(1-e)*logSigmoid(x) + e*logSigmoid(-x)"},
	{"discopop, gate open", "preference_loss.go", "value = -product(closed, logSigmoid(x))", "value = -product(gate, logSigmoid(x))"},
	{"nca, half left out", "preference_loss.go", "- float64(logSigmoid(-xr)/2)", "- logSigmoid(-xr)"},
	{"sppo, target of the rejected completion", "preference_loss.go", "r+1/(2*beta)", "r-1/(2*beta)"},
	{"apo_down, sign", "preference_loss.go", "sigmoid(xc) + sigmoid(-x), ", "sigmoid(-xc) + sigmoid(-x), "},
	{"aot without sorting the reference", "preference_loss.go", "ranked(policy), ranked(reference)", "ranked(policy), ranked(policy)"},
	{"aot, gradient to the wrong pair", "preference_loss.go", "out[i].dChosen, out[i].dRejected = slope, -slope", "out[k].dChosen, out[k].dRejected = slope, -slope"},
	{"aot_unpaired, gradient to the wrong pair", "preference_loss.go", "out[below[k]].dRejected", "out[i].dRejected"},
	{"smoothing, sign of the second part", "preference_loss.go", "float64(-(1-e)*logSigmoid(x)) - float64(e*logSigmoid(-x))",
		"float64(-(1-e)*logSigmoid(x)) + float64(e*logSigmoid(-x))"},
	{"log-sigmoid overflows", "preference_loss.go", "return min(x, 0) - elementary.Log1p(elementary.Exp(-math.Abs(x)))",
		"return -elementary.Log1p(elementary.Exp(-x))"},
	{"forward_kl upside down", "preference_config.go", "return -elementary.Expm1(-x), elementary.Exp(-x)",
		"return elementary.Expm1(x), elementary.Exp(x)"},
	{"js, slope", "preference_config.go", "math.Ln2 + logSigmoid(x), sigmoid(-x)", "math.Ln2 + logSigmoid(x), sigmoid(x)"},
	{"alpha, exponent not bounded", "preference_config.go", "if a*x > maxExponent {", "if false {"},
	{"rewards without beta", "preference.go", "cfg.Beta*p.chosen.logRatio()", "p.chosen.logRatio()"},
	{"loss weights ignored", "preference.go", "weight = cfg.Weights[k]", "_ = cfg.Weights[k]"},
	{"pairs of the micro-batch", "preference.go", "mean := 0.0, weight/float64(total.Pairs)", "mean := 0.0, weight/float64(len(pairs))"},
	{"sft over the micro-batch", "preference.go", "r.Loss += weight * nll / float64(total.ChosenTokens)", "r.Loss += weight * nll / float64(own)"},
	{"sft on rejected tokens", "preference.go", "if row%2 == 0 {", "if true {"},
	{"ld_alpha not in the gradient", "preference.go", "grad[i] = float64(w * slope)", "grad[i] = slope"},
	{"ld_alpha one token late", "preference.go", "if n >= shared {", "if n > shared {"},
	{"weight of wpo of the chosen completion alone", "preference.go", "confidence += excess / float64(n)", "confidence = excess / float64(n)"},
	{"weight of wpo not in the gradient", "preference.go", "mean * w * t.dChosen", "mean * t.dChosen"},
	{"mask dropped in pairs", "preference.go", "if !b.Mask[i] {", "if false {"},
	{"aot in micro-batches", "preference.go", "if cfg.NeedsBatch() && total.Pairs", "if false && total.Pairs"},
	{"reward model, sign of the margin", "rewardmodel.go", "d -= b.Margins[i]", "d += b.Margins[i]"},
	{"reward model, centering without its factor", "rewardmodel.go", "2*b.Centering*(c+r)", "b.Centering*(c+r)"},
	{"reward model, centering of the difference", "rewardmodel.go", "b.Centering*(c+r)*(c+r)", "b.Centering*(c-r)*(c-r)"},
	{"reward model, mean of the micro-batch", "rewardmodel.go", "1/float64(total)", "1/float64(n)"},
	{"pairs, a reward of 0 is right", "pairs.go", "case rewards[i] > 0:", "case rewards[i] >= 0:"},
	{"pairs, worst is the last", "pairs.go", "rewards[i] < rewards[worst]", "rewards[i] <= rewards[worst]"},
	{"pairs, unscored is worst", "pairs.go", "if math.IsNaN(rewards[i]) {", "if math.IsNaN(0) {"},
	{"pairs, a completion used again", "pairs.go", "q.Chosen == p.Chosen || q.Rejected == p.Rejected", "q.Chosen == p.Chosen"},
	{"pairs, limit ignored", "pairs.go", "if o.PerGroup > 0 && len", "if false && len"},
	{"dft with a gradient through p", "supervised.go", "grad[i] = -w / total", "grad[i] = -w * (1 + logProbs[i]) / total"},
	{"dft is nll", "supervised.go", "if loss == DFT {", "if false {"},
}

// The text that each fault replaces occurs once in its file.
func TestMutantsFit(t *testing.T) {
	for _, m := range mutants {
		src, err := os.ReadFile(m.file)
		expect.OK(t, err)
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
	expect.OK(t, err)
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			path := filepath.Join(dir, m.file)
			src, err := os.ReadFile(path)
			expect.OK(t, err)
			tmp := t.TempDir()
			overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: filepath.Join(tmp, m.file)}})
			expect.OK(t, err)
			mutant := strings.Replace(string(src), m.from, m.to, 1)
			expect.OK(t, os.WriteFile(filepath.Join(tmp, m.file), []byte(mutant), 0o600))
			expect.OK(t, os.WriteFile(filepath.Join(tmp, "overlay.json"), overlay, 0o600))
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
