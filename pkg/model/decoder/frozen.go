package decoder

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	"grpo/pkg/model"
	"grpo/pkg/model/hf"
	"grpo/pkg/model/kernel"
	"grpo/pkg/rng"
)

// Under LoRA the weights of a network are frozen. There is one copy of them, which all
// networks of a run share (the sampler's, the learner's, the reference model's and the
// critic's). On the CPU its matrices are in the packed form that is fast for few rows. An embedding that
// is the head, too, is there once, in that form. In bf16 the packed form is rounded, so that the embedding
// and the head are there in float32 too, and the adapters are computed in float32. On other devices it is in
// [Network.Frozen], and in bf16 the layers' matrices are rounded there, so that all devices have the same weights.

// freeze makes a network of frozen weights, without adapters: packed ones for the CPU, or those of
// [Network.Frozen]. read fills a tensor of a Hugging Face name.
func freeze(c *hf.Config, bf16, packed bool, read func(name string, out []float32) error) (*Network, error) {
	if !packed {
		n, err := load(c, read)
		if err != nil {
			return nil, err
		}
		n.Frozen, n.BF16 = n.Params, bf16
		if bf16 {
			for i := range n.Layers {
				for _, m := range n.Layers[i].matrices() {
					kernel.RoundBF16(m.W)
				}
			}
		}
		return n, nil
	}
	names, shapes := c.Shapes()
	var failed error
	fill := func(x []float32) { // with the next tensors
		for len(x) > 0 && failed == nil {
			size := model.Elements(shapes[names[0]])
			failed = read(names[0], x[:size])
			names, x = names[1:], x[size:]
		}
	}
	next := func(size int) []float32 {
		x := make([]float32, size)
		fill(x)
		return x
	}
	pack := func(in, out int, w []float32) Projection {
		m := Projection{In: in, Out: out, bf16: bf16, packed: new(kernel.Packed)}
		if failed == nil {
			m.packInto(w, m.packed)
		}
		return m
	}
	packHead := func(w []float32) Projection {
		m := pack(c.Hidden, c.Vocab, w)
		if bf16 {
			m.W = w // not rounded
		}
		return m
	}
	embed, head := next(c.Vocab*c.Hidden), Projection{}
	if c.Tied {
		head = packHead(embed)
		embed = head.W
	}
	first := true
	n := build(c, func(size int) []float32 {
		if first {
			first = false
			return embed
		}
		return next(size)
	}, func(in, out int) Projection {
		if len(names) == 1 { // lm_head.weight
			return packHead(next(in * out))
		}
		s := borrow(in * out)
		defer s.giveBack()
		fill(s.x)
		return pack(in, out, s.x)
	})
	if n.BF16 = bf16; c.Tied {
		n.Head = head
	}
	return n, failed
}

