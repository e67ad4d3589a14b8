//go:build withcuda

// Package kernels holds TinyLM's arithmetic for an NVIDIA GPU: CUDA C sources,
// embedded as text for NVRTC, with the name, signature and launch of each
// kernel. It calls no driver; tests run the same sources on the CPU.
//
// Every matrix is float32 and row-major; every index is int32. All pointers
// are device memory. "packed" is the time-major layout of pkg/model: sequences
// sorted by length, longest first, active[0] of them, active[s] of which take
// an s-th step. Block s of the states begins at row offset[s] = Σ active[:s];
// the input of step s and sequence rank r is row offset[s] - active[0] + r. The
// kernels read active[0..steps] and offset[0..steps].
//
// The persistent GRU kernels read lengths on the card: a launch for more
// sequences or steps than active names (zeros after the last step, offset
// filled as far) does no harm, so that a captured one serves smaller batches.
//
// No kernel adds floats atomically: sums have a fixed order, so the same
// launch on the same data gives the same bits. No kernel allocates, and none
// reads what another of the same launch writes.
//
// The launch of a kernel is a function of sizes in launch.go and gru.go; what
// to compile is in modules.go. A launch of an empty grid (a size of 0) must be
// skipped by the caller: see Launch.Empty.
//
// # What an update costs
//
// With R completions of 64 tokens, groups of 8 and prompts of 64 tokens, two
// layers and a vocabulary of 100, the recurrence sees 71·R tokens (the prompts
// once for a group). A token costs 18·H² floating-point operations forward
// (6·H² for each W_hh and for the second layer's W_ih; a table replaces the
// first's) and twice that back, and moves about 35·H floats for each layer
// through memory (the gates, saved and turned into their gradients, are 4·H of
// them, read or written six times). On an H200, 67 TFLOP/s in float32 and 4.8
// TB/s, so at least:
//
//	            R = 256              R = 4096
//	H = 64      0.07 ms, 0.07 ms     1.1 ms, 1.1 ms    (arithmetic, memory)
//	H = 256     1.0 ms,  0.3 ms      16 ms,  4.4 ms
//	H = 1024    16 ms,   1.1 ms      250 ms, 18 ms
//
// A second bound is the chain of steps, 64 + 63 for each layer and direction,
// 508 in all, which nothing shortens but the time of a step: hence kernels that
// keep W_hh in registers and launch once for a sequence (one launch for each
// layer, segment and direction, 8 in an update of two layers; step by step
// it would be some 1000 launches). Counted from the machine code for sm_90, half
// of the instructions of a step are multiply-adds of the matmul at H = 64, and
// three fifths at H = 128 and 256: with all schedulers busy, so much of the peak.
package kernels

