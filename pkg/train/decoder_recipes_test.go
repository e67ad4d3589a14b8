package train

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
	"grpo/pkg/config"
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
	for _, c := range namesOfLists {
		for _, name := range c.names {
			out[c.key+"="+name] = slices.Concat([]string{c.key + "=" + name}, c.with, c.extra[name])
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
			_, got := resumesExactly(t, cfg, 1)
			for _, m := range got.Metrics {
				if m.SamplerDiff != nil && *m.SamplerDiff != 0 {
					t.Errorf("step %d: sampler and learner differ by %g", m.Step, *m.SamplerDiff)
				}
			}
		})
	}
}

// A teacher must be there and have the policy's vocabulary, whatever its network.
func TestTeachersThatDoNotFit(t *testing.T) {
	for _, tt := range []struct {
		cfg  config.Config
		want string
	}{
		{tinyDecoder(t, "teacher=base", "group_size=2"), "has another vocabulary than the policy"},
		{small("teacher=" + decodertest.Folder(t)), "has another vocabulary than the policy"},
		{small("teacher=./nowhere.safetensors"), "algorithm.teacher"},
	} {
		err := errorOf(tt.cfg, filepath.Join(t.TempDir(), "run"))
		if expect.Error(t, err, tt.want); !errors.Is(err, config.ErrConfig) {
			t.Errorf("error %v, want one of the configuration", err)
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
