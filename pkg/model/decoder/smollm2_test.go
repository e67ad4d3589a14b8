package decoder

import (
	"math"
	"testing"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
	"grpo/internal/golden"
	"grpo/pkg/model/kernel"
)

// smollm2 is the policy of the file of [golden.SmolLM2].
func smollm2(t testing.TB, bf16 bool) *Policy {
	t.Helper()
	pool := kernel.NewPool(2)
	t.Cleanup(pool.Close)
	p, err := Open(golden.SmolLM2(t), bf16, pool)
	expect.OK(t, err)
	return p
}

// Chats continue as with transformers, with its log-probabilities.
func TestGoldenSmolLM2(t *testing.T) {
	p := smollm2(t, false)
	if n := p.net.Params.Count(); n != 134515008 || p.Size().(Size).Parameters() != float64(n) {
		t.Errorf("%d parameters", n)
	}
	decodertest.CheckChats(t, p)
}

// With bf16, log-probabilities differ a little, and chats continue alike.
func TestGoldenSmolLM2BF16(t *testing.T) {
	if !kernel.HasBF16() {
		t.Skip("this processor has no AVX512_BF16")
	}
	largest, sum, n := 0.0, 0.0, 0.0
	decodertest.Chats(t, smollm2(t, true), func(m decodertest.Chat, logp []float64) {
		for i, w := range m.Prompt {
			d := math.Abs(logp[i] - w)
			largest, sum, n = max(largest, d), sum+d, n+1
		}
	})
	t.Logf("log-probabilities differ by up to %.3f, on average by %.4f", largest, sum/n)
	if largest > 0.2 || !(sum/n < 0.025) {
		t.Errorf("log-probabilities differ by up to %v, on average by %v", largest, sum/n)
	}
}

// The gradient of a policy-gradient step is that of transformers.
func TestGoldenSmolLM2Gradient(t *testing.T) { decodertest.CheckGradient(t, smollm2(t, false)) }
