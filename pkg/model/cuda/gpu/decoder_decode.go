//go:build withcuda && linux

package gpu

import (
	"runtime"
	"slices"
	"sync"

	"grpo/pkg/model"
	"grpo/pkg/model/cuda"
	"grpo/pkg/model/decoder"
)

// decoding is the state of completing prompts. Rows are the completions; one that has ended stays in
// the batch, unchanged, until all have.
type decoding struct {
	rows
	contexts *contexts
	opt      model.Sampling
	end      []int
	group    int
	first    int // index of the first prompt
	out      []model.Completion

	own               cuda.Pointer // (layers, rows, MaxTokens, 2 kv): own keys and values
	ranges, base      cuda.Pointer // see contexts; (rows), the position of a completion's first token
	tables            []rotation   // of all positions
	x, normed, logits cuda.Pointer // (rows, ...)
	saved             *decoder.Saved[cuda.Pointer]
	next, ended       cuda.Pointer // (rows): the last token; not 0 after the end
	step, alive       cuda.Pointer // one number each: see [kernels.Choose]

	// Only where the device chooses the tokens.
	uniform, ends, tokens, logps, entropies, lengths cuda.Pointer
}

// complete samples the completions.
func (d *decoding) complete(draws model.Draws) error {
	d.allocate()
	h, rows := d.Config.Hidden, len(d.out)
	owners := make([]int32, rows)
	for i := range owners {
		owners[i] = int32(i / d.group)
	}
	// Every completion of a group begins with the distribution after its prompt.
	d.g.gather(rows, h, upload(d.mem, owners), d.contexts.final, d.normed)
	d.project(&d.Head, rows, d.normed, false, d.logits)
	if d.opt.Stop != nil || !d.opt.Greedy && (d.opt.TopP < 1 || d.opt.TopK > 0) {
		return d.onHost(draws)
	}
	return d.onDevice(draws)
}

func (d *decoding) allocate() {
	c, rows, f := d.Config, len(d.out), d.mem.floats
	d.own = f(c.Layers * rows * d.opt.MaxTokens * 2 * d.keys())
	d.x, d.normed, d.logits = d.Matrix(c.Hidden), d.Matrix(c.Hidden), d.Matrix(c.Vocab)
	d.saved = decoder.NewSaved(d, d.Network, d.x, d.x)
	d.newRotations()
	base := make([]int32, rows)
	for i := range base {
		base[i] = int32(d.contexts.lengths[i/d.group])
	}
	d.ranges, d.base = upload(d.mem, d.contexts.ranges), upload(d.mem, base)
	d.tables = d.rotations(d.contexts.longest + d.opt.MaxTokens)
	d.next, d.ended, d.step, d.alive = f(rows), d.mem.zeros(rows), d.mem.zeros(1), d.mem.zeros(1)
}

// feed runs the last token of every row through the network and writes the logits of the next.
func (d *decoding) feed() {
	defer d.mem.Back(d.mem.Mark())
	c, g, rows, half := d.Config, d.g, len(d.out), d.Config.HeadDim/2
	g.gather(rows, c.Hidden, d.next, d.at(d.Embed), d.x)
	for i, table := range d.tables {
		for _, r := range [][2]cuda.Pointer{{table.cos, d.rotation[i].cos}, {table.sin, d.rotation[i].sin}} {
			g.launchDecoder(g.card.GatherShifted(rows, half), cuda.I(rows), cuda.I(half), cuda.P(d.base), cuda.P(d.step),
				cuda.P(r[0]), cuda.P(r[1]))
		}
	}
	for i := range d.Layers {
		decoder.Block(d, d.Network, i, d.saved, d.x)
	}
	d.Norm(d.x, d.Network.Norm, d.normed)
	d.project(&d.Head, rows, d.normed, false, d.logits)
	g.launchDecoder(g.card.NextStep(), cuda.P(d.step), cuda.P(d.alive))
}

// Keep allocates nothing: nothing is differentiated.
func (d *decoding) Keep(*decoder.Layer, *decoder.Saved[cuda.Pointer]) {}