// Kernels of [Base]: elementwise work and sums.
const (
	// Fill sets n elements to value.
	//
	//	fill(long long n, float value, float* x)
	Fill = "fill"
	// Axpy adds alpha·x to y.
	//
	//	axpy(long long n, float alpha, const float* x, float* y)
	Axpy = "axpy"
	// Add writes a + b to y; y may be a or b.
	//
	//	add(long long n, const float* a, const float* b, float* y)
	Add = "add"
	// Scale multiplies x by alpha in place.
	//
	//	scale(long long n, float alpha, float* x)
	Scale = "scale"
	// GatherRows copies rows: y[i] = x[index[i]]. x is ?×width, y n×width.
	//
	//	gather_rows(int n, int width, const int* index, const float* x, float* y)
	GatherRows = "gather_rows"
	// ScatterAddRows adds rows up by their index: for each k < count, with
	// t = targets[k] (k itself where targets is NULL),
	//
	//	out[t] (+)= Σ x[i] over i ascending with index[i] = t
	//
	// Rows of out that no k names are left alone. The targets are distinct. x is
	// n×width with rows ldx apart, out ?×width, rows ldo apart. It reads index
	// once for each target: meant for few targets, or few rows. It overwrites
	// the named rows unless accumulate is not 0.
	//
	//	scatter_add_rows(int n, int width, const int* index, const float* x, int ldx,
	//	    const int* targets, int count, float* out, int ldo, int accumulate)
	ScatterAddRows = "scatter_add_rows"
	// TableGradParts is the first half of the sum of rows by token, for a small
	// vocabulary and many rows: part p sums the rows [p·chunk, (p+1)·chunk) of x
	// (n×width, ldx apart) into parts[p] (vocab×width) by ids, in ascending
	// order. Overwrites parts (count×vocab×width). [SumParts] over
	// vocab·width elements is the second half. See [TableGrad].
	//
	//	table_grad_parts(int n, int width, const int* ids, const float* x, int ldx,
	//	    int vocab, int chunk, float* parts)
	TableGradParts = "table_grad_parts"
	// ColSumParts is the first half of a sum over rows: part p holds
	// Σ weight[i]·x[i] over the rows [p·chunk, (p+1)·chunk) of x (n×width, ldx
	// apart); weight NULL counts as 1. Overwrites parts (count×width). See
	// [ColSum].
	//
	//	col_sum_parts(int n, int width, const float* x, int ldx, const float* weight,
	//	    int chunk, float* parts)
	ColSumParts = "col_sum_parts"
	// SumParts adds parts up: out[j] (+)= Σ parts[p·n + j] over p ascending.
	//
	//	sum_parts(int count, int n, const float* parts, float* out, int accumulate)
	SumParts = "sum_parts"
	// GRUBiasGrad adds parts (count×4H, columns of da_r, da_z, da_n, da_n·r) up
	// to the gradients of both biases: dbih (3H) = the first three, dbhh (3H) =
	// the first two and the last. Overwrites.
	//
	//	gru_bias_grad(int count, int hidden, const float* parts, float* dbih, float* dbhh)
	GRUBiasGrad = "gru_bias_grad"
	// SumSquaresParts writes Σ x² of each block's elements, in double:
	// parts has one number for each block of the launch ([SumSquares]).
	//
	//	sum_squares_parts(long long n, const float* x, double* parts)
	SumSquaresParts = "sum_squares_parts"
	// SumSquaresTotal adds parts up into total[0], one block.
	//
	//	sum_squares_total(int count, const double* parts, double* total)
	SumSquaresTotal = "sum_squares_total"
	// AdamW makes one update with pkg/model/kernel's bits. The gradient is
	// scaled by min(1, maxNorm/(√total + 1e-6)) where maxNorm > 0, in double, as
	// pkg/model's optimizer does; total is SumSquaresTotal's (NULL: no scaling,
	// no check). Where √total is not finite nothing is written. The coefficients
	// are those of kernel.AdamW:
	// decay = 1-lr·λ, step = lr/(1-β1ᵗ), invBias = 1/√(1-β2ᵗ).
	//
	//	adamw(long long n, float* w, const float* g, float* m, float* v,
	//	    float decay, float beta1, float rest1, float beta2, float rest2,
	//	    float step, float invBias, float eps, double maxNorm, const double* total)
	AdamW = "adamw"
)

// Kernels of [Base]: the GRU step by step, for hidden sizes without a
// [GRUPlan]. cuBLAS makes gh = h·W_hhᵀ (n×3H) before, and carry += dgh·W_hh
// after. All pointers are those of the step's first row.
const (
	// GRUGatesForward computes the gates and the new state of n rows.
	// gi: n×3H, or with ids (n) a table V×3H whose row ids[i] belongs to row i.
	// gh n×3H without bias; h, out n×H, apart from each other. save (n×4H: r, z,
	// n, W_hn·h+b_hn) and before (n×H: a copy of h) may be NULL.
	//
	//	gru_gates_forward(int n, int hidden, const float* gi, const int* ids, const float* gh,
	//	    const float* bih, const float* bhh, const float* h, float* out, float* save, float* before)
	GRUGatesForward = "gru_gates_forward"
	// GRUGatesBackward takes the gradient of n new states back through the
	// gates. carry (n×H) comes as what later steps send (zeros at a sequence's
	// last), dout (n×H) is added to it; carry leaves as (carry+dout)∘z, to which
	// the caller adds dgh·W_hh. before is the states the step began from (n×H),
	// gates (n×4H) is save on entry and da_r, da_z, da_n, da_n·r on return; dgh
	// (n×3H) receives da_r, da_z, da_n·r side by side.
	//
	//	gru_gates_backward(int n, int hidden, float* carry, const float* dout, const float* before,
	//	    float* gates, float* dgh)
	GRUGatesBackward = "gru_gates_backward"
)

