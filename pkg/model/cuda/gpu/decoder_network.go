//go:build withcuda && linux

package gpu

import (
	"fmt"
	"slices"

	"grpo/pkg/model/cuda"
	"grpo/pkg/model/cuda/kernels"
	"grpo/pkg/model/decoder"
	"grpo/pkg/model/hf"
)

// decoders is what the decoders of a device share: they run one at a time.
type decoders struct {
	kernels   map[string]*cuda.Kernel // kernels.Decoder; nil until the first network
	attention map[kernels.AttentionPlan]map[string]*cuda.Kernel
	mem       *arena
	x, d      []float32 // page-locked: outputs, and gradients of the loss
}

// network is a decoder in the memory of the device.
type network struct {
	*decoder.Network
	g         *device
	mem       *arena
	stores    []*storage // of the trainable parameters and of frozen ones
	bf16      bool       // matmuls with weights round their operands
	plan      kernels.AttentionPlan
	attention map[string]*cuda.Kernel
}

// Check implements [decoder.Backend].
func (g *device) Check(c *hf.Config) error {
	part := ""
	switch _, ok := g.card.Attention(c.Heads, c.KVHeads, c.HeadDim); {
	case !ok:
		part = fmt.Sprintf("%d heads of %d with %d key heads", c.Heads, c.HeadDim, c.KVHeads)
	case c.Slides():
		part = "sliding-window attention"
	case c.OffsetNorms:
		part = "an RMSNorm with the scale 1 + w"
	case c.ScaledEmbed:
		part = "a scaled embedding"
	case c.AttnSoftcap != 0 || c.FinalSoftcap != 0:
		part = "a soft cap of scores or logits"
	case c.GELU:
		part = "GELU"
	default:
		return nil
	}
	return fmt.Errorf("%s is not supported on a GPU (set model.device to cpu)", part)
}

// newNetwork places the parameters of a network and loads its kernels, within [cuda.Device.Do].
func (g *device) newNetwork(net *decoder.Network) (*network, error) {
	n := &network{Network: net, g: g, bf16: g.dev.Precision() == cuda.BFloat16}
	if g.decoders.kernels == nil {
		module, err := g.load(kernels.Decoder())
		if err != nil {
			return nil, err
		}
		g.decoders = decoders{kernels: module, attention: map[kernels.AttentionPlan]map[string]*cuda.Kernel{},
			mem: &arena{g: g}}
	}
	n.mem = g.decoders.mem
	if err := g.Place(net.Params); err != nil {
		return nil, err
	}
	n.stores = []*storage{g.storageOf(net.Params)}
	if net.Frozen != nil {
		if err := g.Place(net.Frozen); err != nil {
			return nil, err
		}
		n.stores = append(n.stores, g.storageOf(net.Frozen))
	}
	if err := g.Check(net.Config); err != nil {
		return nil, err
	}
	n.plan, _ = g.card.Attention(net.Config.Heads, net.Config.KVHeads, net.Config.HeadDim)
	known := g.decoders.attention
	if known[n.plan] == nil {
		module, err := g.load(n.plan.Module())
		if err != nil {
			return nil, err
		}
		known[n.plan] = module
	}
	n.attention = known[n.plan]
	return n, nil
}

// find is the storage of x, a part of the network's numbers, and its place there.
func (n *network) find(x []float32) (*storage, int) {
	for _, s := range n.stores {
		if at, ok := s.offset(x); ok {
			return s, at
		}
	}
	panic("gpu: a slice is no part of the network's parameters")
}

// at is the address of x, a part of the network's numbers; 0 for nil.
func (n *network) at(x []float32) cuda.Pointer {
	if x == nil {
		return 0
	}
	s, at := n.find(x)
	return s.mem.At(at)
}

// atIfParameter is at, or 0 if x is no parameter: the bias of a reward model, and its gradient.
func (n *network) atIfParameter(x []float32) cuda.Pointer {
	if !slices.ContainsFunc(n.stores, func(s *storage) bool { _, ok := s.offset(x); return ok }) {
		return 0
	}
	return n.at(x)
}