// Attend is attention over the prompt and over the tokens that were fed.
func (d *decoding) Attend(i int, s *decoder.Saved[cuda.Pointer]) {
	own := d.own.Add(i * d.n * d.opt.MaxTokens * 2 * d.keys())
	d.g.launchOf(d.attention, d.plan.Decode(d.n), cuda.I(d.group), cuda.I(d.opt.MaxTokens), cuda.P(d.step),
		cuda.P(d.ranges), cuda.F(d.Config.AttentionScale()), cuda.P(d.contexts.layer(d.network, i)), cuda.P(own),
		cuda.P(s.QKV), cuda.P(d.ended), cuda.P(s.Attn))
}

// onDevice chooses the tokens on the device. From the third token on, a step is a recorded graph: its
// kernels take less time than their launches would.
func (d *decoding) onDevice(draws model.Draws) error {
	rows, most := len(d.out), d.opt.MaxTokens
	if !d.opt.Greedy {
		uniform := make([]float64, 0, rows*most)
		for i := range rows {
			for t := range most {
				uniform = append(uniform, draws.At(d.first+i/d.group, i%d.group, t))
			}
		}
		d.uniform = upload(d.mem, uniform)
	}
	end := make([]int32, len(d.end))
	toInt32(end, d.end)
	d.ends = upload(d.mem, end)
	d.tokens, d.logps, d.entropies = d.mem.floats(rows*most), d.mem.floats(rows*most), d.mem.floats(rows*most)
	d.lengths = d.mem.zeros(rows)
	d.choose()
	var step *cuda.Graph
	defer func() { step.Close() }()
	for t := 1; ; t++ {
		alive := fetch[int32](d.g, 1, d.alive)
		if err := d.g.dev.Sync(); err != nil {
			return err
		}
		if alive[0] == 0 {
			return d.collect()
		}
		switch {
		case t == 1: // allocates what a recording may not
			d.feed()
			d.choose()
			continue
		case step == nil:
			var err error
			if step, err = d.g.dev.Record(func() error { d.feed(); d.choose(); return nil }); err != nil {
				return err
			}
		}
		if err := step.Launch(); err != nil {
			return err
		}
	}
}

// choose chooses a token of every row from the logits.
func (d *decoding) choose() {
	c, rows := d.Config, len(d.out)
	d.g.launchDecoder(d.g.card.Choose(rows, c.Vocab), cuda.I(rows), cuda.I(c.Vocab), cuda.P(d.logits),
		cuda.F(d.opt.InverseTemperature()), cuda.I(d.opt.MinTokens), cuda.I(d.opt.MaxTokens), flag(d.opt.Greedy),
		cuda.P(d.ends), cuda.I(len(d.end)), cuda.P(d.uniform), cuda.P(d.step), cuda.P(d.tokens), cuda.P(d.logps),
		cuda.P(d.entropies), cuda.P(d.lengths), cuda.P(d.ended), cuda.P(d.next), cuda.P(d.alive))
}

// onHost downloads the logits and chooses the tokens on the host, with top-k and top-p, or to stop at texts.
func (d *decoding) onHost(draws model.Draws) error {
	c, rows := d.Config, len(d.out)
	if err := grow(d.g, &d.g.decoders.x, rows*c.Vocab); err != nil {
		return err
	}
	logits := d.g.decoders.x[:rows*c.Vocab]
	next, ended := make([]int32, rows), make([]int32, rows)
	for t := 0; ; t++ {
		_ = cuda.FetchAt(d.g.dev, logits, d.logits)
		if err := d.g.dev.Sync(); err != nil {
			return err
		}
		var wait sync.WaitGroup
		part := (rows + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0)
		for lo := 0; lo < rows; lo += part {
			wait.Go(func() {
				w, probs := model.NewChooser(c.Vocab, d.end), make([]float32, c.Vocab)
				for i := lo; i < min(lo+part, rows); i++ {
					if o := &d.out[i]; ended[i] == 0 {
						u := draws.At(d.first+i/d.group, i%d.group, t)
						id := decoder.AppendToken(o, w, logits[i*c.Vocab:(i+1)*c.Vocab], probs, d.opt, u)
						o.Ended = d.opt.Ends(o.Tokens, d.end)
						next[i] = int32(id)
						if o.Ended || t+1 == d.opt.MaxTokens {
							ended[i] = 1
						}
					}
				}
			})
		}
		wait.Wait()
		if !slices.Contains(ended, 0) {
			return nil
		}
		_ = cuda.UploadAt(d.g.dev, d.next, next)
		_ = cuda.UploadAt(d.g.dev, d.ended, ended)
		d.feed()
	}
}