// digest is the SHA-256 of the frozen weights, as the CPU computes with them (in bf16 the matrices of
// layers are rounded), in the order of [hf.Config.Shapes]. It is the same on every device.
func (n *Network) digest() string {
	h := sha256.New()
	write := func(list ...[]float32) {
		for _, x := range list {
			model.WriteFloats(h, x)
		}
	}
	matrix := func(m *Projection) {
		if m.W != nil {
			write(m.W)
			return
		}
		most := m.unpackedRows()
		s := borrow(most * m.In)
		defer s.giveBack()
		for lo := 0; lo < m.Out; lo += most {
			hi := min(m.Out, lo+most)
			m.packed.Transposed(lo, hi, s.x[:(hi-lo)*m.In])
			write(s.x[:(hi-lo)*m.In])
		}
	}
	if n.Embed == nil {
		matrix(&n.Head)
	}
	write(n.Embed)
	parts := roles(n.Config)
	for i := range n.Layers {
		for _, p := range parts {
			if v := n.Layers[i].vector(p.Role); v != nil {
				write(*v)
			} else {
				matrix(n.Layers[i].matrix(p.Role))
			}
		}
	}
	write(n.Norm)
	if !n.Config.Tied {
		matrix(&n.Head)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// zeroAdapters returns the parameters of adapters, all zero.
func zeroAdapters(c *hf.Config, l hf.LoRA) *model.Params {
	tensors := c.AdapterTensors(l)
	form := make([]model.Tensor, len(tensors))
	for i, t := range tensors {
		form[i] = model.Tensor{Name: t.Name, Shape: t.Shape}
	}
	return model.NewParams(form)
}

// newAdapters returns the parameters of adapters, as PEFT initialises them: A is uniform
// in ±1/√in (Kaiming, with a = √5), B zero, so that they add 0.
func newAdapters(c *hf.Config, l hf.LoRA, seed uint64) *model.Params {
	p := zeroAdapters(c, l)
	stream := rng.New(seed, rng.Weights)
	for i, t := range c.AdapterTensors(l) {
		if t.B {
			continue
		}
		x, bound := p.Tensors()[i].Data, 1/math.Sqrt(float64(t.Shape[1]))
		for j := range x {
			x[j] = float32((2*stream.Float64(uint32(t.Layer), uint32(t.Target), uint32(j), 0) - 1) * bound)
		}
	}
	return p
}

// with is the network with other trainable parameters, which params begins with.
func (n *Network) with(params *model.Params) *Network {
	if n.LoRA == nil {
		m := view(n.Config, params)
		if n.BF16 {
			m.useBF16()
		}
		return m
	}
	m := *n
	m.Layers = slices.Clone(n.Layers)
	m.attach(n.LoRA, params)
	return &m
}

// gradients views gradients in the form of the trainable parameters as a network. Frozen
// weights have none.
func (n *Network) gradients(params *model.Params) *Network {
	if n.LoRA == nil {
		return view(n.Config, params)
	}
	g := &Network{Config: n.Config, Layers: make([]Layer, len(n.Layers))}
	g.attach(n.LoRA, params)
	return g
}

// attach makes params, in the order of [hf.Config.AdapterTensors], the adapters of n.
func (n *Network) attach(l *hf.LoRA, params *model.Params) {
	rest := params.Flat
	take := func(size int) []float32 {
		x := rest[:size:size]
		rest = rest[size:]
		return x
	}
	n.LoRA, n.Params = l, params
	joined, modules := roles(n.Config), n.Config.Modules()
	for i := range n.Layers {
		x, all := &n.Layers[i], rest
		for _, p := range joined {
			m := x.matrix(p.Role)
			if m == nil {
				continue
			}
			a, from := Adapters{Rank: l.Rank, Scale: float32(l.Scale())}, 0
			for _, module := range modules {
				if module.Role != p.Role {
					continue
				}
				if slices.Contains(l.Targets, module.Name) {
					a.Targets = append(a.Targets, Adapter{From: from, Out: module.Out})
				}
				from += module.Out
			}
			a.A = take(a.Ranks() * p.Shape[1])
			for t := range a.Targets {
				a.Targets[t].B = take(a.Targets[t].Out * l.Rank)
			}
			m.Adapters = a
		}
		x.All = all[:len(all)-len(rest)]
	}
}

// base is the network without its adapters.
func (n *Network) base() *Network {
	m := *n
	m.Layers = slices.Clone(n.Layers)
	m.attach(&hf.LoRA{}, model.NewParams(nil))
	return &m
}

// adapted reports whether the adapters change the network: a B is not zero.
func (n *Network) adapted() bool {
	for i := range n.Layers {
		for _, m := range n.Layers[i].matrices() {
			for _, t := range m.Targets {
				if slices.ContainsFunc(t.B, func(x float32) bool { return x != 0 }) {
					return true
				}
			}
		}
	}
	return false
}

// Merge returns a function that adds the adapters to a tensor of their base: W + scale·B·A.
// It takes the tensor's Hugging Face name and its numbers, row-major, and leaves tensors
// without adapters as they are.
func Merge(c *hf.Config, l hf.LoRA, adapters *model.Params) (func(name string, w []float32), error) {
	if err := zeroAdapters(c, l).Match(adapters); err != nil {
		return nil, fmt.Errorf("merge adapters: %w", err)
	}
	type pair struct {
		a, b    []float32
		in, out int
	}
	pairs := map[string]pair{}
	for i, t := range c.AdapterTensors(l) {
		p, x := pairs[t.Weight], adapters.Tensors()[i].Data
		if t.B {
			p.b, p.out = slices.Clone(x), t.Shape[0]
			scale(float32(l.Scale()), p.b)
		} else {
			p.a, p.in = x, t.Shape[1]
		}
		pairs[t.Weight] = p
	}
	return func(name string, w []float32) {
		if p, ok := pairs[name]; ok {
			kernel.Gemm(false, false, p.out, p.in, l.Rank, p.b, l.Rank, p.a, p.in, true, w, p.in)
		}
	}, nil
}
