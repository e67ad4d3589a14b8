//go:build withcuda && linux

package gpu

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grpo/internal/cudaemu"
	"grpo/internal/cudalib"
	"grpo/internal/expect"
	"grpo/internal/tinylmtest"
	"grpo/pkg/model"
	"grpo/pkg/model/cuda"
	"grpo/pkg/model/tinylm"
)

// PyTorch's numbers, on a GPU: log-probabilities, entropies, losses, gradients,
// norms and the weights after three updates.
func TestGPUGoldenTorch(t *testing.T) {
	c := tinylmtest.ReadTorchCase(t)
	tolerance := tinylmtest.Tolerance{Rtol: 1e-4, Atol: 1e-5}
	for _, steps := range []bool{false, true} {
		for _, shared := range []bool{true, false} {
			for _, micro := range []int{1, 2} {
				t.Run(fmt.Sprintf("step by step %v, shared prompts %v, %d micro-batches", steps, shared, micro), func(t *testing.T) {
					c.Run(t, stepByStep(testGPU(t, "float32"), steps), shared, micro, tolerance, tolerance)
				})
			}
		}
	}
}

// stepByStep removes the shared memory that fused kernels need, so that a small network runs step
// by step like a large one.
func stepByStep(g *device, yes bool) *device {
	if yes {
		g.card.Shared = 1 << 10
	}
	return g
}

// netCases are forms of networks and batches; most run fused and step by step.
func netCases(t *testing.T, f func(t *testing.T, g *device, p *tinylm.Weights, b *model.Batch)) {
	for _, c := range []struct {
		name     string
		spec     tinylm.Spec
		prompts  int
		group    int
		longest  int
		stepwise bool
	}{
		{"two layers", tinylmtest.Spec(7, 2), 3, 2, 6, false},
		{"two layers, step by step", tinylmtest.Spec(7, 2), 3, 2, 6, true},
		{"one layer", tinylmtest.Spec(33, 1), 2, 3, 5, false},
		{"a cluster of blocks", tinylmtest.Spec(132, 1), 1, 2, 3, false},
		{"three layers, step by step", tinylmtest.Spec(12, 3), 2, 2, 4, true},
		{"one token each", tinylmtest.Spec(16, 2), 2, 2, 1, false},
		{"one token each, step by step", tinylmtest.Spec(16, 2), 2, 2, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := tinylmtest.Weights(t, c.spec, 1)
			f(t, stepByStep(testGPU(t, "float32"), c.stepwise), p, tinylmtest.Batch(t, p, c.prompts, c.group, c.longest))
		})
	}
}

func TestGPULearnerAgainstReferenceAndFiniteDifferences(t *testing.T) {
	netCases(t, func(t *testing.T, g *device, p *tinylm.Weights, b *model.Batch) { tinylmtest.CheckLearner(t, g, p, b) })
}

func TestGPUCriticAgainstReferenceAndFiniteDifferences(t *testing.T) {
	netCases(t, func(t *testing.T, g *device, p *tinylm.Weights, b *model.Batch) { tinylmtest.CheckCritic(t, g, p, b) })
}

// If a card has no room for a cluster, as on a MIG partition, a layer that needs one runs step by
// step.
func TestGPUWithoutRoomForAClusterRunsStepByStep(t *testing.T) {
	g := testGPU(t, "float32")
	plan, whole, err := g.recurrence(132)
	if err != nil || whole == nil || plan.Card.Clusters < 1 {
		t.Fatalf("a card with room runs %d clusters at once, with %d kernels: %v", plan.Card.Clusters, len(whole), err)
	}
	if onCard() {
		t.Skipf("the card runs %d clusters at once", plan.Card.Clusters)
	}
	cudaemu.Setenv(t, "CUDAEMU_CLUSTERS", "-1") // the driver gives no number
	if plan, whole, err = g.recurrence(132); err != nil || whole == nil || plan.Card.Clusters != 0 {
		t.Fatalf("unasked there are %d clusters and %d kernels: %v", plan.Card.Clusters, len(whole), err)
	}
	cudaemu.Setenv(t, "CUDAEMU_CLUSTERS", "0")
	if _, whole, err = g.recurrence(132); err != nil || whole != nil {
		t.Fatalf("without room there are %d kernels: %v", len(whole), err)
	}
	p := tinylmtest.Weights(t, tinylmtest.Spec(132, 1), 1)
	tinylmtest.CheckLearner(t, g, p, tinylmtest.Batch(t, p, 1, 2, 3))
}

