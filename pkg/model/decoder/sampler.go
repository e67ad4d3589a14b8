package decoder

import (
	"fmt"
	"slices"

	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
)

// sampler completes prompts with a key-value cache. What prompts share is read once, and
// so is a prompt for its group. Its arithmetic is that of [pass], so that log-
// probabilities have the same bits.
type sampler struct {
	net      *Network
	packed   *Network        // the same with its matrices in the form that is fast for few rows
	own      []kernel.Packed // of matrices that are not frozen
	adapters [][]kernel.Packed
	pool     *kernel.Pool
	end      []int
	choosers []*model.Chooser
	mem      *arena
}

func newSampler(net *Network, pool *kernel.Pool, mem *arena, end []int) *sampler {
	s := &sampler{net: net, pool: pool, mem: mem, end: end}
	s.Refresh()
	return s
}

// Refresh reads the parameters again.
func (s *sampler) Refresh() {
	n := *s.net
	n.Layers = slices.Clone(n.Layers)
	matrices := []*Projection{&n.Head}
	for i := range n.Layers {
		matrices = append(matrices, n.Layers[i].matrices()...)
	}
	if s.own == nil {
		s.own, s.adapters = make([]kernel.Packed, len(matrices)), make([][]kernel.Packed, len(matrices))
	}
	s.pool.Run(len(matrices), func(i, _ int) {
		m := matrices[i]
		if m.packed == nil {
			m.packInto(m.W, &s.own[i])
			m.packed = &s.own[i]
		}
		s.adapters[i] = m.Adapters.packInto(s.adapters[i], m.In)
		m.Adapters.packed = s.adapters[i]
	})
	s.packed = &n
}

// Close has nothing to free.
func (s *sampler) Close() {}

// context is a prompt's keys and values: for each layer and key head (dim, tokens) and
// (tokens, dim), packed because every token of every completion multiplies by them.
type context struct {
	tokens int
	k, v   []kernel.Packed // by layer·kvHeads + head
}

// decoding is the state of one chunk of a call of Sample, and the CPU's [Machine] of its rows, which are
// the completions that have not ended.
type decoding struct {
	cpuRows
	from     *sampler
	opt      model.Sampling
	contexts []context   // of the prompts
	first    int         // index of the first prompt
	group    int         // completions of a prompt
	sample   int         // index of the first of them
	most     int         // tokens of a completion
	k, v     []float32   // (layers, completions, kv heads, most, dim): own keys and values
	rows     []int       // the completion of each row
	tokens   []int       // (rows), the last token of each
	probs    [][]float32 // of each chooser, (vocabulary)
	at       int         // the token that is fed

	x, norm   []float32 // (rows, hidden)
	saved     *Saved[[]float32]
	positions []int
	scores    [][]float32 // of each worker: (query heads of a key head, tokens)
	logits    []float32   // (headRows, vocabulary)
}

// Sample implements [model.Sampler].
func (s *sampler) Sample(prompts [][]int, group int, opt model.Sampling, draws model.Draws) (
	[]model.Completion, error,
) {
	out, err := s.SampleEach(prompts, group, []model.Sampling{opt}, draws)
	if out == nil {
		return nil, err
	}
	return out[0], err
}

