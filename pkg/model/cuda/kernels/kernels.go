//go:build withcuda

// Package kernels is the networks' arithmetic for an NVIDIA GPU: CUDA C sources, embedded for NVRTC,
// with the name, signature and launch size of each kernel. It makes no driver calls; tests run the
// same sources on the CPU.
//
// This file and gru.go are TinyLM's; decoder.go and attention.go are for Llama and Qwen
// networks, which also use the sums, the head and AdamW of this file.
//
// Matrices are float32 and row-major, indices int32, pointers device memory. "Packed" is the
// time-major layout of TinyLM: sequences sorted by length, longest first; active[0] is their
// number, active[s] that of the sequences with an s-th step. Block s of the states starts at row
// offset[s] = Σ active[:s]; the input of step s of the sequence with rank r is row offset[s] -
// active[0] + r. Kernels read active[0..steps] and offset[0..steps]. A launch with more sequences
// or steps than active has (zeros after the last step, offset filled as far) is harmless, so one
// captured launch serves smaller batches.
//
// Sums have a fixed order (no float atomics), so the same launch on the same data gives the same
// bits. No kernel allocates, and none reads global memory written by another block of the same
// launch. The caller must skip a launch with an empty grid: see [Launch.Empty].
//
// # Cost of an update
//
// With R completions of 64 tokens in groups of 8, prompts of 64 tokens and two layers, the
// recurrence runs over 71·R tokens. A token costs 18·H² FLOPs in the forward pass, twice that in
// the backward pass, and moves about 35·H floats for each layer. On an H200 (67 TFLOP/s in float32,
// 4.8 TB/s) that is at least
//
//	            R = 256              R = 4096
//	H = 64      0.07 ms, 0.07 ms     1.1 ms, 1.1 ms    (arithmetic, memory)
//	H = 256     1.0 ms,  0.3 ms      16 ms,  4.4 ms
//	H = 1024    16 ms,   1.1 ms      250 ms, 18 ms
//
// A second bound is the latency of the 508 dependent steps (64 + 63 for each layer and direction).
// So the GRU kernels keep W_hh in registers and process a whole sequence in one launch: 8 launches
// for an update instead of some 1000.
package kernels

// Kernels of [Base]: elementwise operations and sums.
const (
	// Axpy adds alpha·x to y.
	//
	//	axpy(long long n, float alpha, const float* x, float* y)
	Axpy = "axpy"
	// Add writes a + b to y, which may be a or b.
	//
	//	add(long long n, const float* a, const float* b, float* y)
	Add = "add"
	// GatherRows copies rows: y[i] = x[index[i]]. x is ?×width, y n×width.
	//
	//	gather_rows(int n, int width, const int* index, const float* x, float* y)
	GatherRows = "gather_rows"
	// ScatterAddRows sums rows by their index: for each k < count, with t = targets[k] (k itself if
	// targets is NULL),
	//
	//	out[t] (+)= Σ x[i] over i ascending with index[i] = t
	//
	// Other rows of out are unchanged. Targets are distinct. x is n×width with rows ldx apart, out
	// ?×width with rows ldo apart. Each target reads all of index: use it for few targets or few
	// rows. It overwrites the rows unless accumulate is not 0.
	//
	//	scatter_add_rows(int n, int width, const int* index, const float* x, int ldx,
	//	    const int* targets, int count, float* out, int ldo, int accumulate)
	ScatterAddRows = "scatter_add_rows"
	// TableGradParts sums rows by token for a small vocabulary, first pass: part p
	// (vocab×width) sums the rows [p·chunk, (p+1)·chunk) of x (n×width, ldx apart)
	// by ids, ascending. [SumParts] over vocab·width elements is the second pass.
	//
	//	table_grad_parts(int n, int width, const int* ids, const float* x, int ldx,
	//	    int vocab, int chunk, float* parts)
	TableGradParts = "table_grad_parts"
	// ColSumParts sums over rows, first pass: part p (width) is Σ weight[i]·x[i]
	// over the rows [p·chunk, (p+1)·chunk) of x (n×width, ldx apart); weight NULL
	// counts as 1. [SumParts] is the second pass.
	//
	//	col_sum_parts(int n, int width, const float* x, int ldx, const float* weight,
	//	    int chunk, float* parts)
	ColSumParts = "col_sum_parts"
	// SumParts adds parts: out[j] (+)= Σ parts[p·n + j] over p ascending.
	//
	//	sum_parts(int count, int n, const float* parts, float* out, int accumulate)
	SumParts = "sum_parts"
	// GRUBiasGrad sums parts (count×4H: da_r, da_z, da_n, da_n·r) into the
	// gradients of both biases: dbih (3H) is the first three, dbhh (3H) the first
	// two and the last.
	//
	//	gru_bias_grad(int count, int hidden, const float* parts, float* dbih, float* dbhh)
	GRUBiasGrad = "gru_bias_grad"
	// SumSquaresParts writes Σ x² of each block's elements to parts, in double.
	//
	//	sum_squares_parts(long long n, const float* x, double* parts)
	SumSquaresParts = "sum_squares_parts"
	// SumSquaresTotal adds parts into total[0], in one block.
	//
	//	sum_squares_total(int count, const double* parts, double* total)
	SumSquaresTotal = "sum_squares_total"
	// AdamW makes one update with the same bits as pkg/model/kernel and the same coefficients:
	// decay = 1-lr·λ, step = lr/(1-β1ᵗ), invBias = 1/√(1-β2ᵗ). The gradient is scaled by min(1,
	// maxNorm/(√total + 1e-6)), in double, if maxNorm > 0; total is that of SumSquaresTotal. If
	// √total is not finite nothing is written. total NULL: no scaling and no check.
	//
	//	adamw(long long n, float* w, const float* g, float* m, float* v,
	//	    float decay, float beta1, float rest1, float beta2, float rest2,
	//	    float step, float invBias, float eps, double maxNorm, const double* total)
	AdamW = "adamw"
)

