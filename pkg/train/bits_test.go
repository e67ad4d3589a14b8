package train

import (
	"testing"

	"grpo/pkg/config"
	"grpo/pkg/model/kernel"
)

// smokeWeights is the SHA-256 of the final weights of "grpo train -c smoke". It changes only if the
// arithmetic, the random streams or the order of the problems change: then checkpointFormat must
// change too.
const smokeWeights = "a505f1b029bad1a805d119c9cb0351034aa2ed03f94a3d128ae052f2466f91a3"

func TestSmokeRunKeepsItsBits(t *testing.T) {
	long(t)
	t.Parallel()
	if k := kernel.Name(); !kernel.SameBits(k, "avx2") {
		t.Skipf("the weights are pinned for the kernels avx2 and avx512; this is %s, whose last bits differ", k)
	}
	if got := mustRun(t, mustLoad(t, config.LoadOptions{Path: "smoke"}), t.TempDir(), 2).Result.WeightsSHA256; got != smokeWeights {
		t.Errorf("weights %s, want %s", got, smokeWeights)
	}
}