// SampleEach reads the prompts once: see [model.SampleEach].
func (s *sampler) SampleEach(prompts [][]int, group int, opts []model.Sampling,
	draws model.Draws) ([][]model.Completion, error) {
	c, longest, most := s.net.Config, 0, 0
	for _, ids := range prompts {
		longest = max(longest, len(ids))
	}
	out := make([][]model.Completion, len(opts))
	for i, opt := range opts {
		if err := s.net.CheckPrompts(prompts, group, opt); err != nil {
			return nil, err
		}
		out[i], most = make([]model.Completion, len(prompts)*group), max(most, opt.MaxTokens)
	}
	// Numbers do not depend on the batch, so a large one is cut to save memory.
	together := chunkRows(c.Layers * 2 * attentionOf(c).kv() * most)
	size := max(1, together/group)
	for lo := 0; lo < len(prompts); lo += size {
		hi := min(lo+size, len(prompts))
		contexts, final, err := s.readPrompts(prompts[lo:hi])
		if err != nil {
			return nil, err
		}
		for i, opt := range opts {
			rows := out[i][lo*group : hi*group]
			for at := 0; at < len(rows); at += size * together { // a group of more rows is cut, too
				mark, end := s.mem.Mark(), min(at+size*together, len(rows))
				d := &decoding{
					cpuRows: cpuRows{net: s.packed, pool: s.pool, mem: s.mem, attn: attentionOf(c)}, from: s, opt: opt,
					contexts: contexts, first: lo, group: min(group, end-at), sample: at, most: opt.MaxTokens,
				}
				err := d.complete(rows[at:end], final, longest, draws)
				s.mem.Back(mark)
				if err != nil {
					return out, err
				}
			}
		}
	}
	return out, nil
}

// CheckPrompts returns an error for settings, a group size or prompts that a sampler of the network
// can't use.
func (n *Network) CheckPrompts(prompts [][]int, group int, opt model.Sampling) error {
	if err := opt.CheckPrompts(prompts, group, n.Config.Vocab); err != nil {
		return err
	}
	for _, ids := range prompts {
		if most := n.Config.Context; len(ids)+opt.MaxTokens > most {
			return fmt.Errorf("sample: a prompt of %d tokens and %d new ones exceed the model's context of %d", len(ids),
				opt.MaxTokens, most)
		}
	}
	return nil
}

// chunkRows is the number of completions that are sampled together; floats is the length of one completion's
// keys and values. A chunk takes as long as its longest completion, so large chunks are faster. Beyond 64
// completions the keys and values of a chunk take at most a gigabyte.
func chunkRows(floats int) int { return min(model.ReadTogether, max(64, 1<<28/max(1, floats))) }

// readPrompts runs the prompts forward and returns their keys and values, and the
// normalised last state of each, (prompts, hidden).
func (s *sampler) readPrompts(prompts [][]int) ([]context, []float32, error) {
	c := s.net.Config
	segments, leaf := PromptTree(prompts)
	t, err := NewTree(segments)
	if err != nil {
		return nil, nil, err
	}
	s.mem.Reset()
	contexts := make([]context, len(prompts))
	for i, seg := range leaf {
		x := context{tokens: t.Before[seg] + len(segments[seg].Tokens)}
		for range c.Layers * c.KVHeads {
			x.k = append(x.k, kernel.NewPacked(c.HeadDim, x.tokens, s.mem.floats))
			x.v = append(x.v, kernel.NewPacked(x.tokens, c.HeadDim, s.mem.floats))
		}
		contexts[i] = x
	}
	defer s.mem.Back(s.mem.Mark())
	p := newPass(s.packed, s.pool, s.mem, t, false)
	x, out := p.embed(), p.states()
	for l := range s.packed.Layers {
		mark := s.mem.Mark()
		saved := NewSaved(p, s.packed, x, p.states())
		Block(p, s.packed, l, saved, out)
		s.pool.Run(len(prompts)*c.KVHeads, func(task, worker int) {
			contexts[task/c.KVHeads].read(p, leaf[task/c.KVHeads], l, task%c.KVHeads, saved.QKV, p.scratch[worker].k)
		})
		s.mem.Back(mark)
		x, out = out, x
	}
	x, _ = p.norm(x, s.net.Norm)
	final := make([]float32, len(prompts)*c.Hidden)
	for i, seg := range leaf {
		last := t.Start[seg] + len(segments[seg].Tokens) - 1
		copy(final[i*c.Hidden:(i+1)*c.Hidden], x[last*c.Hidden:])
	}
	return contexts, final, nil
}

// read packs the keys and values of a layer and key head that a segment sees. rows is
// memory for them.
func (x *context) read(p *pass, segment, layer, head int, qkv, rows []float32) {
	a, seen, tokens := p.attn, p.tree.visible(segment), p.tree.Before[segment]+len(p.tree.Segments[segment].Tokens)
	i, at := layer*a.kvHeads+head, a.q()+head*a.dim
	a.gather(p.tree, seen, qkv, at, rows)
	kernel.PackB(true, a.dim, tokens, rows, a.dim, &x.k[i])
	a.gather(p.tree, seen, qkv, at+a.kv(), rows)
	kernel.PackB(false, tokens, a.dim, rows, a.dim, &x.v[i])
}