// atBF16 is the address of x rounded to bf16.
func (n *network) atBF16(x []float32) cuda.Pointer {
	s, at := n.find(x)
	return s.bf16().AddBF16(at)
}

// rounded rounds count activations to bf16.
func (n *network) rounded(x cuda.Pointer, count int) cuda.Pointer {
	y := n.mem.bf16(count)
	n.g.toBF16(count, x, y)
	return y
}

// heads, keys and row are the numbers of a token's queries, of its keys, and of both and its values.
func (n *network) heads() int { return n.Config.Heads * n.Config.HeadDim }
func (n *network) keys() int  { return n.Config.KVHeads * n.Config.HeadDim }
func (n *network) row() int   { return n.heads() + 2*n.keys() }

// project is y = x·Wᵀ with adapters, or adds it to y: x is (rows, in), y (rows, out).
func (n *network) project(m *decoder.Projection, rows int, x cuda.Pointer, accumulate bool, y cuda.Pointer) {
	defer n.mem.Back(n.mem.Mark())
	if n.bf16 {
		n.g.gemmBF16(false, true, rows, m.Out, m.In, n.rounded(x, rows*m.In), m.In, n.atBF16(m.W), m.In, accumulate, y, m.Out)
	} else {
		n.g.gemm(false, true, rows, m.Out, m.In, x, m.In, n.at(m.W), m.In, accumulate, y, m.Out)
	}
	if len(m.Targets) == 0 {
		return
	}
	r, h := m.Ranks(), n.low(m, rows, x)
	for i, t := range m.Targets {
		n.g.gemm(false, true, rows, t.Out, m.Rank, h.Add(i*m.Rank), r, n.at(t.B), m.Rank, true, y.Add(t.From), m.Out)
	}
}

// low is scale·x·Aᵀ of the adapters, (rows, ranks).
func (n *network) low(m *decoder.Projection, rows int, x cuda.Pointer) cuda.Pointer {
	r := m.Ranks()
	h := n.mem.floats(rows * r)
	n.g.gemmScaled(false, true, rows, r, m.In, m.Scale, x, m.In, n.at(m.A), m.In, false, h, r)
	return h
}

// projectBackward adds the gradient of a projection's parameters to g, whose numbers grads has, and
// writes that of x to dx, from dy, the gradient of y. Frozen weights get no gradient.
func (n *network) projectBackward(m, g *decoder.Projection, grads *network, rows int, x, dy, dx cuda.Pointer) {
	defer n.mem.Back(n.mem.Mark())
	if n.bf16 {
		half := n.rounded(dy, rows*m.Out)
		if g.W != nil {
			n.g.gemmBF16(true, false, m.Out, m.In, rows, half, m.Out, n.rounded(x, rows*m.In), m.In, true, grads.at(g.W), m.In)
		}
		n.g.gemmBF16(false, false, rows, m.In, m.Out, half, m.Out, n.atBF16(m.W), m.In, false, dx, m.In)
	} else {
		if g.W != nil {
			n.g.gemm(true, false, m.Out, m.In, rows, dy, m.Out, x, m.In, true, grads.at(g.W), m.In)
		}
		n.g.gemm(false, false, rows, m.In, m.Out, dy, m.Out, n.at(m.W), m.In, false, dx, m.In)
	}
	if len(m.Targets) == 0 {
		return
	}
	r, h := m.Ranks(), n.low(m, rows, x)
	dh := n.mem.floats(rows * r)
	for i, t := range m.Targets {
		at := dy.Add(t.From)
		n.g.gemm(true, false, t.Out, m.Rank, rows, at, m.Out, h.Add(i*m.Rank), r, true, grads.at(g.Targets[i].B), m.Rank)
		n.g.gemmScaled(false, false, rows, m.Rank, t.Out, m.Scale, at, m.Out, n.at(t.B), m.Rank, false, dh.Add(i*m.Rank), r)
	}
	n.g.gemm(true, false, r, m.In, rows, dh, r, x, m.In, true, grads.at(g.A), m.In)
	n.g.gemm(false, false, rows, m.In, r, dh, r, n.at(m.A), m.In, true, dx, m.In)
}
