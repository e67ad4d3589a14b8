package decoder

import (
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"grpo/internal/decodertest"
	"grpo/pkg/model/kernel"
)

// logProbsAndGradient are those of the sequences of a case, with the sum of the log-
// probabilities as the loss.
func logProbsAndGradient(t *testing.T, net *Network, c *goldenCase, threads int) (logp, grad []float32) {
	segments, places, targets := c.sequences()
	grads := NewNetwork(net.Config)
	g := newTestGraph(t, net, grads, segments, threads)
	logp, _ = gradients(t, g, places, targets, 1, func(logp, _ []float32) ([]float32, []float32) {
		return slices.Repeat([]float32{1}, len(logp)), make([]float32, len(logp))
	})
	return logp, grads.Params.Flat
}

// bf16 changes log-probabilities and gradients by no more than the rounding of their
// operands, and gives the same bits for any number of threads.
func TestGoldenBF16(t *testing.T) {
	goldenFolders(t, func(t *testing.T, net *Network, c *goldenCase) {
		want, wantGrad := logProbsAndGradient(t, net, c, 2)
		net.useBF16()
		got, gotGrad := logProbsAndGradient(t, net, c, 2)
		again, againGrad := logProbsAndGradient(t, net, c, 3)
		if !slices.Equal(got, again) || !slices.Equal(gotGrad, againGrad) {
			t.Error("2 and 3 threads differ")
		}
		if slices.Equal(got, want) {
			t.Error("bf16 and float32 do not differ")
		}
		largest, square, off := 0.0, 0.0, 0.0
		for i, w := range want {
			largest = max(largest, math.Abs(float64(got[i]-w)))
		}
		for i, w := range wantGrad {
			square += float64(w) * float64(w)
			off += math.Pow(float64(gotGrad[i]-w), 2)
		}
		relative := math.Sqrt(off / square)
		t.Logf("largest difference of a log-probability %.4f, of the gradient %.4f of its norm", largest, relative)
		if largest > 0.1 || !(relative < 0.04) {
			t.Errorf("log-probabilities differ by up to %v, the gradient by %v of its norm", largest, relative)
		}
	})
}

// Without the instructions, opening a model in bf16 is an error that names the fix.
func TestOpenBF16WithoutInstructions(t *testing.T) {
	if kernel.HasBF16() { // again in a process that does not use them
		again := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		again.Env = append(os.Environ(), "GRPO_KERNEL=go")
		if out, err := again.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	pool := kernel.NewPool(1)
	defer pool.Close()
	_, err := Open(decodertest.Folder(t), true, pool)
	if err == nil || !strings.Contains(err.Error(), "AVX512_BF16") || !strings.Contains(err.Error(), "model.precision=float32") {
		t.Errorf("error %v", err)
	}
	if _, err := Open(decodertest.Folder(t), false, pool); err != nil {
		t.Error(err)
	}
}
