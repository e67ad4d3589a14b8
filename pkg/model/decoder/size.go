package decoder

import (
	"grpo/pkg/model"
	"grpo/pkg/model/hf"
)

// The memory of a decoder in bytes, known before allocation. The formulas follow the
// requests of block.go, pass.go, head.go and sampler.go; TestMemory compares them with
// what an arena hands out.

const float = 4 // bytes

func (s Size) ParamBytes() float64 { return float * s.trained() }

// WorkBytes implements [model.Size]: gradients, the critic, packed weights, and an arena that is large
// enough for each pass. Under LoRA the learner has a matrix, or a part of one, that is not packed.
func (s Size) WorkBytes(u model.Use, threads int) float64 {
	bytes, most := float64(u.Samplers)*s.packedBytes(), 0.0
	if u.Learner {
		bytes += s.ParamBytes()
		if s.LoRA != nil && !s.GPU {
			head := Projection{In: s.Hidden, Out: s.Vocab}
			bytes += float * float64(s.Hidden) * float64(max(2*s.FFN, head.unpackedRows()))
		}
	}
	if u.Critic {
		bytes += 4 * s.ParamBytes() // its parameters, gradients and moments
	}
	if s.GPU {
		return bytes
	}
	for _, b := range u.Sample {
		most = max(most, s.sampling(b, threads))
	}
	const partlyFilled = 1.05
	if !u.Learner && u.Scorers == 0 { // a reward model's head has one output
		s.Vocab = 1
	}
	return bytes + partlyFilled*float*max(most, s.pass(u.Learn, true, threads), s.pass(u.Score, false, threads))
}

// packedBytes are the sampler's packed weights. Under LoRA the base has no others, except the embedding of
// an untied head; in bf16 embedding and head are there in float32, too. Beside a GPU nothing is packed.
func (s Size) packedBytes() float64 {
	switch {
	case s.GPU && s.LoRA != nil:
		return float * s.Parameters()
	case s.GPU:
		return 0
	}
	packed, embed, head := s.Parameters(), 0.0, 0.0 // embed and head in float32
	if one := float64(s.Vocab) * float64(s.Hidden); !s.Tied {
		packed, embed, head = packed-one, one, one
	} else if s.BF16 {
		embed = one
	}
	if s.BF16 {
		packed /= 2
	} else {
		head = 0
	}
	if s.LoRA != nil {
		packed += embed + head + s.trained() // adapters are packed, too
	}
	return float * packed
}

func (s Size) Vocabulary() int { return s.Vocab }

func (s Size) SampledBytes(prompts, group, maxTokens float64) float64 {
	const completion, token = 112, 8 + 4 + 4
	return prompts * group * (completion + maxTokens*token)
}

// tokens are the inputs of a batch.
func tokens(b model.BatchSize) float64 {
	return b.PromptTokens - max(0, b.Prompts-1)*b.Shared + b.Tokens
}

// projections are the numbers of a token's queries, and of its queries, keys and values.
func (s Size) projections() (q, width float64) {
	q = float64(s.Heads * s.HeadDim)
	return q, q + 2*float64(s.KVHeads*s.HeadDim)
}

// saved are the numbers of [Saved] for a token, apart from its input.
func (s Size) saved(backward bool) float64 {
	q, width := s.projections()
	n := float64(s.Hidden) + width + q + 2*float64(s.FFN)
	if s.QKNorm && backward {
		n += width + float64(s.Heads+s.KVHeads)
	}
	return n
}

// rotations are the cosines and sines of a token.
func (s Size) rotations() float64 {
	if s.LocalTheta != 0 {
		return 2 * float64(s.HeadDim)
	}
	return float64(s.HeadDim)
}

// after are the numbers for a token of what is normalised before it is added to the residual stream.
func (s Size) after() float64 {
	if s.Norms == hf.NormBefore {
		return 0
	}
	return float64(s.Hidden)
}

// pass are the numbers of a pass over a batch.
func (s Size) pass(b model.BatchSize, backward bool, threads int) float64 {
	n, h, f, layers := tokens(b), float64(s.Hidden), float64(s.FFN), float64(s.Layers)
	if n == 0 {
		return 0
	}
	q, width := s.projections()
	places := int(min(b.Tokens, 1<<31))
	kept := backward && s.FinalSoftcap == 0 // logits
	most, _ := lossParts(places, s.Vocab, kept)
	if kept { // fewer places may need more than these
		most = max(most, min(places, lossKept/s.Vocab))
	}
	head := n*(h+1) + float64(most)*(h+float64(s.Vocab))
	if !backward {
		return s.scratch(b, 1, threads) + n*(s.rotations()+3*h) + max(n*(s.saved(false)+max(h, f)+s.after()), head)
	}
	head += n*h + float64(most)*h
	if s.FinalSoftcap != 0 {
		head += float64(most) * float64(s.Vocab)
	}
	if s.LoRA != nil && (s.FinalSoftcap != 0 || most < places) {
		head += float64(places) * h // see headOp.towards
	}
	matrices := 2.0
	if s.AttnSoftcap != 0 {
		matrices++
	}
	layer := n * (2*h + 2*f + q + width + 2*s.after())
	keep := n * layers * (s.saved(true) + h)
	if b.Checkpointing {
		keep, layer = n*layers*h, layer+n*s.saved(true)
	}
	// The gradients of contexts: for runs of completions, and for prompts.
	contexts := (b.Tokens/runRows+b.Prompts)*b.LongestPrompt + b.Prompts*b.Shared
	return s.scratch(b, matrices, threads) + n*(s.rotations()+2*h) + contexts*(width-q) + keep + max(layer, head)
}

// scratch counts the numbers that [attention.newScratch] allocates, for a number of matrices of probabilities.
func (s Size) scratch(b model.BatchSize, matrices float64, threads int) float64 {
	all := b.LongestPrompt + b.Longest
	run := max(b.Shared*b.Shared, (b.LongestPrompt-b.Shared)*b.LongestPrompt, max(runRows, b.Longest)*all)
	return float64(max(1, threads)) * (2*all*float64(s.HeadDim) + matrices*run)
}

// sampling are the numbers of completing the prompts of a batch; its tokens are not read.
func (s Size) sampling(b model.BatchSize, threads int) float64 {
	if b.Prompts == 0 {
		return 0
	}
	group := b.Completions / b.Prompts
	h, f, layers := float64(s.Hidden), float64(s.FFN), float64(s.Layers)
	q, width := s.projections()
	together := float64(chunkRows(int(layers * (width - q) * b.Longest)))
	prompts := min(b.Prompts, max(1, float64(int(together/group))))
	rows := prompts * min(group, together)
	read := b
	read.Prompts, read.PromptTokens, read.Tokens = prompts, b.PromptTokens*prompts/b.Prompts, 0
	if b.LongPrompts > 0 {
		read.PromptTokens = min(b.LongPrompts, prompts*b.LongestPrompt)
	}
	contexts := layers * (width - q) * (read.PromptTokens + prompts*8) // packed in panels of 16
	pass := s.scratch(read, 1, threads) + tokens(read)*(s.rotations()+2*h+s.saved(false)+max(h, f)+s.after())
	own := rows * (layers*(width-q)*b.Longest + 2*h + width + q + 2*f + max(h, f) + s.after() + s.rotations())
	logits := 2 * min(rows, headRows) * float64(s.Vocab)
	return contexts + max(pass, own+logits)
}
