//go:build withcuda

package kernels

// Kernels of [AttentionPlan.Module]: grouped-query attention over a tree of segments, cut into
// [Tiles]. With q = heads·dim and kv = kvHeads·dim, qkv is tokens×(q+2kv): queries, keys and values,
// rotated already. Query head h uses key head h/(heads/kvHeads). Addresses of matrices are multiples
// of 16 bytes. scale multiplies the scores. Shared memory limits dim, not the number of tokens: no
// matrix of tokens×tokens exists.
const (
	// AttentionForward writes out (tokens×q), and lse (tokens×heads, or NULL) = log Σ exp(scale·q·k)
	// for the backward pass. Grid: tiles×heads.
	//
	//	attention_forward(const int* tile, const int* low, const int* seenAt, const int* seen,
	//	    float scale, const float* qkv, float* out, float* lse)
	AttentionForward = "attention_forward"
	// AttentionDelta writes delta (tokens×heads) = Σ out·dout of each head; out and dout are
	// tokens×q.
	//
	//	attention_delta(int tokens, const float* out, const float* dout, float* delta)
	AttentionDelta = "attention_delta"
	// AttentionBackwardQ writes the gradient of the queries to dqkv (tokens×(q+2kv)).
	// Grid: tiles×heads.
	//
	//	attention_backward_q(const int* tile, const int* low, const int* seenAt, const int* seen,
	//	    float scale, const float* qkv, const float* dout, const float* lse, const float* delta, float* dqkv)
	AttentionBackwardQ = "attention_backward_q"
	// AttentionBackwardKV writes the part of a task in the gradients of its tile's keys and values
	// to parts ([AttentionPlan.Parts]: tasks×kvHeads×2×Tile×dim): sums over the query heads of the
	// key head, then over the tiles of queries. Grid: tasks×kvHeads.
	//
	//	attention_backward_kv(const int* tile, const int* low, const int* task, const int* seenBy,
	//	    float scale, const float* qkv, const float* dout, const float* lse, const float* delta, float* parts)
	AttentionBackwardKV = "attention_backward_kv"
	// AttentionSumKV adds the parts of a tile's tasks, and writes the gradients of keys and values
	// to dqkv. With [AttentionBackwardQ] all of dqkv is written. Grid: tiles×kvHeads.
	//
	//	attention_sum_kv(const int* tile, const int* taskAt, const float* parts, float* dqkv)
	AttentionSumKV = "attention_sum_kv"
	// AttentionDecode is attention of one new token for each of rows completions, of which row r
	// continues prompt r/group. t = step[0] is the token's place in the completion. ranges
	// (prompts×4) are the first row and the number of rows of two parts of context (?×2kv: keys,
	// then values, of one layer), of which the second follows the first; both may be empty. own
	// (rows×most×2kv) are the completion's own keys and values: the kernel stores those of qkv
	// (rows×(q+2kv)) at place t, then attends over both parts and the places 0..t. It skips rows with
	// ended[r] ≠ 0. out is rows×q. Grid: rows×kvHeads.
	//
	//	attention_decode(int group, int most, const int* step, const int* ranges, float scale,
	//	    const float* context, float* own, const float* qkv, const int* ended, float* out)
	AttentionDecode = "attention_decode"
)

// AttentionPlan is how attention of one shape runs: see attention.cu.
type AttentionPlan struct {
	Heads, KVHeads, Dim int
	Tile                int // rows of a tile at most: the size for [TilesOf]

	decodeWarps int
}

const maxDim = 256 // of a head: larger ones need too many registers

// Attention returns the plan for a shape, and false if there is none: the heads are no multiple of
// the key heads, or the dimension is no multiple of 4, or above 256.
func (c Card) Attention(heads, kvHeads, dim int) (AttentionPlan, bool) {
	p := AttentionPlan{Heads: heads, KVHeads: kvHeads, Dim: dim, Tile: 64, decodeWarps: warps}
	if kvHeads < 1 || heads < 1 || heads%kvHeads != 0 || dim < 4 || dim > maxDim || dim%4 != 0 {
		return p, false
	}
	if dim > 128 {
		p.Tile = 32 // a thread has the registers for 32 sums of each product
	}
	for p.Tile > 16 && p.shared(3) > c.Shared {
		p.Tile /= 2
	}
	for p.decodeWarps > 1 && p.decodeBytes() > c.Shared {
		p.decodeWarps /= 2
	}
	return p, p.shared(3) <= c.Shared && p.decodeBytes() <= c.Shared
}

// Module is what to compile for the plan.
func (p AttentionPlan) Module() Module {
	return Module{
		Name: "attention",
		Source: define("ATTENTION_HEADS", p.Heads, "ATTENTION_KV_HEADS", p.KVHeads, "ATTENTION_DIM", p.Dim,
			"ATTENTION_TILE", p.Tile, "DECODE_WARPS", p.decodeWarps) +
			source("common", "attention", "attention_backward", "attention_decode"),
		Kernels: []string{
			AttentionForward, AttentionDelta, AttentionBackwardQ, AttentionBackwardKV, AttentionSumKV, AttentionDecode,
		},
	}
}

// shared is the memory of a number of tiles of rows (LD in attention.cu) and one of probabilities
// (LDP).
func (p AttentionPlan) shared(tiles int) int {
	ld := p.Dim
	if p.Dim/4%2 == 0 {
		ld += 4
	}
	return 4 * p.Tile * (tiles*ld + p.Tile + 4)
}

// decodeBytes is the memory of the queries, and of each warp's sums, 32 probabilities, largest
// scores and totals.
func (p AttentionPlan) decodeBytes() int {
	return 4 * p.Heads / p.KVHeads * (p.Dim + p.decodeWarps*(p.Dim+32+2))
}

// Parts is the number of floats of the parts of [AttentionBackwardKV].
func (p AttentionPlan) Parts(tasks int) int { return tasks * p.KVHeads * 2 * p.Tile * p.Dim }

func (p AttentionPlan) launch(kernel string, x, y, shared int) Launch {
	return Launch{Kernel: kernel, Grid: [3]int{x, y, 1}, Block: [3]int{threads, 1, 1}, Shared: shared, Tile: p.Tile}
}

// Forward is the launch of [AttentionForward].
func (p AttentionPlan) Forward(tiles int) Launch {
	return p.launch(AttentionForward, tiles, p.Heads, p.shared(2))
}

// Delta is the launch of [AttentionDelta]: 8 lanes for each sum.
func (p AttentionPlan) Delta(tokens int) Launch {
	return p.launch(AttentionDelta, ceil(tokens*p.Heads, threads/8), 1, 0)
}

// BackwardQ is the launch of [AttentionBackwardQ].
func (p AttentionPlan) BackwardQ(tiles int) Launch {
	return p.launch(AttentionBackwardQ, tiles, p.Heads, p.shared(3))
}

// BackwardKV is the launch of [AttentionBackwardKV].
func (p AttentionPlan) BackwardKV(tasks int) Launch {
	return p.launch(AttentionBackwardKV, tasks, p.KVHeads, p.shared(3))
}

// SumKV is the launch of [AttentionSumKV].
func (p AttentionPlan) SumKV(tiles int) Launch {
	return p.launch(AttentionSumKV, tiles, p.KVHeads, 0)
}

// Decode is the launch of [AttentionDecode].
func (p AttentionPlan) Decode(rows int) Launch {
	l := p.launch(AttentionDecode, rows, p.KVHeads, p.decodeBytes())
	l.Block[0] = 32 * p.decodeWarps
	return l
}
