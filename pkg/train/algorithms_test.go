package train

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grpo/configs"
	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/rl"
	"grpo/pkg/rundir"
)

// variants are settings that reach every branch of the update.
var variants = []struct {
	name string
	set  []string
}{
	{"default", nil},
	{"no baseline", []string{"loss_type=no_baseline"}},
	{"2026 constant", []string{"length_normalization=constant"}},
	{"masked normalize", []string{"loss_type=grpo_no_clip", "length_normalization=masked_normalize", "epochs_per_rollout_batch=2", "train_batch_size=24"}},
	{"leave one out", []string{"baseline=leave_one_out", "normalizer=none"}},
	{"batch mean, batch std", []string{"baseline=batch_mean", "normalizer=batch_std"}},
	{"hybrid", []string{"scale_rewards=batch"}},
	{"length weighted", []string{"baseline=length_weighted", "normalizer=none"}},
	{"greedy baseline", []string{"baseline=greedy", "normalizer=none"}},
	{"maxrl", []string{"normalizer=group_mean"}},
	{"reinforce++", []string{"baseline=none", "normalizer=whiten_tokens", "gamma=0.99", "beta=0.01", "kl_in=reward", "kl_estimator=k1"}},
	{"pass at k", []string{"pass_k=true"}},
	{"gdpo", []string{"reward.functions=answer,format", "reward.reward_weights=1,0.5", "multi_objective_aggregation=normalize_then_sum"}},
	{"kl in the loss", []string{"beta=0.05", "ref_model_sync_steps=2"}},
	{"kl in the reward", []string{"beta=0.05", "kl_in=reward"}},
	{"entropy bonus", []string{"entropy_coef=0.01"}},
	{"adaptive entropy", []string{"entropy_coef=0.01", "use_adaptive_entropy=true", "entropy_target=0.2"}},
	{"top entropy tokens", []string{"loss_type=grpo_clip", "top_entropy_quantile=0.3", "epochs_per_rollout_batch=2"}},
	{"overlong", []string{"mask_truncated_completions=true", "sampling_max_tokens=24"}},
	{"skip zero-variance groups", []string{"skip_flat_groups=true"}},
	{"dynamic sampling", []string{"dynamic_sampling=true", "dynamic_sampling_max_rounds=3"}},
	{"clip higher, dual clip", []string{"loss_type=vanilla", "epsilon_high=0.28", "epochs_per_rollout_batch=2"}},
	{"gspo", []string{"loss_type=gspo", "cliprange=0.003", "train_batch_size=24"}},
	{"cispo", []string{"loss_type=cispo", "epsilon_high=5", "epochs_per_rollout_batch=2"}},
	{"sapo", []string{"loss_type=sapo", "epochs_per_rollout_batch=2"}},
	{"vespo", []string{"loss_type=vespo", "epochs_per_rollout_batch=2"}},
	{"geo mean", []string{"loss_type=geo_mean", "epochs_per_rollout_batch=2"}},
	{"off-policy mask", []string{"loss_type=grpo", "off_policy_mask=true", "off_policy_mask_threshold=0.01", "epochs_per_rollout_batch=2"}},
	{"sequence sum", []string{"loss_type=grpo_clip", "importance_sampling_level=sequence_sum", "epochs_per_rollout_batch=2", "baseline=leave_one_out", "normalizer=none"}},
	{"teacher", []string{"teacher=base", "teacher_gamma=0.5"}},
	{"formulas", []string{"loss_expr=-min(ratio*A, clip(ratio, 1-eps, 1+eps)*A) + 0.05*(logp - ref)**2 - 0.01*entropy",
		"advantage_expr=(r - mean) / (std + 1e-6) - 0.01*length", "ref_model_sync_steps=2", "epochs_per_rollout_batch=2"}},
	{"ppo", []string{"algorithm.type=ppo", "loss_type=grpo_clip", "epochs_per_rollout_batch=2", "beta=0.01", "kl_in=reward", "kl_estimator=k1"}},
}

// Every variant trains, and cutting its batches into micro-batches, which may split groups, changes the
// first step by rounding only.
func TestVariantsTrainAndAccumulate(t *testing.T) {
	long(t)
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			set := append([]string{"n_grpo_steps=2", "rollout_batch_size=24", "data.val_size=10", "data.test_size=0", "data.unseen_size=0", "eval.greedy=false"}, v.set...)
			one := mustRun(t, small(set...), t.TempDir(), 2)
			if one.Result.Status != rundir.StateDone {
				t.Fatalf("status %s: %v", one.Result.Status, one.Result.Warnings)
			}
			m := mustRun(t, small(append(set, "gradient_accumulation_steps=12", "n_grpo_steps=1")...), t.TempDir(), 1).Metrics
			if m[0].Updates != one.Metrics[0].Updates {
				t.Errorf("%d updates, %d in one batch", m[0].Updates, one.Metrics[0].Updates)
			}
			for _, f := range []struct {
				name string
				a, b float64
			}{
				{"loss", m[0].Loss, one.Metrics[0].Loss}, {"gradient norm", m[0].GradNorm, one.Metrics[0].GradNorm}, {"entropy", m[0].Entropy, one.Metrics[0].Entropy},
			} {
				if !close(f.a, f.b, 1e-4) {
					t.Errorf("%s is %v in twelve micro-batches, %v in one batch", f.name, f.a, f.b)
				}
			}
		})
	}
}

