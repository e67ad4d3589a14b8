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
// critic's), in the packed form that is fast for few rows. Only the embedding and the
// head are there in both forms. In bf16 the packed form is rounded; the adapters are
// computed in float32.

// freeze makes a network of frozen weights, without adapters. read returns a tensor by
// its Hugging Face name.
func freeze(c *hf.Config, bf16 bool, read func(name string) ([]float32, error)) (*Network, error) {
	names, _ := c.Shapes()
	var failed error
	fill := func(x []float32) {
		for len(x) > 0 && failed == nil {
			var t []float32
			t, failed = read(names[0])
			names, x = names[1:], x[copy(x, t):]
		}
	}
	take := func(size int) []float32 {
		x := make([]float32, size)
		fill(x)
		return x
	}
	n := build(c, take, func(in, out int) projection {
		if len(names) == 1 { // lm_head.weight
			return projection{in: in, out: out, w: take(in * out)}
		}
		s := borrow(in * out)
		defer s.giveBack()
		fill(s.x)
		m := projection{in: in, out: out, bf16: bf16, packed: new(kernel.Packed)}
		m.packInto(s.x, m.packed)
		return m
	})
	n.bf16, n.head.bf16, n.head.packed = bf16, bf16, new(kernel.Packed)
	n.head.packInto(n.head.w, n.head.packed)
	return n, failed
}

// digest is the SHA-256 of the frozen weights, as they are computed with, in the order of
// [hf.Config.Shapes].
func (n *Network) digest() string {
	h := sha256.New()
	write := func(list ...[]float32) {
		for _, x := range list {
			model.WriteFloats(h, x)
		}
	}
	matrix := func(m projection) {
		s := borrow(m.in * m.out)
		defer s.giveBack()
		m.packed.Transposed(0, m.out, s.x)
		write(s.x)
	}
	write(n.embed)
	for _, l := range n.layers {
		write(l.attnNorm)
		matrix(l.qkv)
		write(l.qkvBias, l.qNorm, l.kNorm)
		matrix(l.out)
		write(l.ffnNorm)
		matrix(l.gateUp)
		matrix(l.down)
	}
	write(n.norm)
	if !n.Config.Tied {
		write(n.head.w)
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
	if n.lora == nil {
		m := view(n.Config, params)
		if n.bf16 {
			m.useBF16()
		}
		return m
	}
	m := *n
	m.layers = slices.Clone(n.layers)
	m.attach(n.lora, params)
	return &m
}

// gradients views gradients in the form of the trainable parameters as a network. Frozen
// weights have none.
func (n *Network) gradients(params *model.Params) *Network {
	if n.lora == nil {
		return view(n.Config, params)
	}
	g := &Network{Config: n.Config, layers: make([]layer, len(n.layers))}
	g.attach(n.lora, params)
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
	n.lora, n.Params = l, params
	for i := range n.layers {
		x, all := &n.layers[i], rest
		matrices := [...]*projection{&x.qkv, &x.out, &x.gateUp, &x.down}
		for k, modules := range n.Config.Modules() {
			a := adapters{rank: l.Rank, scale: float32(l.Scale())}
			from := 0
			for _, m := range modules {
				if slices.Contains(l.Targets, m.Name) {
					a.targets = append(a.targets, adapter{from: from, out: m.Out})
				}
				from += m.Out
			}
			a.a = take(a.ranks() * modules[0].In)
			for t := range a.targets {
				a.targets[t].b = take(a.targets[t].out * l.Rank)
			}
			matrices[k].adapters = a
		}
		x.all = all[:len(all)-len(rest)]
	}
}

// base is the network without its adapters.
func (n *Network) base() *Network {
	m := *n
	m.layers = slices.Clone(n.layers)
	m.attach(&hf.LoRA{}, model.NewParams(nil))
	return &m
}

// adapted reports whether the adapters change the network: a B is not zero.
func (n *Network) adapted() bool {
	for _, l := range n.layers {
		for _, m := range []projection{l.qkv, l.out, l.gateUp, l.down} {
			for _, t := range m.targets {
				if slices.ContainsFunc(t.b, func(x float32) bool { return x != 0 }) {
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
