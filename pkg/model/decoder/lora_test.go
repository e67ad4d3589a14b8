package decoder

import (
	"errors"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"grpo/internal/decodertest"
	"grpo/internal/expect"
	"grpo/internal/golden"
	"grpo/pkg/model"
	"grpo/pkg/model/fused"
	"grpo/pkg/model/hf"
	"grpo/pkg/model/kernel"
	"grpo/pkg/model/safetensors"
	"grpo/pkg/rng"
)

// sparse are some numbers of a tensor, by their index, and its norm.
type sparse struct {
	Norm float64
	At   [][2]float64
}

func (s sparse) compare(t *testing.T, name string, got []float32, tolerance float64) {
	t.Helper()
	decodertest.Compare(t, name, got, s.Norm, s.At, tolerance)
}

// loraCase is an adapter of the reference data with what PEFT computed.
type loraCase struct {
	Name, Model, Adapter string
	InputIDs             [][]int32 `json:"input_ids"`
	LossMask             [][]int   `json:"loss_mask"`
	Rank                 int       `json:"r"`
	Alpha                float64   `json:"lora_alpha"`
	RSLoRA               bool      `json:"use_rslora"`
	Targets              []string  `json:"target_modules"`
	Scaling              float64
	Logits               [][][]float64
	LogitsAt             struct {
		Columns []int
		Rows    [][][]float64
	} `json:"logits_at"`
	BaseLogitsAt [][][]float64 `json:"base_logits_at"`
	TokenLogps   [][]float64   `json:"token_logps"`
	Loss         float64
	GradNorm     float64 `json:"grad_norm"`
	Grads        map[string]sparse
	Merged       map[string]sparse
}

// eachAdapter opens the adapters of the reference data. net has them on frozen weights,
// full are the weights of the base; both are computed in bf16 if it is set.
func eachAdapter(t *testing.T, bf16 bool, f func(t *testing.T, net, full *Network, l hf.LoRA, c *loraCase)) {
	root := golden.Path(t, "golden", "trl2")
	var file struct{ Cases []loraCase }
	golden.ReadJSON(t, filepath.Join(root, "lora.json"), &file, "shape", "logits_norm", "merged_delta_norm")
	if len(file.Cases) == 0 {
		t.Fatal("no cases")
	}
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			dir := filepath.Join(root, c.Model)
			checkpoint, err := hf.OpenWeights(dir)
			expect.OK(t, err)
			a, err := hf.ReadAdapter(filepath.Join(root, c.Adapter))
			expect.OK(t, err)
			full, err := Load(checkpoint)
			expect.OK(t, err)
			if bf16 {
				full.useBF16()
			}
			net, err := freeze(checkpoint.Config, bf16, true, checkpoint.ReadInto)
			expect.OK(t, err)
			net.attach(&a.LoRA, newAdapters(net.Config, a.LoRA, 1))
			tensors, err := a.Read(net.Config, dir)
			expect.OK(t, err)
			for i, x := range net.Params.Tensors() {
				copy(x.Data, tensors[i].Data)
			}
			f(t, net, full, a.LoRA, &c)
		})
	}
}

// tensorsOf reads the tensors of a network.
func tensorsOf(n *Network) func(name string, out []float32) error {
	return func(name string, out []float32) error {
		for _, x := range n.Params.Tensors() {
			if x.Name == name {
				copy(out, x.Data)
				return nil
			}
		}
		return errors.New("no such tensor")
	}
}

// logits are those of every token of segments.
func logits(t *testing.T, net *Network, segments []Segment, threads int) []float32 {
	t.Helper()
	g := newTestGraph(t, net, nil, segments, threads)
	expect.OK(t, g.run(g.top))
	ops := g.ops.(*cpuOps)
	n := len(ops.tree.Tokens)
	out := make([]float32, n*net.Config.Vocab)
	final, _ := ops.norm(fused.Floats(g.top.Value()), net.Norm)
	net.Head.forward(ops.pool, n, final, false, out)
	return out
}

func near(t *testing.T, what string, got float32, want float64) {
	t.Helper()
	if math.Abs(float64(got)-want) > 1e-4*max(1, math.Abs(want)) {
		t.Fatalf("%s is %v, want %v", what, got, want)
	}
}

// Logits, log-probabilities, gradients of the adapters and merged weights equal PEFT's;
// without the adapters the logits are those of the base.
func TestGoldenLoRA(t *testing.T) {
	t.Run("logits kept", testGoldenLoRA)
	defer func(rows, kept int) { lossRows, lossKept = rows, kept }(lossRows, lossKept)
	lossRows, lossKept = 7, 0
	t.Run("logits in parts", testGoldenLoRA)
}