// The GPU's gradients equal the CPU's up to rounding, for batches that fit the graph and for some
// that make it grow, at the default size.
func TestGPUGradientsAreTheCPUs(t *testing.T) {
	for _, steps := range []bool{false, true} {
		t.Run(fmt.Sprintf("step by step %v", steps), func(t *testing.T) {
			p := tinylmtest.Weights(t, tinylmtest.Spec(64, 2), 1)
			small, large := tinylmtest.Batch(t, p, 3, 2, 5), tinylmtest.Batch(t, p, 5, 3, 9)
			batches := []*model.Batch{small, large, small}
			want := tinylmtest.Gradients(t, p, tinylmtest.Pool(t, 1), batches...)
			near32(t, "gradient", tinylmtest.Gradients(t, p, stepByStep(testGPU(t, "float32"), steps), batches...), want, 1e-4, 1e-6)
		})
	}
}

func near32(t *testing.T, what string, got, want []float32, rtol, atol float64) {
	t.Helper()
	bad, worst := 0, 0.0
	for i := range want {
		if !tinylmtest.Near(float64(got[i]), float64(want[i]), rtol, atol) {
			bad++
			worst = math.Max(worst, math.Abs(float64(got[i]-want[i])))
		}
	}
	if bad > 0 {
		t.Errorf("%s: %d of %d numbers differ, at most by %g", what, bad, len(want), worst)
	}
}

// graphSpy is a device that keeps the operations of the last graph.
type graphSpy struct {
	*device
	ops *ops
}

func (s *graphSpy) NewOps(w *tinylm.Weights, c tinylm.Capacity) (tinylm.Ops, error) {
	made, err := s.device.NewOps(w, c)
	s.ops, _ = made.(*ops)
	return made, err
}

// A layer that runs step by step is launched, recorded and replayed with the same
// bits.
func TestGPURecordedLayersHaveTheSameBits(t *testing.T) {
	p := tinylmtest.Weights(t, tinylmtest.Spec(16, 2), 1)
	b, other := tinylmtest.Batch(t, p, 3, 2, 6), tinylmtest.Batch(t, p, 2, 2, 4)
	g := &graphSpy{device: stepByStep(testGPU(t, "float32"), true)}
	l, err := tinylm.NewLearner(p, 1, g)
	expect.OK(t, err)
	defer l.Close()
	var first []float32
	for i, batch := range []*model.Batch{b, b, b, other, b, b} {
		l.ZeroGrads()
		expect.OK(t, expect.Err(l.Accumulate(batch, tinylmtest.MeanLogProb(tinylmtest.Tokens(batch)))))
		if batch == other {
			continue
		}
		tinylmtest.Pull(t, l.Grads())
		if first == nil {
			first = slices.Clone(l.Grads().Flat)
		} else if !slices.Equal(l.Grads().Flat, first) {
			t.Errorf("pass %d has other bits than the first", i)
		}
	}
	recorded := 0
	for _, r := range g.ops.recordings {
		if r.graph != nil {
			recorded++
		}
	}
	if recorded != 8 {
		t.Errorf("%d of 8 recurrences are recorded", recorded)
	}
}

func TestGPUScorerIsTheLearner(t *testing.T) {
	g := testGPU(t, "float32")
	p := tinylmtest.Weights(t, tinylmtest.Spec(24, 2), 1)
	b := tinylmtest.Batch(t, p, 4, 3, 8)
	got := tinylmtest.Score(t, p, 0.7, g, b)
	want := tinylmtest.Score(t, p.Clone(), 0.7, tinylmtest.Pool(t, 2), b)
	for i, in := range want.Mask {
		if in && (!tinylmtest.Near(got.LogProbs[i], want.LogProbs[i], 1e-5, 1e-6) || !tinylmtest.Near(got.Entropy[i], want.Entropy[i], 1e-5, 1e-6)) {
			t.Fatalf("token %d: %v, %v, the CPU has %v, %v", i, got.LogProbs[i], got.Entropy[i], want.LogProbs[i], want.Entropy[i])
		}
	}
	l, err := tinylm.NewLearner(p, 0.7, g)
	expect.OK(t, err)
	defer l.Close()
	if _, err := l.Accumulate(b, func(m *model.TokenMatrix) (float64, error) {
		if !slices.Equal(m.LogProbs, got.LogProbs) || !slices.Equal(m.Entropy, got.Entropy) {
			t.Error("the learner has other bits than the scorer")
		}
		return 0, nil
	}); err != nil {
		t.Fatal(err)
	}
}

