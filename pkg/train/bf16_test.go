package train

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"grpo/pkg/config"
	"grpo/pkg/model/kernel"
	"grpo/pkg/rundir"
)

// A run in bf16 has the same bits when it is interrupted and continued on another number of
// threads, but not those of float32, with which it can't continue. So has one with adapters.
func TestDecoderBF16(t *testing.T) {
	long(t)
	if !kernel.HasBF16() {
		t.Skip("this processor has no AVX512_BF16")
	}
	t.Run("full", func(t *testing.T) { testDecoderBF16(t) })
	t.Run("LoRA", func(t *testing.T) { testDecoderBF16(t, "train.lora.rank=2") })
}

func testDecoderBF16(t *testing.T, set ...string) {
	cfg := tinyDecoder(t, append(set, "precision=bf16", "output.checkpoint_every_n_steps=1")...)
	want := mustRun(t, cfg, t.TempDir(), 2)
	plain := cfg
	plain.Model.Precision = "float32"
	if other := mustRun(t, plain, t.TempDir(), 2); want.Metrics[0].Entropy == other.Metrics[0].Entropy {
		t.Error("bf16 has the entropy of float32")
	}
	for _, m := range want.Metrics {
		d := m.SamplerDiff // nil if all groups had equal rewards
		if d != nil && *d != 0 || d == nil && m.Step == 1 {
			t.Errorf("step %d: the log-probabilities of sampler and learner differ by %v", m.Step, d)
		}
	}
	dir := interrupted(t, cfg, 1)
	fails(t, errorOf(plain, dir), "model.precision")
	sameBits(t, want, mustRun(t, cfg, dir, 3))
	var meta rundir.Meta
	if err := rundir.ReadJSON(filepath.Join(dir, rundir.MetaFile), &meta); err != nil || meta.Kernel != kernel.BF16Name() {
		t.Errorf("kernel %q, %v", meta.Kernel, err)
	}
}

// A TinyLM computes in float32 on the CPU.
func TestTinyLMHasNoBF16(t *testing.T) {
	c := config.Default().Model
	c.Precision, c.Init = "bf16", "./model.safetensors"
	if _, err := modelOf(t, c, config.LoRA{}).Open(1, 1, 0, nil); !errors.Is(err, config.ErrConfig) || !strings.Contains(err.Error(), "model.precision (bf16)") {
		t.Errorf("error %v", err)
	}
}
