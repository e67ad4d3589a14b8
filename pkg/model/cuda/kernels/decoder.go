//go:build withcuda

package kernels

// Kernels of [Decoder]: the parts of a layer between its matmuls. They read and write 16 bytes at
// once where widths and distances of rows are multiples of 4 and the pointers of 16 bytes, and
// single numbers elsewhere; sums have the same order in both cases. The arithmetic of a row does not
// depend on the number of rows.
const (
	// RMSNorm computes y = w·x/√(mean(x²) + eps) for vectors of width elements. A row of x has per
	// vectors, and rows are ldx apart: vector r starts at x + (r/per)·ldx + (r mod per)·width, and
	// that of y alike. rows is the number of vectors. y may be x.
	//
	//	rms_norm(int rows, int per, int width, const float* x, int ldx, const float* w, float eps,
	//	    float* y, int ldy)
	RMSNorm = "rms_norm"
	// RMSNormBackward is the backward pass of RMSNorm, first pass: with s = 1/√(mean(x²) + eps)
	//
	//	dx (+)= s·(dy·w - x·s²·mean(dy·w·x))
	//
	// and part p (width) is the gradient of w of the vectors [p·chunk, (p+1)·chunk), Σ dy·x·s.
	// [SumParts] is the second pass. parts is NULL if w is frozen. It overwrites dx unless
	// accumulate is not 0; then dx must not be dy.
	//
	//	rms_norm_backward(int rows, int per, int width, const float* x, int ldx, const float* w,
	//	    float eps, const float* dy, int lddy, float* dx, int lddx, int accumulate, int chunk,
	//	    float* parts)
	RMSNormBackward = "rms_norm_backward"
	// RoPE rotates pairs of elements (j, j + dim/2) of the heads at the start of each row, in place,
	// as pkg/model/kernel. x is rows×heads·dim with rows ldx apart, cosines and sines rows×dim/2.
	// sign is 1, or -1 for the gradient.
	//
	//	rope(int rows, int heads, int dim, float* x, int ldx, const float* cosines,
	//	    const float* sines, float sign)
	RoPE = "rope"
	// AddRows adds bias (width) to each row of x, which are ldx apart.
	//
	//	add_rows(int rows, int width, float* x, int ldx, const float* bias)
	AddRows = "add_rows"
	// SwiGLU writes silu(gate)·up to out (rows×ffn). gateUp is rows×2ffn, gate first.
	//
	//	swiglu(int rows, int ffn, const float* gateUp, float* out)
	SwiGLU = "swiglu"
	// SwiGLUBackward replaces gateUp by its gradient, from da (rows×ffn), that of out.
	//
	//	swiglu_backward(int rows, int ffn, float* gateUp, const float* da)
	SwiGLUBackward = "swiglu_backward"
	// ToBF16 rounds to bf16: to nearest, ties to even.
	//
	//	to_bf16(long long n, const float* x, unsigned short* y)
	ToBF16 = "to_bf16"
	// SumRows sums rows by the lists of [Lists]: for each k < count
	//
	//	out[targets[k]] (+)= Σ x[order[i]] over i ascending in [from[k], from[k+1])
	//
	// Other rows of out are unchanged. Targets are distinct. The rows of x are ldx apart, those of
	// out ldo. It overwrites the rows unless accumulate is not 0.
	//
	//	sum_rows(int count, int width, const int* targets, const int* from, const int* order,
	//	    const float* x, int ldx, float* out, int ldo, int accumulate)
	SumRows = "sum_rows"
	// CopyColumns copies the first width elements of each row of x, ldx apart, to those of y, ldy
	// apart.
	//
	//	copy_columns(int rows, int width, const float* x, int ldx, float* y, int ldy)
	CopyColumns = "copy_columns"
	// GatherShifted copies row index[i] + shift[0] of x to row i of y; rows have width elements: the
	// rotations of a step of decoding.
	//
	//	gather_shifted(int n, int width, const int* index, const int* shift, const float* x, float* y)
	GatherShifted = "gather_shifted"
)

// layerKernels are the kernels of layer.cu.
var layerKernels = []string{
	RMSNorm, RMSNormBackward, RoPE, AddRows, SwiGLU, SwiGLUBackward, ToBF16, SumRows, CopyColumns, GatherShifted,
}

// normBlock is a block of the norms: a warp for each vector, or all threads for one. It depends on
// the width alone, so that a vector's sum has the same order in every launch.
func normBlock(width int) [3]int {
	if width <= 512 {
		return [3]int{32, warps, 1}
	}
	return [3]int{min(roundUp(ceil(width, 4), 32), threads), 1, 1}
}

// normSums is the shared memory of a sum over the threads of a block: two floats for each warp.
const normSums = 2 * warps * 4

// Norm is the launch of [RMSNorm] over vectors of width elements.
func (c Card) Norm(rows, width int) Launch {
	block := normBlock(width)
	return Launch{Kernel: RMSNorm, Grid: [3]int{ceil(rows, block[1]), 1, 1}, Block: block, Shared: normSums}
}

