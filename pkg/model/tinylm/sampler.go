package tinylm

import (
	"slices"

	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
	"grpo/pkg/model/tinylm/tokenizer"
)

// cpuSampler is the CPU's [Decoder]: one task samples all tokens of a chunk of
// sequences.
type cpuSampler struct {
	params *Weights
	pool   *kernel.Pool
	table  []float32 // V×3H: the embedding times the first layer's input weights
	wih    []kernel.Packed
	whh    []kernel.Packed
	head   kernel.Packed
	work   []sampleWork // one for each worker
}

type sampleWork struct {
	gi, gh  []float32   // chunk×3H
	h, next [][]float32 // layers of chunk×H
	logits  []float32   // chunk×V
	probs   []float32   // V
	tokens  []int       // chunk
	live    []int       // chunk: the sequence of each row
	chooser *model.Chooser
}

func (c cpu) NewDecoder(p *Weights) Decoder {
	h, l, v, pool := p.Hidden, p.Layers, p.Vocab, c.pool
	s := &cpuSampler{params: p, pool: pool, table: make([]float32, v*3*h),
		wih: make([]kernel.Packed, l), whh: make([]kernel.Packed, l), work: make([]sampleWork, pool.Threads())}
	for i := range s.work {
		w := &s.work[i]
		w.gi, w.gh = make([]float32, maxChunk*3*h), make([]float32, maxChunk*3*h)
		for range l {
			w.h = append(w.h, make([]float32, maxChunk*h))
			w.next = append(w.next, make([]float32, maxChunk*h))
		}
		w.logits, w.probs = make([]float32, maxChunk*v), make([]float32, v)
		w.tokens, w.live = make([]int, maxChunk), make([]int, maxChunk)
		w.chooser = model.NewChooser(v, Tokenizer{}.End())
	}
	s.Refresh()
	return s
}

// Refresh reads the weights again.
func (s *cpuSampler) Refresh() {
	p := s.params
	h := p.Hidden
	s.pool.Gemm(false, true, p.Vocab, 3*h, h, p.Embed, h, p.Layer[0].Wih, h, false, s.table, 3*h)
	for i, l := range p.Layer {
		kernel.PackB(true, h, 3*h, l.Wih, h, &s.wih[i])
		kernel.PackB(true, h, 3*h, l.Whh, h, &s.whh[i])
	}
	kernel.PackB(true, h, p.Vocab, p.Head, h, &s.head)
}

// Close does nothing: there is no device memory.
func (s *cpuSampler) Close() {}

func (s *cpuSampler) Decode(out []model.Completion, prompts [][]int, group int, opt model.Sampling,
	draws model.Draws) error {
	states, n := s.readPrompts(prompts), len(out)
	size := chunkSize(n, s.pool.Cuts())
	s.pool.Run((n+size-1)/size, func(task, worker int) {
		lo := task * size
		s.complete(&s.work[worker], out[lo:min(lo+size, n)], lo, group, states, opt, draws)
	})
	return nil
}

// readPrompts returns each prompt's last state: for each layer prompts×H.
func (s *cpuSampler) readPrompts(prompts [][]int) [][]float32 {
	h := s.params.Hidden
	states := make([][]float32, s.params.Layers)
	for l := range states {
		states[l] = make([]float32, len(prompts)*h)
	}
	order := make([]int, len(prompts)) // longest first: the active ones of a chunk are a prefix
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(prompts[b]) - len(prompts[a]) })
	size := chunkSize(len(prompts), s.pool.Cuts())
	s.pool.Run((len(prompts)+size-1)/size, func(task, worker int) {
		w := &s.work[worker]
		lo := task * size
		chunk := order[lo:min(lo+size, len(order))]
		n := len(chunk)
		for l := range w.h {
			clear(w.h[l][:n*h])
		}
		for t := 0; n > 0; t++ {
			for r, i := range chunk[:n] {
				w.tokens[r] = prompts[i][t]
			}
			s.step(w, n)
			for n > 0 && len(prompts[chunk[n-1]]) == t+1 {
				n--
				for l := range states {
					copy(states[l][chunk[n]*h:(chunk[n]+1)*h], w.h[l][n*h:(n+1)*h])
				}
			}
		}
	})
	return states
}

// step feeds w.tokens to the first n rows of w and advances their states.
func (s *cpuSampler) step(w *sampleWork, n int) {
	h := s.params.Hidden
	for r, id := range w.tokens[:n] {
		copy(w.gi[r*3*h:(r+1)*3*h], s.table[id*3*h:(id+1)*3*h])
	}
	for l := range w.h {
		p := &s.params.Layer[l]
		if l > 0 {
			kernel.GemmPacked(false, n, 3*h, h, w.h[l-1], h, &s.wih[l], false, w.gi, 3*h)
		}
		kernel.GemmPacked(false, n, 3*h, h, w.h[l], h, &s.whh[l], false, w.gh, 3*h)
		kernel.GRUForward(n, h, w.gi, w.gh, p.Bih, p.Bhh, w.h[l], w.next[l], nil)
		w.h[l], w.next[l] = w.next[l], w.h[l]
	}
}

// complete samples the completions of out; the first one has the number first.
func (s *cpuSampler) complete(w *sampleWork, out []model.Completion, first, group int,
	states [][]float32, opt model.Sampling, draws model.Draws) {
	h, v := s.params.Hidden, s.params.Vocab
	inv := opt.InverseTemperature()
	n := len(out)
	for r := range n {
		prompt := (first + r) / group
		for l := range w.h {
			copy(w.h[l][r*h:(r+1)*h], states[l][prompt*h:(prompt+1)*h])
		}
		w.live[r] = r
	}
	top := len(w.h) - 1
	end := []int{tokenizer.EOS}
	for t := 0; n > 0; t++ {
		kernel.GemmPacked(false, n, v, h, w.h[top], h, &s.head, false, w.logits, v)
		kernel.AddBias(n, v, w.logits, v, s.params.HeadB)
		kept := 0
		for r := range n {
			i := w.live[r]
			c := &out[i]
			logits := w.logits[r*v : (r+1)*v]
			peak, logSum, _ := kernel.Softmax(v, logits, inv, w.probs)
			var u float64
			if !opt.Greedy {
				u = draws.At((first+i)/group, (first+i)%group, t)
			}
			id := w.chooser.Choose(w.probs, logits, opt, t, u)
			c.Tokens = append(c.Tokens, id)
			if opt.Cuts() {
				c.KeptMass += w.chooser.Mass()
			}
			if opt.Restricted && opt.Cuts() {
				kept := w.chooser.Kept(w.probs, opt, t, id)
				c.Kept = append(c.Kept, kept)
				if kept != nil {
					kept.Restrict(logits)
					peak, logSum, _ = kernel.Softmax(v, logits, inv, w.probs)
				}
			}
			c.LogProbs = append(c.LogProbs, kernel.LogProb(logits[id], peak, inv, logSum))
			if opt.Ends(c.Tokens, end) {
				c.Ended = true
				continue
			}
			if t+1 == opt.MaxTokens {
				continue
			}
			// The row continues: close the gaps that finished ones left.
			if kept != r {
				for l := range w.h {
					copy(w.h[l][kept*h:(kept+1)*h], w.h[l][r*h:(r+1)*h])
				}
			}
			w.live[kept], w.tokens[kept] = i, id
			kept++
		}
		n = kept
		if n > 0 {
			s.step(w, n)
		}
	}
}