// Kernels of [Base]: heads. rows counts states; the matmuls with the weights
// are cuBLAS's, without bias.
const (
	// HeadForward reads logits (rows×vocab, without bias), adds bias (vocab) on
	// the way and writes logp and entropy (rows each) of softmax((x+bias)·inv),
	// and stats (rows×2: the largest x+bias, log Σ exp) for the backward pass
	// (NULL: none). It does not write the logits.
	//
	//	head_forward(int rows, int vocab, const float* logits, const float* bias, float inv,
	//	    const int* targets, float* logp, float* entropy, float* stats)
	HeadForward = "head_forward"
	// HeadBackward overwrites the same logits by their gradient
	//
	//	inv·( dlogp·([j=t] - p_j) - dentropy·p_j·(log p_j + entropy) )
	//
	// dlogp and dentropy have rows elements; dentropy may be NULL.
	//
	//	head_backward(int rows, int vocab, float* logits, const float* bias, float inv,
	//	    const int* targets, const float* stats, const float* entropy,
	//	    const float* dlogp, const float* dentropy)
	HeadBackward = "head_backward"
	// ValueForward: v[i] = x[i]·w + bias[0]; x rows×hidden, w hidden.
	//
	//	value_forward(int rows, int hidden, const float* x, const float* w, const float* bias, float* v)
	ValueForward = "value_forward"
	// ValueBackward: dx[i] = dv[i]·w (overwrites). dw = [ColSum] of x weighted by
	// dv, db = ColSum of dv (width 1).
	//
	//	value_backward(int rows, int hidden, const float* dv, const float* w, float* dx)
	ValueBackward = "value_backward"
	// SamplePick chooses token number t of every live row from its logits
	// (rows×vocab, without bias), with pkg/model's rule (see sampler.go there).
	// A row is live while lengths[r] = t and ended[r] = 0; others are left alone.
	// Writes tokens[r·maxTokens+t], logps likewise, lengths[r] = t+1, ended[r] =
	// (token = eos), next[r] = token (finished rows keep theirs), and adds the
	// rows that go on to alive[0] (an integer; the caller zeroes it). lengths
	// and ended begin as zeros.
	// Random numbers: see [Rollout].
	//
	//	sample_pick(int rows, int group, int vocab, const float* logits, const float* bias,
	//	    float inv, double topP, int topK, int minTokens, int maxTokens, int greedy, int eos,
	//	    const double* uniform, unsigned k0, unsigned k1, unsigned a, unsigned b0, unsigned c0,
	//	    int t, int* tokens, float* logps, int* lengths, int* ended, int* next, int* alive)
	SamplePick = "sample_pick"
)

// Kernels of [GRUPlan.Module]: a whole sequence in one launch, no grid-wide
// waiting. Names come from the plan's Launch, which picks a variant by size.
const (
	// GRUForward runs one layer over all steps of a segment.
	//
	//	gru_forward(const float* gi, const int* ids, const float* whh, const float* bih, const float* bhh,
	//	    const float* h0, const int* active, const int* offset, int steps, int tile,
	//	    float* out, float* save, float* before)
	//
	// gi without ids: inputs×3H, x·W_ihᵀ without bias, packed. With ids
	// (inputs): a table V×3H whose row ids[i] belongs to input i. whh 3H×H as in
	// Params. h0 active[0]×H, or NULL for zeros. out (active[0]+inputs)×H, block
	// 0 included. save (inputs×4H) and before (inputs×H) may be NULL. tile is
	// Launch.Tile.
	GRUForward = "gru_forward"
	// GRUBackward goes back through all steps.
	//
	//	gru_backward(const float* dout, const float* whh, const float* states, const int* active,
	//	    const int* offset, int steps, int tile, float* gates, float* dh0, float* parts)
	//
	// dout and states (the forward pass's out) are (active[0]+inputs)×H. gates
	// (inputs×4H) comes as save and leaves as da_r, da_z, da_n, da_n·r: dgi are
	// its columns 0..3H, dgh columns 0..2H and 3H..4H. dh0 (active[0]×H, or
	// NULL) includes block 0 of dout. parts (Launch.Tiles×4H, or NULL) receives
	// column sums of gates for [GRUBiasGrad]. All are overwritten.
	GRUBackward = "gru_backward"
)

// Rollout is the kernel of [RolloutPlan.Module]: it takes rows from the last
// states of their prompts to their last tokens, in one launch: all layers, the
// head, and [SamplePick]'s choice.
//
//	rollout(const float* params, const float* table, const float* states, int rows, int group,
//	    int tile, float inv, double topP, int topK, int minTokens, int maxTokens, int greedy, int eos,
//	    const double* uniform, unsigned k0, unsigned k1, unsigned a, unsigned b0, unsigned c0,
//	    int* tokens, float* logps, int* lengths, int* ended)
//
// params is Params.Flat; table V×3H = Embed·W_ih0ᵀ; states layers×prompts×H
// (prompts = ⌈rows/group⌉), row r continues prompt r/group. tokens and logps are
// rows×maxTokens: elements after a row's length are not written. lengths and
// ended (0 or 1) have rows elements. inv is 1/temperature (1 when greedy).
//
// The number that decides token t of row r is uniform[r·maxTokens+t], or where
// uniform is NULL pkg/rng's Stream{k0,k1}.Float64(a, b0+r/group, c0+r%group, t).
const Rollout = "rollout"
