package train

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grpo/internal/decodertest"
	"grpo/pkg/config"
	"grpo/pkg/rl"
)

// decoderRecipes are the variants of the update and every name of its lists.
func decoderRecipes(t *testing.T) map[string][]string {
	teacher := decodertest.Seeded(t, 8, 48)
	out := map[string][]string{"lr schedule": {"lr_scheduler=cosine", "warmup_steps=1", "n_grpo_steps=3"}}
	for _, v := range variants {
		set := slices.Clone(v.set)
		for i, s := range set {
			switch {
			case s == "teacher=base":
				set[i] = "teacher=" + teacher
			case strings.HasPrefix(s, "train_batch_size="):
				set[i] = "train_batch_size=2"
			case strings.HasPrefix(s, "sampling_max_tokens="):
				set[i] = "sampling_max_tokens=4"
			}
		}
		out[v.name] = set
	}
	for _, c := range []struct {
		key   string
		names []string
		with  []string
	}{
		{"loss_type", rl.RecipeNames(), []string{"epochs_per_rollout_batch=2"}},
		{"baseline", rl.Baselines(), []string{"normalizer=none"}},
		{"normalizer", config.Normalizers(), nil},
		{"length_normalization", rl.Aggregations(), nil},
		{"importance_sampling_level", rl.ImportanceLevels(), []string{"loss_type=grpo_clip", "epochs_per_rollout_batch=2"}},
		{"kl_estimator", rl.KLEstimators(), []string{"beta=0.01"}},
	} {
		for _, name := range c.names {
			set := append([]string{c.key + "=" + name}, c.with...)
			switch c.key + "=" + name {
			case "loss_type=cispo":
				set = append(set, "epsilon_high=5")
			case "loss_type=gpg":
				set = append(set, "normalizer=gpg")
			}
			out[c.key+"="+name] = set
		}
	}
	return out
}

// Every recipe trains a decoder, and gives the same bits on one thread as on two,
// interrupted or not. Without GRPO_LONG, which CI sets, it is every fourth recipe.
func TestDecoderRecipesResumeExactly(t *testing.T) {
	long(t)
	folder := decodertest.Folder(t)
	recipes := decoderRecipes(t)
	for i, name := range slices.Sorted(maps.Keys(recipes)) {
		if i%4 != 0 && os.Getenv("GRPO_LONG") == "" {
			continue
		}
		set := recipes[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set = append([]string{"model.init=" + folder, "n_grpo_steps=2", "eval.every_n_steps=2", "eval.greedy=false",
				"val_size=2", "test_size=0", "unseen_size=0", "train_size=6", "few_shot=0"}, set...)
			cfg := tinyDecoder(t, set...)
			want := mustRun(t, cfg, t.TempDir(), 2)
			dir := interrupted(t, cfg, 1)
			got := mustRun(t, cfg, dir, 1)
			sameBits(t, want, got)
			for _, m := range got.Metrics {
				if m.SamplerDiff != nil && *m.SamplerDiff != 0 {
					t.Errorf("step %d: sampler and learner differ by %g", m.Step, *m.SamplerDiff)
				}
			}
		})
	}
}

// A teacher must have the policy's vocabulary, whatever its network.
func TestTeacherOfAnotherVocabulary(t *testing.T) {
	for name, cfg := range map[string]config.Config{
		"a TinyLM for a decoder": tinyDecoder(t, "teacher=base", "group_size=2"),
		"a decoder for a TinyLM": small("teacher=" + decodertest.Folder(t)),
	} {
		dir := filepath.Join(t.TempDir(), "run")
		_, err := Run(context.Background(), cfg, options(dir, &watch{}, 1))
		if err == nil || !errors.Is(err, config.ErrConfig) || !strings.Contains(err.Error(), "has another vocabulary than the policy") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A teacher that is the policy itself adds nothing to the advantages of the first step, up
// to the rounding of sums; another network does.
func TestDecoderTeacher(t *testing.T) {
	long(t)
	norm := func(set ...string) float64 {
		cfg := tinyDecoder(t, append([]string{"n_grpo_steps=1", "eval.every_n_steps=1"}, set...)...)
		return mustRun(t, cfg, t.TempDir(), 1).Metrics[0].GradNorm
	}
	alone, itself, other := norm(), norm("teacher="+decodertest.Folder(t)), norm("teacher="+decodertest.Seeded(t, 8, 48))
	if !close(itself, alone, 1e-5) || close(other, alone, 1e-2) {
		t.Errorf("gradient norm %v alone, %v with itself as the teacher, %v with another network", alone, itself, other)
	}
}