// Kernels of [Base]: one step of the GRU, for hidden sizes without a [GRUPlan]. cuBLAS computes gh
// = h·W_hhᵀ (n×3H) before it, and carry += dgh·W_hh after it. Pointers are to the step's first row.
const (
	// GRUGatesForward computes the gates and the new state of n rows. gi is n×3H,
	// or with ids (n) a table V×3H of which row i uses row ids[i]. gh (n×3H) has no
	// bias. h and out (n×H) must not overlap. save (n×4H: r, z, n, W_hn·h+b_hn) and
	// before (n×H: a copy of h) may be NULL.
	//
	//	gru_gates_forward(int n, int hidden, const float* gi, const int* ids, const float* gh,
	//	    const float* bih, const float* bhh, const float* h, float* out, float* save, float* before)
	GRUGatesForward = "gru_gates_forward"
	// GRUGatesBackward is the backward pass of the gates for n rows. carry (n×H)
	// is the gradient from later steps on entry (0 at a sequence's last step) and
	// (carry+dout)∘z on return, to which the caller adds dgh·W_hh. before (n×H) is
	// the state before the step. gates (n×4H) is save on entry and da_r, da_z,
	// da_n, da_n·r on return. dgh (n×3H) receives da_r, da_z, da_n·r.
	//
	//	gru_gates_backward(int n, int hidden, float* carry, const float* dout, const float* before,
	//	    float* gates, float* dgh)
	GRUGatesBackward = "gru_gates_backward"
)

