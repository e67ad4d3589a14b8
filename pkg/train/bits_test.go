package train

import (
	"os"
	"testing"

	"grpo/pkg/config"
	"grpo/pkg/model/kernel"
)

// The SHA-256 of the final weights of "grpo train" and of "grpo train -c smoke". They change only if
// the arithmetic, the random streams or the order of the problems change: then checkpointFormat must
// change too.
const (
	defaultWeights = "4f2e4730d9ea10c4b0669856fdb2978b0c56b59ed680ef6d25fa8cdf77cdffee"
	smokeWeights   = "a505f1b029bad1a805d119c9cb0351034aa2ed03f94a3d128ae052f2466f91a3"
)

func TestSmokeRunKeepsItsBits(t *testing.T) {
	long(t)
	t.Parallel()
	keepsItsBits(t, "smoke", smokeWeights)
}

// TestDefaultRunKeepsItsBits takes 10 to 20 s: it needs GRPO_LONG, which CI sets.
func TestDefaultRunKeepsItsBits(t *testing.T) {
	if os.Getenv("GRPO_LONG") == "" {
		t.Skip("without GRPO_LONG")
	}
	keepsItsBits(t, "default", defaultWeights)
}

func keepsItsBits(t *testing.T, name, weights string) {
	t.Helper()
	if k := kernel.Name(); !kernel.SameBits(k, "avx2") {
		t.Skipf("the weights are pinned for the kernels avx2, avx512 and neon; this is %s, whose last bits differ", k)
	}
	r := mustRun(t, mustLoad(t, config.LoadOptions{Path: name}), t.TempDir(), 2)
	if got := r.Result.WeightsSHA256; got != weights {
		t.Errorf("weights %s, want %s", got, weights)
	}
}
