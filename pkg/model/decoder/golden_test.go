package decoder

import (
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
	"grpo/internal/golden"
	"grpo/pkg/model/fused"
	"grpo/pkg/model/hf"
	"grpo/pkg/model/kernel"
)

// goldenCase is a checkpoint of the reference data with what transformers computed.
type goldenCase struct{ decodertest.Case }

func goldenFolders(t *testing.T, f func(t *testing.T, net *Network, c *goldenCase)) {
	decodertest.Folders(t, func(t *testing.T, checkpoint *hf.Checkpoint, c *decodertest.Case) {
		net, err := Load(checkpoint)
		expect.OK(t, err)
		f(t, net, &goldenCase{*c})
	})
}

// sequences are the two sequences of a case as roots, and the rows and targets of
// their predictions.
func (c *goldenCase) sequences() (segments []Segment, places, targets []int) {
	at := 0
	for _, ids := range c.Sequences() {
		segments = append(segments, Segment{Parent: -1, Tokens: ids})
		for i, id := range ids[1:] {
			places, targets = append(places, at+i), append(targets, int(id))
		}
		at += len(ids)
	}
	return segments, places, targets
}

// newTestGraph is a graph over segments, in memory that held something else.
func newTestGraph(t testing.TB, net, grads *Network, segments []Segment, threads int) *graph {
	t.Helper()
	tree, err := NewTree(segments)
	expect.OK(t, err)
	pool := kernel.NewPool(threads)
	t.Cleanup(pool.Close)
	mem := &arena{}
	x := mem.floats(1 << 18)
	for i := range x {
		x[i] = float32(math.NaN())
	}
	mem.Reset()
	g, err := newGraph(&cpu{pool, mem}, net, grads, tree, false)
	expect.OK(t, err)
	return g
}

// states are the network's last states over segments, (tokens, hidden).
func states(t testing.TB, net *Network, segments []Segment, threads int) []float32 {
	t.Helper()
	g := newTestGraph(t, net, nil, segments, threads)
	expect.OK(t, g.run(g.top))
	return fused.Floats(g.top.Value())
}

// gradients returns the log-probabilities and entropies of targets after places, and the
// gradient of the loss whose own gradient, with respect to these, is what loss returns.
func gradients(t testing.TB, g *graph, places, targets []int, temperature float64,
	loss func(logp, entropy []float32) (dlogp, dentropy []float32)) (logp, entropy []float32) {
	t.Helper()
	x, n := g.logProbs(places, targets, nil, temperature), len(places)
	out := g.Loss("policyLoss", x, g.ops, func(x, d []float32) (float64, error) {
		logp, entropy = slices.Clone(x[:n]), slices.Clone(x[n:])
		dlogp, dentropy := loss(logp, entropy)
		copy(d, dlogp)
		copy(d[n:], dentropy)
		return 0, nil
	})
	expect.OK(t, g.run(out))
	return logp, entropy
}

// Log-probabilities, and the gradient of every parameter for a policy-gradient and a
// clipped loss, equal those of transformers.
func TestGoldenDecoder(t *testing.T) {
	goldenFolders(t, func(t *testing.T, net *Network, c *goldenCase) {
		pool := kernel.NewPool(2)
		defer pool.Close()
		c.Check(t, New(net, Tokenizer{}, pool))
	})
}

// A tree changes no bit: its numbers are those of each sequence by itself, wherever the
// prompt is cut.
func TestGoldenTreeIsTheSequences(t *testing.T) {
	goldenFolders(t, func(t *testing.T, net *Network, c *goldenCase) {
		ids := c.InputIDs[0]
		a, b, end := ids[:4], ids[4:7], []int32{7, 3, 9}
		tree := []Segment{{Parent: -1, Tokens: a}, {Parent: 0, Tokens: b}, {1, ids[7:], true}, {1, end, true}, {0, end, false}}
		together, err := NewTree(tree)
		expect.OK(t, err)
		h, final := net.Config.Hidden, states(t, net, tree, 2)
		for s, whole := range map[int][]int32{
			2: ids, 3: append(append(append([]int32{}, a...), b...), end...), 4: append(append([]int32{}, a...), end...),
		} {
			n := len(tree[s].Tokens)
			chain := []Segment{{Parent: -1, Tokens: whole[:len(whole)-n]}, {0, whole[len(whole)-n:], tree[s].Sampled}}
			got := final[together.Start[s]*h : (together.Start[s]+n)*h]
			want := states(t, net, chain, 1)[(len(whole)-n)*h:]
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("segment %d: element %d is %v in the tree, %v alone", s, i, got[i], want[i])
				}
			}
			flat := states(t, net, []Segment{{Parent: -1, Tokens: whole}}, 1)
			for i, w := range flat[(len(whole)-n)*h:] {
				if math.Abs(float64(got[i]-w)) > 1e-5*max(1, math.Abs(float64(w))) {
					t.Fatalf("segment %d: element %d is %v, in one piece %v", s, i, got[i], w)
				}
			}
		}
	})
}

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
	decodertest.CheckChats(t, p, "decoder/smollm2")
}

// Texts continue as with transformers, with its log-probabilities, by the base model of Gemma 3 270M and
// Qwen2.5-Coder-0.5B-Instruct.
func TestGoldenGGUF(t *testing.T) {
	for name, of := range map[string][2]string{
		"Gemma 3 270M":                {"GRPO_GEMMA3", "decoder3/gemma3-270m"},
		"Qwen2.5-Coder-0.5B-Instruct": {"GRPO_QWEN05B", "decoder3/qwen2.5-coder-0.5b"},
	} {
		t.Run(name, func(t *testing.T) {
			pool := kernel.NewPool(2)
			defer pool.Close()
			p, err := Open(golden.Model(t, of[0], name), false, pool)
			expect.OK(t, err)
			decodertest.CheckChats(t, p, of[1])
		})
	}
}

// With bf16, log-probabilities differ a little, and chats continue alike.
func TestGoldenSmolLM2BF16(t *testing.T) {
	if !kernel.HasBF16() {
		t.Skip("this processor has no AVX512_BF16")
	}
	largest, sum, n := 0.0, 0.0, 0.0
	decodertest.Chats(t, smollm2(t, true), "decoder/smollm2", func(m decodertest.Chat, logp []float64) {
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