// The checkpoint has all state of a variant.
func TestVariantsResumeExactly(t *testing.T) {
	long(t)
	for _, v := range variants {
		if !slices.Contains([]string{"kl in the loss", "adaptive entropy", "dynamic sampling", "ppo", "reinforce++", "formulas"}, v.name) {
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			cfg := small(append([]string{"n_grpo_steps=5"}, v.set...)...)
			resumesExactly(t, cfg, 3)
		})
	}
}

func metricsOf(t *testing.T, set ...string) []rundir.Metrics {
	t.Helper()
	return mustRun(t, small(append([]string{"n_grpo_steps=4", "data.val_size=10", "data.test_size=0", "data.unseen_size=0", "eval.greedy=false"}, set...)...), t.TempDir(), 1).Metrics
}

func TestSkippingZeroAdvantageKeepsTheGradient(t *testing.T) {
	long(t)
	a, b := metricsOf(t, "group_size=4"), metricsOf(t, "group_size=4", "skip_flat_groups=true")
	if a[0].FracRewardZeroStd == 0 {
		t.Fatal("no zero-variance group in the first step: the case tests nothing")
	}
	if !close(a[0].GradNorm, b[0].GradNorm, 1e-5) || !close(a[0].Loss, b[0].Loss, 1e-5) {
		t.Errorf("norm and loss %v, %v; without the zero-variance groups %v, %v", a[0].GradNorm, a[0].Loss, b[0].GradNorm, b[0].Loss)
	}
}

func TestDynamicSampling(t *testing.T) {
	long(t)
	plain, dynamic := metricsOf(t, "group_size=4"), metricsOf(t, "group_size=4", "dynamic_sampling=true", "dynamic_sampling_max_rounds=8")
	if plain[0].FracRewardZeroStd == 0 {
		t.Fatal("no zero-variance group without dynamic sampling: the case tests nothing")
	}
	if dynamic[0].FracRewardZeroStd != 0 || dynamic[0].SamplingRounds < 2 {
		t.Errorf("%v flat after %d rounds, want none after several", dynamic[0].FracRewardZeroStd, dynamic[0].SamplingRounds)
	}
	cfg := small("n_grpo_steps=1", "dynamic_sampling=true", "dynamic_sampling_max_rounds=2", "model.init=random", "sampling_max_tokens=4", "data.test_size=0", "data.unseen_size=0")
	if w := watched(t, cfg, t.TempDir()); !slices.ContainsFunc(w.notes, func(s string) bool { return strings.Contains(s, "equal rewards after 2 rounds") }) {
		t.Errorf("notes %q, want one of the cap", w.notes)
	}
}

// The reference policy has the initial weights: no divergence before the first update, some after
// it, and less if the reference is synced.
func TestReferencePolicy(t *testing.T) {
	long(t)
	fixed := metricsOf(t, "beta=0.001")
	following := metricsOf(t, "beta=0.001", "ref_model_sync_steps=1", "ref_model_mixup_alpha=1")
	if *fixed[0].ReferenceKL > 1e-9 || !(*fixed[3].ReferenceKL > 1e-5) {
		t.Errorf("divergence %v in the first step, %v in the fourth", *fixed[0].ReferenceKL, *fixed[3].ReferenceKL)
	}
	if *following[3].ReferenceKL > 1e-9 {
		t.Errorf("divergence %v from a reference that is the policy itself", *following[3].ReferenceKL)
	}
}

func TestAdaptiveEntropyMoves(t *testing.T) {
	long(t)
	m := metricsOf(t, "entropy_coef=0.01", "use_adaptive_entropy=true", "entropy_target=10", "entropy_coef_delta=0.02")
	if got := *m[3].EntropyCoef; math.Abs(got-0.07) > 1e-12 {
		t.Errorf("the coefficient is %v after three steps below the target, want 0.01 + 3*0.02", got)
	}
	// Of the tokens with a bonus, which have the highest entropy; the mean of all is below the target.
	m = metricsOf(t, "entropy_coef=0.1", "use_adaptive_entropy=true", "entropy_target=0.5", "entropy_coef_delta=0.02", "top_entropy_quantile=0.1")
	if got := *m[1].EntropyCoef; got != 0 || m[0].Entropy > 0.5 {
		t.Errorf("the coefficient is %v, the mean entropy %v", got, m[0].Entropy)
	}
}

// The critic learns the value of the states it sees.
func TestCriticLearns(t *testing.T) {
	long(t)
	m := metricsOf(t, "algorithm.type=ppo", "loss_type=grpo_clip", "n_grpo_steps=20", "data.train_size=0", "value_learning_rate=3e-3", "value_epochs=4", "learning_rate=0")
	if first, last := *m[0].ValueLoss, *m[19].ValueLoss; !(last < first) {
		t.Errorf("value loss %v, then %v", first, last)
	}
}

