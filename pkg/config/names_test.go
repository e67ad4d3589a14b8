package config_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"grpo/configs"
	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/rl"
)

// TestNames compares the lists of names with the lists of the packages that have the functions.
func TestNames(t *testing.T) {
	for _, test := range []struct {
		what          string
		names, theirs []string
	}{
		{"loss types", rl.RecipeNames(), union(rl.LossTypes(), rl.TRLLossTypes(), rl.VerlLossModes())},
	} {
		if !slices.Equal(sorted(test.names), sorted(test.theirs)) {
			t.Errorf("%s: here %v, there %v", test.what, sorted(test.names), sorted(test.theirs))
		}
	}
	for verl, want := range map[string]rl.KLEstimator{"kl": rl.K1, "mse": rl.K2} {
		if got := value(t, "beta=1 kl_estimator="+verl).KLEstimator; got != want {
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
		if a := value(t, set); a.BaseLoss() == rl.GRPOClip {
			set += " delta=7"
			o.Delta = &delta
		}
		if name == "luspo" {
			o.ImportanceSamplingLevel = "sequence"
		}
		want, err := rl.TRLLoss(o)
		if err != nil {
			t.Fatal(err)
		}
		compare(t, name, value(t, set).Loss(), want)
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
		if err != nil {
			t.Fatal(err)
		}
		compare(t, mode, value(t, "loss_type="+name+set).Loss(), want)
	}
}

// TestAdvantagesOfAssignmentAndTRL: the names mean the same baseline and normalizer in both
// packages.
func TestAdvantagesOfAssignmentAndTRL(t *testing.T) {
	for _, loss := range []string{"no_baseline", "reinforce_with_baseline", "grpo_clip"} {
		for set, std := range map[string]bool{"true": true, "false": false} {
			b, n := value(t, "loss_type="+loss+" use_std_normalization="+set).Advantages()
			if want := rl.AssignmentAdvantages(rl.LossType(loss), std, 0); b != want.Baseline || n != want.Normalizer {
				t.Errorf("%s, std %s: %s and %s, want %+v", loss, set, b, n, want)
			}
		}
	}
	for _, scale := range []string{"group", "batch", "none"} {
		want, err := rl.ScaleRewards(scale, 0)
		if b, n := value(t, "scale_rewards="+scale).Advantages(); err != nil || b != want.Baseline || n != want.Normalizer {
			t.Errorf("scale_rewards %s: %s and %s, want %+v, %v", scale, b, n, want, err)
		}
	}
}

// TestPresetsMakeLosses: every preset gives a loss and advantages that pkg/rl accepts.
func TestPresetsMakeLosses(t *testing.T) {
	for _, name := range config.Names() {
		r, err := config.Load(config.LoadOptions{Path: name})
		if err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	w, err := rl.Loss(want, b)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if g.Loss != w.Loss || !slices.Equal(g.Grad, w.Grad) || !slices.Equal(g.GradEntropy, w.GradEntropy) {
		t.Errorf("%s: loss %v from\n%+v\nwant %v from\n%+v", name, g.Loss, got, w.Loss, want)
	}
}

// value loads a configuration by --set and returns its algorithm.
func value(t *testing.T, set string) config.Algorithm {
	t.Helper()
	r, err := config.Load(config.LoadOptions{Set: strings.Fields(set)})
	if err != nil {
		t.Fatal(err)
	}
	return r.Config.Algorithm
}

func sorted(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}

func union(lists ...[]string) []string {
	return slices.Compact(sorted(slices.Concat(lists...)))
}

// TestAlgorithmsPage: docs/algorithms.md has every name and every key of the
// sections reward and algorithm.
func TestAlgorithmsPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/algorithms.md")
	if err != nil {
		t.Fatal(err)
	}
	names := slices.Concat(rl.RecipeNames(), rl.Baselines(), config.Normalizers(), rl.Aggregations(), rl.ImportanceLevels(),
		rl.KLEstimators(), gsm8k.Rewards(), rl.PreferenceLosses(), rl.Divergences(), rl.PairRules(), rl.SupervisedLosses(),
		configs.Names("presets"))
	for _, k := range config.Keys() {
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