func testGoldenLoRA(t *testing.T) {
	eachAdapter(t, false, func(t *testing.T, net, full *Network, l hf.LoRA, c *loraCase) {
		if l.Rank != c.Rank || l.Alpha != c.Alpha || l.UseRSLoRA != c.RSLoRA || len(l.Targets) != len(c.Targets) {
			t.Errorf("the adapter is %+v, want rank %d, alpha %v, rslora %v, %v", l, c.Rank, c.Alpha, c.RSLoRA, c.Targets)
		}
		if math.Abs(l.Scale()-c.Scaling) > 1e-6*c.Scaling { // printed with eight digits
			t.Errorf("scale %v, want %v", l.Scale(), c.Scaling)
		}
		vocab := net.Config.Vocab
		var segments []Segment
		var places, targets []int
		var logps []float64
		var counted []bool
		at, count := 0, 0
		for b, ids := range c.InputIDs {
			segments = append(segments, Segment{Parent: -1, Tokens: ids})
			own := logits(t, net, segments[b:], 2)
			base := logits(t, net.base(), segments[b:], 2)
			for i := range ids {
				for k, col := range c.LogitsAt.Columns {
					near(t, "logit", own[i*vocab+col], c.LogitsAt.Rows[b][i][k])
					near(t, "logit of the base", base[i*vocab+col], c.BaseLogitsAt[b][i][k])
				}
				if c.Logits[b] != nil {
					for col, want := range c.Logits[b][i] {
						near(t, "logit", own[i*vocab+col], want)
					}
				}
				if i > 0 {
					places, targets = append(places, at+i-1), append(targets, int(ids[i]))
					counted = append(counted, c.LossMask[b][i] != 0)
					count += c.LossMask[b][i]
				}
			}
			logps, at = append(logps, c.TokenLogps[b]...), at+len(ids)
		}
		params := net.Params.Zeros()
		loss := 0.0
		var got []float32
		gradients(t, newTestGraph(t, net, net.gradients(params), segments, 2), places, targets, 1, func(logp, _ []float32) ([]float32, []float32) {
			d := make([]float32, len(logp))
			for i, ok := range counted {
				if ok {
					got = append(got, logp[i])
					loss -= float64(logp[i]) / float64(count)
					d[i] = -1 / float32(count)
				}
			}
			return d, make([]float32, len(logp))
		})
		if len(logps) != len(got) || math.Abs(loss-c.Loss) > 1e-4 {
			t.Errorf("%d log-probabilities, want %d; loss %v, want %v", len(got), len(logps), loss, c.Loss)
		}
		for i, want := range logps {
			near(t, "log-probability", got[i], want)
		}
		if norm := math.Sqrt(kernel.SumSquares(params.Flat)); math.Abs(norm-c.GradNorm) > 1e-4*c.GradNorm {
			t.Errorf("gradient norm %v, want %v", norm, c.GradNorm)
		}
		if len(c.Grads) != len(params.Tensors()) {
			t.Errorf("%d gradients, want %d", len(params.Tensors()), len(c.Grads))
		}
		for _, x := range params.Tensors() {
			name := x.Name[len("base_model.model."):]
			c.Grads[name].compare(t, "gradient of "+name, x.Data, 2e-4)
		}

		merge, err := Merge(net.Config, l, net.Params)
		expect.OK(t, err)
		for _, x := range full.Params.Tensors() {
			before := slices.Clone(x.Data)
			merge(x.Name, x.Data)
			if want, ok := c.Merged[x.Name]; ok {
				want.compare(t, "merged "+x.Name, x.Data, 1e-5)
			} else if !slices.Equal(before, x.Data) {
				t.Errorf("%s changed", x.Name)
			}
		}
		want := states(t, net, segments, 1)
		for i, x := range states(t, full, segments, 1) {
			near(t, "state of the merged network", x, float64(want[i]))
		}
	})
}

// The gradient through packed weights has the bits of that through the weights, in any number of parts.
func TestBackwardPacked(t *testing.T) {
	defer func(n int) { unpackedNumbers = n }(unpackedNumbers)
	pool := kernel.NewPool(2)
	defer pool.Close()
	const rows, in, out = 5, 40, 3*kernel.SumPart + 7
	r := rand.New(rand.NewSource(1))
	random := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		return x
	}
	for _, bf16 := range []bool{false, true} {
		m := Projection{In: in, Out: out, W: random(in * out), bf16: bf16}
		x, dy, want := random(rows*in), random(rows*out), make([]float32, rows*in)
		m.backward(pool, rows, x, dy, want, Projection{})
		packed := Projection{In: in, Out: out, bf16: bf16, packed: new(kernel.Packed)}
		packed.packInto(m.W, packed.packed)
		for _, unpackedNumbers = range []int{1, in * kernel.SumPart * 2, 1 << 24} {
			got := random(rows * in)
			packed.backward(pool, rows, x, dy, got, Projection{})
			if !slices.Equal(got, want) {
				t.Errorf("bf16 %v: other bits with parts of %d rows", bf16, packed.unpackedRows())
			}
		}
	}
}

// A network of frozen weights whose adapters add 0 has the bits of the network, and its
// copy for the reference model has no adapters. Log-probabilities of sampling are those of
// the learner, to the bit, with adapters too.
func TestGoldenFrozenBits(t *testing.T) {
	t.Run("float32", func(t *testing.T) { testFrozenBits(t, false) })
	t.Run("bf16", func(t *testing.T) { testFrozenBits(t, true) })
}