// Truncated completions are left out of the loss but count in their group's baseline.
func TestOverlongFiltering(t *testing.T) {
	long(t)
	set := []string{"sampling_max_tokens=20", "n_grpo_steps=1"}
	a, b := metricsOf(t, set...), metricsOf(t, append(set, "mask_truncated_completions=true")...)
	if a[0].FracTruncated == 0 || a[0].FracTruncated == 1 {
		t.Fatalf("%v truncated: the case tests nothing", a[0].FracTruncated)
	}
	if a[0].GradNorm == b[0].GradNorm || a[0].FracRewardZeroStd != b[0].FracRewardZeroStd {
		t.Errorf("norm %v and %v, flat %v and %v", a[0].GradNorm, b[0].GradNorm, a[0].FracRewardZeroStd, b[0].FracRewardZeroStd)
	}
}

// A step whose completions are all masked has no entropy, which is not an entropy of 0.
func TestMaskedStepHasNoEntropy(t *testing.T) {
	long(t)
	dir := t.TempDir()
	cfg := quick("sampling_max_tokens=2", "n_grpo_steps=2", "mask_truncated_completions=true",
		"entropy_coef=0.01", "use_adaptive_entropy=true", "entropy_target=0.2")
	run := mustRun(t, cfg, dir, 1)
	for _, m := range run.Metrics {
		if m.FracTruncated != 1 || !math.IsNaN(m.Entropy) || *m.EntropyCoef != cfg.Algorithm.EntropyCoef {
			t.Errorf("step %d: %+v", m.Step, m)
		}
	}
	if text := string(slurp(t, filepath.Join(dir, rundir.MetricsFile))); strings.Count(text, `"entropy":null`) != 2 {
		t.Errorf("metrics.jsonl has %s", text)
	}
	if log := string(slurp(t, filepath.Join(dir, rundir.LogFile))); !strings.Contains(log, "entropy n/a") {
		t.Errorf("run.log has %s", log)
	}
	table := strings.Split(string(run.CSV("", "")), "\n")
	column := slices.Index(strings.Split(table[0], ","), "train/entropy")
	if row := strings.Split(table[2], ","); row[column] != "" {
		t.Errorf("metrics.csv has %q", row[column])
	}
}

// Every preset trains from the default base.
func TestPresetsTrain(t *testing.T) {
	long(t)
	for _, name := range configs.Names("presets") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := []string{"n_grpo_steps=2", "rollout_batch_size=32", "train_batch_size=16", "gradient_accumulation_steps=1",
				"data.val_size=20", "data.test_size=0", "data.unseen_size=0", "eval.greedy=false"}
			if name == "minillm" {
				set = append(set, "teacher=base")
			}
			run := mustRun(t, mustLoad(t, config.LoadOptions{Path: name, Set: set}), t.TempDir(), 2)
			if run.Result.Status != rundir.StateDone || len(run.Metrics) != 2 {
				t.Errorf("status %s after %d steps: %v", run.Result.Status, len(run.Metrics), run.Result.Warnings)
			}
			if name != "minillm" && run.Result.WeightsSHA256 == open(t, run.Dir).Meta.InitHash {
				t.Error("the weights did not move")
			}
		})
	}
}

// namesOfLists are the names of the lists of the configuration, with what their runs need.
var namesOfLists = []struct {
	key   string
	names []string
	with  []string            // for all of them
	extra map[string][]string // for one
}{
	{"loss_type", rl.RecipeNames(), []string{"epochs_per_rollout_batch=2"}, map[string][]string{
		"cispo": {"epsilon_high=5"}, "gpg": {"normalizer=gpg"}}},
	{"baseline", rl.Baselines(), []string{"normalizer=none"}, nil},
	{"normalizer", config.Normalizers(), nil, nil},
	{"length_normalization", rl.Aggregations(), nil, nil},
	{"importance_sampling_level", rl.ImportanceLevels(), []string{"loss_type=grpo_clip", "epochs_per_rollout_batch=2"}, nil},
	{"kl_estimator", rl.KLEstimators(), []string{"beta=0.01"}, nil},
	{"reward.functions", gsm8k.Rewards(), nil, map[string][]string{"countdown": {"data.source=task:countdown"}}},
}

// Every name of every list of the configuration is usable in a real run.
func TestEveryNameTrains(t *testing.T) {
	long(t)
	for _, c := range namesOfLists {
		for _, name := range c.names {
			t.Run(c.key+"="+name, func(t *testing.T) {
				t.Parallel()
				set := append([]string{"n_grpo_steps=1", "rollout_batch_size=16", "sampling_max_tokens=12", "data.val_size=4", "data.test_size=0", "data.unseen_size=0", "eval.greedy=false", c.key + "=" + name}, c.with...)
				r := mustRun(t, small(append(set, c.extra[name]...)...), t.TempDir(), 2)
				if r.Result.Status != rundir.StateDone || len(r.Metrics) != 1 {
					t.Errorf("status %s: %v", r.Result.Status, r.Result.Warnings)
				}
			})
		}
	}
}
