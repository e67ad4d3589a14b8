package config

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"grpo/configs"
	"grpo/internal/expect"
	"grpo/pkg/gsm8k"
	"grpo/pkg/rl"
)

// TestNames compares the names of losses with the lists of those of each source.
func TestNames(t *testing.T) {
	want := slices.Concat(rl.LossTypes(), rl.TRLLossTypes(), rl.VerlLossModes())
	slices.Sort(want)
	if got := slices.Sorted(slices.Values(rl.RecipeNames())); !slices.Equal(got, slices.Compact(want)) {
		t.Errorf("losses %v, want %v", got, want)
	}
	for verl, want := range map[string]rl.KLEstimator{"kl": rl.K1, "mse": rl.K2} {
		if got := loadSet(t, "beta=1 kl_estimator="+verl).Config.Algorithm.KLEstimator; got != want {
			t.Errorf("verl's %s is %s, want %s", verl, got, want)
		}
	}
}

// TestTRLLosses: a loss type with TRL's name is TRL's loss.
func TestTRLLosses(t *testing.T) {
	for _, name := range rl.TRLLossTypes() {
		set := "beta=0.1 entropy_coef=0.01 use_bias_correction_kl=true off_policy_mask=true off_policy_mask_threshold=0.5 loss_type=" + name
		o := rl.TRLOptions{LossType: name, Epsilon: 0.2, Beta: 0.1, EntropyCoef: 0.01, UseBiasCorrectionKL: true, MaxCompletionLength: 64}
		threshold, high, delta := 0.5, 5.0, 7.0
		o.OffPolicyMaskThreshold, o.EpsilonHigh = &threshold, &high
		if name != "sapo" && name != "vespo" {
			set += " epsilon_high=5"
		} else {
			o.EpsilonHigh = nil
		}
		if a := loadSet(t, set).Config.Algorithm; a.BaseLoss() == rl.GRPOClip {
			set += " delta=7"
			o.Delta = &delta
		}
		if name == "luspo" {
			o.ImportanceSamplingLevel = "sequence"
		}
		want, err := rl.TRLLoss(o)
		expect.OK(t, err)
		compare(t, name, loadSet(t, set).Config.Algorithm.Loss(), want)
	}
}

// TestVerlLosses: a loss type with verl's name is verl's loss, except that cispo
// and sapo are TRL's (verl's have cispo_band and another aggregation).
func TestVerlLosses(t *testing.T) {
	for _, mode := range rl.VerlLossModes() {
		name, set := mode, ""
		switch mode {
		case "cispo":
			name = "cispo_band"
		case "sapo":
			set = " length_normalization=seq-mean-token-mean"
		}
		want, err := rl.VerlLoss(rl.VerlOptions{LossMode: mode, LossAggMode: "token-mean", ClipRatio: 0.2})
		expect.OK(t, err)
		compare(t, mode, loadSet(t, "loss_type="+name+set).Config.Algorithm.Loss(), want)
	}
}

// TestPresetsMakeLosses: every preset gives a loss and advantages that pkg/rl accepts.
func TestPresetsMakeLosses(t *testing.T) {
	for _, name := range Names() {
		r, err := Load(LoadOptions{Path: name})
		expect.OK(t, err)
		if err := r.Config.Algorithm.Loss().Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		b, n := r.Config.Algorithm.Advantages()
		if n == "whiten_tokens" {
			n = "none"
		}
		rewards := make([]float64, 2*r.Config.Rollout.GroupSize)
		opt := rl.AdvantageOptions{Baseline: rl.Baseline(b), Normalizer: rl.Normalizer(n), Eps: r.Config.Algorithm.AdvantageEps}
		if _, _, err := rl.GroupAdvantages(rewards, r.Config.Rollout.GroupSize, opt); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// compare computes the loss of one batch both ways: settings without effect may
// differ.
func compare(t *testing.T, name string, got, want rl.LossConfig) {
	t.Helper()
	b := rl.Batch{
		Shape:    rl.Shape{B: 2, T: 64},
		LogProbs: make([]float64, 128), OldLogProbs: make([]float64, 128), RefLogProbs: make([]float64, 128), Entropies: make([]float64, 128),
		Advantages: []float64{1.5, -0.5}, Mask: make([]bool, 128), PolicyMask: make([]bool, 128),
	}
	for i := range b.Mask {
		b.Mask[i], b.PolicyMask[i] = i%64 < 3+i/16, i%3 > 0
		b.LogProbs[i], b.OldLogProbs[i] = -float64(i%7)/3, -float64(i%5)/2
		b.RefLogProbs[i], b.Entropies[i] = -float64(i%4), float64(i%6)/4
	}
	g, err := rl.Loss(got, b)
	expect.OK(t, err)
	w, err := rl.Loss(want, b)
	expect.OK(t, err)
	if g.Loss != w.Loss || !slices.Equal(g.Grad, w.Grad) || !slices.Equal(g.GradEntropy, w.GradEntropy) {
		t.Errorf("%s: loss %v from\n%+v\nwant %v from\n%+v", name, g.Loss, got, w.Loss, want)
	}
}

// TestAlgorithmsPage: docs/algorithms.md has every name and every key of the
// sections reward and algorithm.
func TestAlgorithmsPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/algorithms.md")
	expect.OK(t, err)
	names := slices.Concat(rl.RecipeNames(), rl.Baselines(), Normalizers(), rl.Aggregations(), rl.ImportanceLevels(),
		rl.KLEstimators(), gsm8k.Rewards(), rl.PreferenceLosses(), rl.Divergences(), rl.PairRules(), rl.SupervisedLosses(),
		configs.Names("presets"))
	for _, k := range Keys() {
		if section, name, _ := strings.Cut(k.Path, "."); section == "algorithm" || section == "reward" {
			names = append(names, name)
		}
	}
	code := regexp.MustCompile("`[^`]*`").FindAllString(string(text), -1)
	for _, name := range names {
		word := regexp.MustCompile(`(^|[^a-z0-9_+-])` + regexp.QuoteMeta(name) + `($|[^a-z0-9_+-])`)
		if !slices.ContainsFunc(code, word.MatchString) {
			t.Errorf("docs/algorithms.md does not mention %s", name)
		}
	}
}