// PromptTree is the tree of prompts: what all of them begin with, then the rest of
// each, which has at least one token. leaf is the segment of each prompt.
func PromptTree(prompts [][]int) (segments []Segment, leaf []int) {
	shared := model.SharedPrefix(prompts)
	parent := -1
	if shared > 0 && len(prompts) > 1 {
		segments, parent = append(segments, Segment{Parent: -1, Tokens: narrow(prompts[0][:shared])}), 0
	} else {
		shared = 0
	}
	for _, ids := range prompts {
		leaf = append(leaf, len(segments))
		segments = append(segments, Segment{Parent: parent, Tokens: narrow(ids[shared:])})
	}
	return segments, leaf
}

func narrow(ids []int) []int32 {
	out := make([]int32, len(ids))
	for i, id := range ids {
		out[i] = int32(id)
	}
	return out
}

// complete samples the completions, from final, the last states of the prompts.
func (d *decoding) complete(out []model.Completion, final []float32, longest int, draws model.Draws) error {
	c := d.net.Config
	n, h := len(out), c.Hidden
	d.n = n
	size := c.Layers * n * d.attn.kv() * d.most
	d.k, d.v = d.mem.floats(size), d.mem.floats(size)
	d.x, d.norm = d.Matrix(h), d.Matrix(h)
	d.saved = NewSaved(d, d.net, d.x, d.x)
	d.newRotations()
	d.positions = make([]int, n)
	d.logits, d.rows, d.tokens = d.mem.floats(min(n, headRows)*c.Vocab), make([]int, n), make([]int, n)
	for range d.pool.Threads() {
		d.scores = append(d.scores, d.mem.floats(d.attn.group()*(longest+d.most)))
	}
	for i := range min(n, headRows) {
		if i == len(d.from.choosers) {
			d.from.choosers = append(d.from.choosers, model.NewChooser(c.Vocab, d.from.end))
		}
		d.probs = append(d.probs, d.mem.floats(c.Vocab))
	}
	// Every completion of a group begins with the distribution after its prompt.
	for i := range out {
		d.rows[i] = i
		copy(d.norm[i*h:(i+1)*h], final[i/d.group*h:(i/d.group+1)*h])
	}
	for t := 0; ; t++ {
		live := len(d.rows)
		d.choose(out, t, draws)
		if d.opt.Watch != nil {
			ended := live - len(d.rows)
			if err := d.opt.Watch(live, ended, ended*(d.most-t-1)); err != nil {
				return err
			}
		}
		if len(d.rows) == 0 {
			return nil
		}
		d.step(t)
	}
}

// choose picks token t of every row from the states in d.norm, and drops the rows that
// have ended.
func (d *decoding) choose(out []model.Completion, t int, draws model.Draws) {
	c := d.net.Config
	ended := make([]bool, len(d.rows))
	for from := 0; from < len(d.rows); from += headRows {
		n := min(headRows, len(d.rows)-from)
		d.net.Head.forward(d.pool, n, d.norm[from*c.Hidden:], false, d.logits)
		d.pool.Run(n, func(r, _ int) {
			i := d.rows[from+r]
			logits := d.logits[r*c.Vocab : (r+1)*c.Vocab]
			if c.FinalSoftcap != 0 {
				kernel.SoftCap(logits, 1, float32(c.FinalSoftcap), nil)
			}
			var u float64
			if !d.opt.Greedy {
				u = draws.At(d.first+i/d.group, d.sample+i%d.group, t)
			}
			o := &out[i]
			d.tokens[from+r] = AppendToken(o, d.from.choosers[r], logits, d.probs[r], d.opt, u)
			o.Ended = d.opt.Ends(o.Tokens, d.from.end)
			ended[from+r] = o.Ended || t+1 == d.most
		})
	}
	kept := 0
	for r, i := range d.rows {
		if !ended[r] {
			d.rows[kept], d.tokens[kept] = i, d.tokens[r]
			kept++
		}
	}
	d.rows = d.rows[:kept]
}