// NormBackward are the launches of [RMSNormBackward] and, if the weights are not frozen, of the sum
// of their gradients; parts needs room for Tiles·width floats.
func (c Card) NormBackward(rows, width int) (parts, sum Launch) {
	block := normBlock(width)
	chunk := max(8*block[1], ceil(rows, 2*maxParts))
	n := ceil(rows, chunk)
	parts = Launch{Kernel: RMSNormBackward, Grid: [3]int{n, 1, 1}, Block: block,
		Shared: normSums + block[1]*roundUp(width, 4)*4, Tile: chunk, Tiles: n}
	return parts, c.Sum(n, width)
}

// quads is a launch with a thread for each of the quads of each row.
func (c Card) quads(kernel string, rows, quads int) Launch {
	block := min(roundUp(quads, 32), threads)
	return Launch{Kernel: kernel, Grid: [3]int{rows * ceil(quads, block), 1, 1}, Block: [3]int{block, 1, 1}}
}

// Columns is the launch of [AddRows], [SwiGLU] and [SwiGLUBackward] (width is ffn), [CopyColumns],
// and [SumRows] (rows is count).
func (c Card) Columns(kernel string, rows, width int) Launch {
	return c.quads(kernel, rows, ceil(width, 4))
}

// GatherShifted is the launch of [GatherShifted].
func (c Card) GatherShifted(n, width int) Launch {
	l := c.Gather(n, width)
	l.Kernel = GatherShifted
	return l
}

// RoPE is the launch of [RoPE].
func (c Card) RoPE(rows, heads, dim int) Launch { return c.quads(RoPE, rows, heads*ceil(dim/2, 4)) }

// ToBF16 is the launch of [ToBF16].
func (c Card) ToBF16(n int) Launch {
	return Launch{Kernel: ToBF16, Grid: [3]int{ceil(n, 4*threads), 1, 1}, Block: [3]int{threads, 1, 1}}
}

// Lists groups equal indexes for [SumRows]. targets are the distinct indexes, ascending; the
// positions of targets[k] in index are order[from[k]:from[k+1]], ascending. Positions whose index is
// skip are left out; skip may be -1. Indexes are not negative.
func Lists(index []int32, skip int32) (targets, from, order []int32) {
	top := int32(-1)
	for _, t := range index {
		top = max(top, t)
	}
	next := make([]int32, top+1) // counts, then where the next position of each index goes
	for _, t := range index {
		if t != skip {
			next[t]++
		}
	}
	at := int32(0)
	for t, n := range next {
		if n > 0 {
			targets, from = append(targets, int32(t)), append(from, at)
		}
		next[t], at = at, at+n
	}
	from, order = append(from, at), make([]int32, at)
	for i, t := range index {
		if t != skip {
			order[next[t]] = int32(i)
			next[t]++
		}
	}
	return targets, from, order
}

// Kernels of [Decoder]: the choice of a token of each row. A step of decoding that is recorded as a
// graph reads its number from step[0]. The caller zeroes step, alive, lengths and ended, and chooses
// token 0 from the logits after the prompts by a launch of Choose. Then each run of the graph has, in
// this order,
//
//  1. the network, which reads the tokens next and their index step[0],
//  2. NextStep, directly before Choose,
//  3. Choose, after which alive[0] is the number of rows that continue.
//
// Rows that have ended keep their last token in next, so the network may compute them too.
const (
	// Choose chooses token t = step[0] of each row from its logits (rows×vocab) by the rule of
	// pkg/model (choose.go) without top-k and top-p: the first token at which the sum of
	// probabilities exceeds uniform[r·most+t] times their total or, if greedy is not 0, the likeliest
	// token, the lowest id on a tie. If t < minTokens the end tokens (ends of them) have probability
	// 0. It skips rows with ended[r] ≠ 0.
	//
	// Log-probability and entropy are those of softmax(logits·inv) over all tokens, with the bits of
	// [HeadForward] for large vocabularies. It writes tokens[r·most+t], and logps and entropies
	// likewise, lengths[r] = t+1, next[r] = the token, and ended[r] = 1 after an end token and if
	// t+1 = most. It adds the number of rows that it did not end to alive[0].
	//
	// inv is 1/temperature, 1 if greedy. entropies may be NULL, and so may uniform if greedy. The
	// token of a row with NaN or +Inf is any of the vocabulary.
	//
	//	choose(int rows, int vocab, const float* logits, float inv, int minTokens, int most, int greedy,
	//	    const int* end, int ends, const double* uniform, const int* step, int* tokens, float* logps,
	//	    float* entropies, int* lengths, int* ended, int* next, int* alive)
	Choose = "choose"
	// NextStep adds 1 to step[0] and zeroes alive[0].
	//
	//	next_step(int* step, int* alive)
	NextStep = "next_step"
)

// chooseSegment is the number of tokens with a sum in shared memory.
const chooseSegment = 512

// Choose is the launch of [Choose], for vocabularies up to 2 million.
func (c Card) Choose(rows, vocab int) Launch {
	return Launch{Kernel: Choose, Grid: [3]int{rows, 1, 1}, Block: [3]int{rowThreads, 1, 1},
		Shared: rowShared + 8*ceil(vocab, chooseSegment)}
}

// NextStep is the launch of [NextStep].
func (c Card) NextStep() Launch {
	return Launch{Kernel: NextStep, Grid: [3]int{1, 1, 1}, Block: [3]int{1, 1, 1}}
}
