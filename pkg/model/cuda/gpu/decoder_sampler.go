//go:build withcuda && linux

package gpu

import (
	"fmt"
	"slices"

	"grpo/pkg/model"
	"grpo/pkg/model/cuda"
	"grpo/pkg/model/cuda/kernels"
	"grpo/pkg/model/decoder"
)

// decoderSampler implements [model.Sampler]. It reads the prompts as a tree, like a learner, and
// then completes them with a key-value cache. Without top-k and top-p the device chooses the tokens
// too, and downloads them once, at the end.
type decoderSampler struct {
	g   *device
	net *decoder.Network
	end []int
}

func (g *device) NewSampler(net *decoder.Network, end []int) model.Sampler {
	return &decoderSampler{g, net, end}
}

// Refresh does nothing: the sampler reads the weights where they are updated.
func (s *decoderSampler) Refresh() {}

// Close has nothing to free: the memory is the device's.
func (s *decoderSampler) Close() {}

// Sample implements [model.Sampler].
func (s *decoderSampler) Sample(prompts [][]int, group int, opt model.Sampling,
	draws model.Draws) ([]model.Completion, error) {
	out, err := s.SampleEach(prompts, group, []model.Sampling{opt}, draws)
	if out == nil {
		return nil, err
	}
	return out[0], err
}

// SampleEach reads the prompts once: see [model.SampleEach].
func (s *decoderSampler) SampleEach(prompts [][]int, group int, opts []model.Sampling,
	draws model.Draws) ([][]model.Completion, error) {
	out, most := make([][]model.Completion, len(opts)), 0
	var stopped error // of a Watch
	for i, opt := range opts {
		if err := s.net.CheckPrompts(prompts, group, opt); err != nil {
			return nil, err
		}
		if opt.Restricted && opt.Cuts() {
			return nil, model.ErrKept
		}
		out[i], most = make([]model.Completion, len(prompts)*group), max(most, opt.MaxTokens)
	}
	err := s.g.dev.Do(func() error {
		n, err := s.g.newNetwork(s.net)
		if err != nil {
			return err
		}
		size := max(1, n.chunkRows(most)/group) // prompts
		for lo := 0; lo < len(prompts); lo += size {
			hi := min(lo+size, len(prompts))
			c, err := n.readPrompts(prompts[lo:hi])
			if err != nil {
				return err
			}
			for i, opt := range opts {
				mark := n.mem.Mark()
				d := &decoding{rows: rows{network: n, n: (hi - lo) * group}, contexts: c, opt: opt, end: s.end, group: group,
					first: lo, out: out[i][lo*group : hi*group]}
				if err := d.complete(draws); err != nil {
					return err
				}
				if stopped = opt.Watched(d.out); stopped != nil {
					return nil
				}
				n.mem.Back(mark)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("sample %d completions of each of %d prompts: %w", group, len(prompts), err)
	}
	return out, stopped
}

// chunkRows is the number of completions that are sampled together: their keys and values have a
// quarter of the card's memory at most.
func (n *network) chunkRows(most int) int {
	const largest = 1024
	_, total := n.g.dev.MemoryInfo()
	row := 4 * n.Config.Layers * most * 2 * n.keys()
	return min(largest, max(1, total/4/row))
}

// contexts are the prompts' keys and values.
type contexts struct {
	rows    int          // tokens of all prompts
	kv      cuda.Pointer // (layers, rows, 2 kv): keys, then values
	ranges  []int32      // (prompts, 4): the first row and the number of rows of two parts of kv
	lengths []int        // tokens of each prompt
	longest int
	final   cuda.Pointer // (prompts, hidden), the normalised last state of each
}

// readPrompts runs the prompts forward. It takes back all memory of the arena.
func (n *network) readPrompts(prompts [][]int) (*contexts, error) {
	c := n.Config
	segments, leaf := decoder.PromptTree(prompts)
	t, err := decoder.NewTree(segments)
	if err != nil {
		return nil, err
	}
	n.mem.Reset()
	x := &contexts{rows: len(t.Tokens), kv: n.mem.floats(c.Layers * len(t.Tokens) * 2 * n.keys()),
		final: n.mem.floats(len(prompts) * c.Hidden)}
	last := make([]int32, len(prompts))
	for i, s := range leaf {
		shared := [2]int32{}
		if above := t.Context[s]; len(above) > 0 {
			shared = [2]int32{int32(t.Start[above[0]]), int32(len(segments[above[0]].Tokens))}
		}
		own := len(segments[s].Tokens)
		x.ranges = append(x.ranges, shared[0], shared[1], int32(t.Start[s]), int32(own))
		x.lengths, last[i] = append(x.lengths, t.Before[s]+own), int32(t.Start[s]+own-1)
		x.longest = max(x.longest, x.lengths[i])
	}
	defer n.mem.Back(n.mem.Mark())
	p := n.newPass(t, false)
	in, out := p.states(), p.states()
	n.g.gather(p.n, c.Hidden, p.ids, n.at(n.Embed), in)
	for l := range n.Layers {
		mark := n.mem.Mark()
		s, kv := decoder.NewSaved(p, n.Network, in, p.states()), 2*n.keys()
		decoder.Block(p, n.Network, l, s, out)
		n.g.launchDecoder(n.g.card.Columns(kernels.CopyColumns, x.rows, kv), cuda.I(x.rows), cuda.I(kv),
			cuda.P(s.QKV.Add(n.heads())), cuda.I(n.row()), cuda.P(x.layer(n, l)), cuda.I(kv))
		n.mem.Back(mark)
		in, out = out, in
	}
	n.g.gather(len(prompts), c.Hidden, upload(n.mem, last), p.norm(in, n.Norm), x.final)
	return x, nil
}

// layer are the keys and values of a layer.
func (x *contexts) layer(n *network, l int) cuda.Pointer { return x.kv.Add(l * x.rows * 2 * n.keys()) }

// fetch downloads n numbers, which are there after the next Sync.
func fetch[T int32 | float32](g *device, n int, from cuda.Pointer) []T {
	to := make([]T, n)
	_ = cuda.FetchAt(g.dev, to, from)
	return to
}

// collect downloads the completions.
func (d *decoding) collect() error {
	rows, all := len(d.out), len(d.out)*d.opt.MaxTokens
	tokens, lengths := fetch[int32](d.g, all, d.tokens), fetch[int32](d.g, rows, d.lengths)
	logps, entropies := fetch[float32](d.g, all, d.logps), fetch[float32](d.g, all, d.entropies)
	if err := d.g.dev.Sync(); err != nil {
		return err
	}
	for i := range d.out {
		o, n, most := &d.out[i], int(lengths[i]), d.opt.MaxTokens
		if err := fill(o, i, n, most, tokens, logps); err != nil {
			return err
		}
		o.Entropies = slices.Clone(entropies[i*most : i*most+n])
		o.Ended = slices.Contains(d.end, o.Tokens[n-1])
	}
	return nil
}