// AppendToken chooses the next token of a completion from its logits, with the uniform number u, and
// adds it. probs is memory for as many probabilities; logits are those of the kept tokens afterwards.
func AppendToken(o *model.Completion, w *model.Chooser, logits, probs []float32, opt model.Sampling,
	u float64) (id int) {
	inv := opt.InverseTemperature()
	peak, logSum, entropy := kernel.Softmax(len(logits), logits, inv, probs)
	id = w.Choose(probs, logits, opt, len(o.Tokens), u)
	if opt.Restricted && opt.Cuts() {
		kept := w.Kept(probs, opt, len(o.Tokens), id)
		o.Kept = append(o.Kept, kept)
		if kept != nil {
			kept.Restrict(logits)
			peak, logSum, entropy = kernel.Softmax(len(logits), logits, inv, probs)
		}
	}
	o.Tokens = append(o.Tokens, id)
	o.LogProbs = append(o.LogProbs, kernel.LogProb(logits[id], peak, inv, logSum))
	o.Entropies = append(o.Entropies, entropy)
	if opt.Cuts() {
		o.KeptMass += w.Mass()
	}
	return id
}

// step feeds token t of every row and leaves the normalised states in d.norm.
func (d *decoding) step(t int) {
	net := d.net
	h := net.Config.Hidden
	d.n, d.at = len(d.rows), t
	for r, id := range d.tokens[:d.n] {
		net.embed(id, d.x[r*h:(r+1)*h])
		d.positions[r] = d.contexts[d.rows[r]/d.group].tokens + t
	}
	d.place(d.positions[:d.n])
	for i := range net.Layers {
		Block(d, net, i, d.saved, d.x)
	}
	d.Norm(d.x, net.Norm, d.norm)
}

// Attend is attention over the prompt and over the tokens that were fed.
func (d *decoding) Attend(layer int, s *Saved[[]float32]) {
	heads := d.attn.kvHeads
	d.pool.Run(d.n*heads, func(task, worker int) { d.attend(layer, task/heads, task%heads, s, d.scores[worker]) })
}

// attend stores the key and value of a row and computes its attention for the query
// heads of one key head.
func (d *decoding) attend(layer, row, head int, s *Saved[[]float32], scores []float32) {
	a, i, t := d.attn.in(&d.net.Layers[layer]), d.rows[row], d.at
	ctx := &d.contexts[i/d.group]
	qkv := s.QKV[row*a.width() : (row+1)*a.width()]
	own := ((layer*len(d.contexts)*d.group+i)*a.kvHeads + head) * d.most * a.dim
	k, v := d.k[own:own+(t+1)*a.dim], d.v[own:own+(t+1)*a.dim]
	copy(k[t*a.dim:], qkv[a.q()+head*a.dim:])
	copy(v[t*a.dim:], qkv[a.q()+a.kv()+head*a.dim:])
	q, n, group := qkv[head*a.group()*a.dim:], ctx.tokens, a.group()
	width := n + t + 1
	before, at := &ctx.k[layer*a.kvHeads+head], &ctx.v[layer*a.kvHeads+head]
	kernel.GemmPacked(false, group, n, a.dim, q, a.dim, before, false, scores, width)
	kernel.Gemm(false, true, group, t+1, a.dim, q, a.dim, k, a.dim, false, scores[n:], width)
	first := a.first(n + t)
	for g := range group {
		p := scores[g*width : (g+1)*width]
		a.softmax(p[first:], nil)
		clear(p[:first])
	}
	out := s.Attn[row*a.q()+head*group*a.dim:]
	kernel.GemmPacked(false, group, a.dim, n, scores, width, at, false, out, a.dim)
	kernel.Gemm(false, false, group, a.dim, t+1, scores[n:], width, v, a.dim, true, out, a.dim)
}