// Three updates with clipping and decay match the CPU; a gradient with NaN changes neither weights
// nor moments.
func TestGPUAdamW(t *testing.T) {
	g := testGPU(t, "float32")
	spec := tinylmtest.Spec(16, 2)
	run := func(on model.Device) (p *tinylm.Weights, norms []float64, opt *model.AdamW) {
		p = tinylmtest.Weights(t, spec, 1)
		b := tinylmtest.Batch(t, p, 3, 2, 6)
		opt = model.NewAdamW(p.Params, model.AdamWOptions{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, WeightDecay: 0.1})
		l, err := tinylm.NewLearner(p, 1, on)
		expect.OK(t, err)
		defer l.Close()
		step := func() {
			norm, err := opt.Step(p.Params, l.Grads(), 1e-2, 0.1)
			expect.OK(t, err)
			norms = append(norms, norm)
		}
		for range 3 {
			l.ZeroGrads()
			expect.OK(t, expect.Err(l.Accumulate(b, tinylmtest.MeanLogProb(tinylmtest.Tokens(b)))))
			step()
		}
		tinylmtest.Pull(t, l.Grads())
		l.Grads().Flat[5] = float32(math.NaN())
		expect.OK(t, l.Grads().Push())
		step()
		for _, x := range []*model.Params{p.Params, opt.M, opt.V} {
			tinylmtest.Pull(t, x)
		}
		return p, norms, opt
	}
	want, wantNorms, wantOpt := run(tinylmtest.Pool(t, 1))
	got, norms, opt := run(g)
	near32(t, "weights", got.Flat, want.Flat, 1e-4, 1e-5)
	near32(t, "first moments", opt.M.Flat, wantOpt.M.Flat, 1e-4, 1e-6)
	near32(t, "second moments", opt.V.Flat, wantOpt.V.Flat, 1e-3, 1e-8)
	for i := range 3 {
		if !tinylmtest.Near(norms[i], wantNorms[i], 1e-4, 1e-6) {
			t.Errorf("norm %d is %v, the CPU's %v", i, norms[i], wantNorms[i])
		}
	}
	if !math.IsNaN(norms[3]) || opt.T != 3 {
		t.Errorf("a gradient with NaN: norm %v, %d updates, want NaN and 3", norms[3], opt.T)
	}
}

func TestGPUFinite(t *testing.T) {
	g := testGPU(t, "float32")
	p := tinylmtest.Weights(t, tinylmtest.Spec(16, 1), 1)
	expect.OK(t, g.Place(p.Params))
	if name, ok := p.Finite(); !ok {
		t.Errorf("%s is not finite", name)
	}
	p.HeadB[3] = float32(math.Inf(1))
	expect.OK(t, p.Push())
	if name, ok := p.Finite(); ok || name != "head.bias" {
		t.Errorf("Finite() = %q, %v, want head.bias, false", name, ok)
	}
}

// cardEnv makes the tests run on a real GPU. Without it they run on the emulator:
// a process can load only one driver.
const cardEnv = "GRPO_TEST_GPU"

// onCard reports whether the tests of this process run on a real GPU.
func onCard() bool { return os.Getenv(cardEnv) != "" }

// testGPU opens a GPU, the emulated one or the real one.
func testGPU(t testing.TB, precision string) *device {
	t.Helper()
	if !onCard() {
		dir := cudaemu.Build(t)
		t.Setenv(cudalib.Env, dir)
		t.Setenv(cuda.CacheEnv, filepath.Join(dir, "cache"))
	}
	g, err := Open(precision)
	expect.OK(t, err)
	t.Cleanup(g.Close)
	return g.(*device)
}

// If the machine has a GPU, the tests of this package whose names start with GPU also run on it, in
// a separate process.
func TestOnTheCard(t *testing.T) {
	if onCard() {
		t.Skip("this process runs on the card")
	}
	if _, err := os.Stat("/dev/nvidiactl"); err != nil {
		t.Skip("no NVIDIA GPU here: the tests ran on the emulator only")
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestGPU", "-test.v")
	cmd.Env = append(os.Environ(), cardEnv+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("on the card: %v\n%s", err, out)
	}
	t.Logf("%d tests passed on the card", strings.Count(string(out), "\n--- PASS"))
}