func testFrozenBits(t *testing.T, bf16 bool) {
	eachAdapter(t, bf16, func(t *testing.T, net, full *Network, l hf.LoRA, c *loraCase) {
		fresh := net.with(newAdapters(net.Config, l, 3))
		segments := []Segment{{Parent: -1, Tokens: c.InputIDs[0]}}
		want := logits(t, full, segments, 1)
		for name, n := range map[string]*Network{"new adapters": fresh, "base": net.base()} {
			if !slices.Equal(logits(t, n, segments, 2), want) {
				t.Errorf("%s: other logits than the network's", name)
			}
		}
		if n := net.size().trained(); n != float64(net.Params.Count()) {
			t.Errorf("%v trainable parameters, want %d", n, net.Params.Count())
		}
		// The gradient of a frozen weight is not computed: it has two of three matmuls.
		work, base := net.size().Forward(10, 4), full.size().Forward(10, 4)
		if got, want := work.Update().Executed, 3*work.Executed-base.Executed; work.Executed <= base.Executed || got != want {
			t.Errorf("an update has %v operations, want %v: %v forward, %v of them by frozen weights", got, want, work.Executed, base.Executed)
		}
		if bf16 == (net.digest() == full.Params.Hash()) { // rounded weights have another
			t.Error("the digest of the frozen weights is not their hash")
		}
		unpacked, err := freeze(net.Config, bf16, false, tensorsOf(full))
		if err != nil || unpacked.digest() != net.digest() {
			t.Errorf("the weights for other devices have another digest (error %v)", err)
		}
		pool := kernel.NewPool(2)
		defer pool.Close()
		policy := &Policy{net: fresh, on: newCPU(pool)}
		if copied := policy.Copy().(*Policy); len(copied.Params().Flat) != 0 {
			t.Error("the reference model has adapters that change nothing")
		}
		policy.net = net
		copied := policy.Copy().(*Policy)
		if !slices.Equal(copied.Params().Flat, net.Params.Flat) || &copied.Params().Flat[0] == &net.Params.Flat[0] {
			t.Error("the reference model has no copy of the adapters")
		}
		if copied.net.Layers[0].Out.packed != net.Layers[0].Out.packed {
			t.Error("the reference model has its own frozen weights")
		}

		prompts := [][]int{wide(c.InputIDs[0][:5]), wide(c.InputIDs[1])}
		out, err := newSampler(net, pool, new(arena), []int{3}).Sample(prompts, 4, model.Sampling{Temperature: 1.1, TopP: 1, MaxTokens: 9},
			model.Draws{Stream: rng.New(1, 2)})
		expect.OK(t, err)
		batch := &model.Batch{Prompts: prompts}
		for i, o := range out {
			batch.Rows = append(batch.Rows, model.Row{Prompt: i / 4, Tokens: o.Tokens})
		}
		learner, err := policy.NewLearner(1.1, false)
		expect.OK(t, err)
		if _, err := learner.Accumulate(batch, func(m *model.TokenMatrix) (float64, error) {
			for i, o := range out {
				for j, lp := range o.LogProbs {
					if got := m.LogProbs[i*m.T+j]; got != float64(lp) {
						t.Fatalf("completion %d, token %d: sampled %v, learned from %v", i, j, lp, got)
					}
				}
			}
			return 0, nil
		}); err != nil {
			t.Fatal(err)
		}
	})
}

// A written PEFT folder is read back with the same numbers. GRPO_PEFT_OUT keeps the
// folders, to load them with PEFT.
func TestGoldenAdapterFolder(t *testing.T) {
	eachAdapter(t, false, func(t *testing.T, net, _ *Network, l hf.LoRA, c *loraCase) {
		var tensors []safetensors.Tensor
		for _, x := range net.Params.Tensors() {
			tensors = append(tensors, safetensors.Tensor{Name: x.Name, Shape: x.Shape, Data: x.Data})
		}
		dir := t.TempDir()
		if keep := os.Getenv("GRPO_PEFT_OUT"); keep != "" {
			dir = filepath.Join(keep, c.Name)
			expect.OK(t, os.MkdirAll(dir, 0o755))
		}
		folder, err := hf.AdapterFolder("../base", "", l)
		if err == nil {
			err = folder.Write(dir, "F32", tensors, nil)
		}
		if err == nil {
			_, err = hf.Verify(dir)
		}
		expect.OK(t, err)
		a, err := hf.ReadAdapter(dir)
		expect.OK(t, err)
		if a.Base != "../base" || a.Scale() != l.Scale() || !slices.Equal(a.Targets, l.Targets) {
			t.Errorf("read back %+v, wrote %+v", a, l)
		}
		back, err := a.Read(net.Config, "base")
		expect.OK(t, err)
		for i, x := range back {
			if !slices.Equal(x.Data, tensors[i].Data) {
				t.Errorf("%s differs", x.Name)
			}
		}
	})
}