// Kernels of [Base]: heads. rows counts states; cuBLAS computes the matmuls with
// the weights, without bias.
const (
	// HeadForward writes logp and entropy (rows) of softmax((x+bias)·inv), where x
	// are the logits (rows×vocab, without bias, unchanged), and stats for the
	// backward pass (rows×2: the largest x+bias, log Σ exp; or NULL). bias may be
	// NULL. [Card.Head] launches it with a block for each row if the vocabulary is
	// large, [Card.Rows] with a warp.
	//
	//	head_forward(int rows, int vocab, const float* logits, const float* bias, float inv,
	//	    const int* targets, float* logp, float* entropy, float* stats)
	HeadForward = "head_forward"
	// HeadBackward replaces the logits by their gradient
	//
	//	inv·( dlogp·([j=t] - p_j) - dentropy·p_j·(log p_j + entropy) )
	//
	// dlogp and dentropy have rows elements; dentropy and bias may be NULL. The
	// launches are those of HeadForward.
	//
	//	head_backward(int rows, int vocab, float* logits, const float* bias, float inv,
	//	    const int* targets, const float* stats, const float* entropy,
	//	    const float* dlogp, const float* dentropy)
	HeadBackward = "head_backward"
	// ValueForward: v[i] = x[i]·w + bias[0]; x rows×hidden, w hidden.
	//
	//	value_forward(int rows, int hidden, const float* x, const float* w, const float* bias, float* v)
	ValueForward = "value_forward"
	// ValueBackward: dx[i] = dv[i]·w. dw is [Card.ColSum] of x weighted by dv, db
	// that of dv (width 1).
	//
	//	value_backward(int rows, int hidden, const float* dv, const float* w, float* dx)
	ValueBackward = "value_backward"
	// SamplePick samples token t of each row from its logits (rows×vocab, without bias) by the rule
	// of pkg/model (sampling.go). It skips rows with lengths[r] ≠ t or ended[r] ≠ 0. It writes
	// tokens[r·maxTokens+t] and logps likewise, lengths[r] = t+1, ended[r] = (token = eos), next[r]
	// = token, and adds the number of unfinished rows to alive[0], which the caller zeroes. lengths
	// and ended start as zeros. Random numbers: see [Rollout].
	//
	//	sample_pick(int rows, int group, int vocab, const float* logits, const float* bias,
	//	    float inv, double topP, int topK, int minTokens, int maxTokens, int greedy, int eos,
	//	    const double* uniform, unsigned k0, unsigned k1, unsigned a, unsigned b0, unsigned c0,
	//	    int t, int* tokens, float* logps, int* lengths, int* ended, int* next, int* alive)
	SamplePick = "sample_pick"
)

// Kernels of [GRUPlan.Module]: all steps of a layer in one launch without grid
// barriers. The plan's Launch picks a variant by size.
const (
	// GRUForward is the forward pass of a layer over a packed segment.
	//
	//	gru_forward(const float* gi, const int* ids, const float* whh, const float* bih, const float* bhh,
	//	    const float* h0, const int* active, const int* offset, int steps, int tile,
	//	    float* out, float* save, float* before)
	//
	// gi is x·W_ihᵀ without bias (inputs×3H), or with ids (inputs) a table V×3H of
	// which input i uses row ids[i]. whh is 3H×H. h0 is active[0]×H, or NULL for
	// zeros. out is (active[0]+inputs)×H, with the initial states first. save
	// (inputs×4H) and before (inputs×H) may be NULL. tile is Launch.Tile.
	GRUForward = "gru_forward"
	// GRUBackward is the backward pass of GRUForward.
	//
	//
	//	gru_backward(const float* dout, const float* whh, const float* states, const int* active,
	//	    const int* offset, int steps, int tile, float* gates, float* dh0, float* parts)
	//
	// dout and states (out of the forward pass) are (active[0]+inputs)×H. gates (inputs×4H) is save
	// on entry and da_r, da_z, da_n, da_n·r on return: dgi are its columns 0..3H, dgh columns 0..2H
	// and 3H..4H. dh0 (active[0]×H, or NULL) includes block 0 of dout. parts (Launch.Tiles×4H, or
	// NULL) receives column sums of gates for [GRUBiasGrad].
	GRUBackward = "gru_backward"
)

// Rollout is the kernel of [RolloutPlan.Module]. In one launch it continues rows
// from the last states of their prompts to their last tokens: all layers, the
// head, and the choice of [SamplePick].
//
//	rollout(const float* params, const float* table, const float* states, int rows, int group,
//	    int tile, float inv, double topP, int topK, int minTokens, int maxTokens, int greedy, int eos,
//	    const double* uniform, unsigned k0, unsigned k1, unsigned a, unsigned b0, unsigned c0,
//	    int* tokens, float* logps, int* lengths, int* ended)
//
// params is Params.Flat; table V×3H = Embed·W_ih0ᵀ; states layers×prompts×H, with
// ⌈rows/group⌉ prompts, of which row r continues number r/group. tokens and logps
// are rows×maxTokens: elements after a row's length are not written. lengths and
// ended (0 or 1) have rows elements. inv is 1/temperature (1 when greedy).
//
// Token t of row r is decided by uniform[r·maxTokens+t], or if uniform is NULL by
// pkg/rng's Stream{k0,k1}.Float64(a, b0+r/group, c0+r%group, t).
const Rollout = "rollout"
