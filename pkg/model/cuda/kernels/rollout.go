//go:build withcuda

package kernels

import "fmt"

// RolloutPlan is how a network samples in one launch: see rollout.cu.
type RolloutPlan struct {
	Card                  Card
	Hidden, Layers, Vocab int
}

const (
	rolloutThreads = 512
	rolloutHidden  = 256       // above, reading the weights at every step in every block takes too long
	cacheBytes     = 200 << 10 // of weights that fit in the L1 cache
)

// Rollout returns the plan, and false if the network is too large for it (hidden
// above 256, or two rows exceed shared memory): then sampling runs token by token
// with [GRUGatesForward], cuBLAS and [SamplePick].
func (c Card) Rollout(hidden, layers, vocab int) (RolloutPlan, bool) {
	p := RolloutPlan{c, hidden, layers, vocab}
	if hidden < 1 || layers < 1 || vocab < 1 || hidden > rolloutHidden {
		return p, false
	}
	return p, p.shared(2) <= c.Shared
}

// Module is what to compile for the plan.
func (p RolloutPlan) Module() Module {
	return Module{
		Name: "rollout",
		Source: define("ROLLOUT_HIDDEN", p.Hidden, "ROLLOUT_LAYERS", p.Layers, "ROLLOUT_VOCAB", p.Vocab) +
			source("common", "softmax", "exchange", "pick", "rollout"),
		Kernels: []string{p.kernel(2), p.kernel(4), p.kernel(8)},
	}
}

// kernel names the variant that samples this many rows at a time.
func (p RolloutPlan) kernel(rows int) string { return fmt.Sprintf("%s_%d", Rollout, rows) }

// shared is the memory of a tile: states, double-buffered, logits, the last token
// and whether the row continues, and scratch for each warp's choice.
func (p RolloutPlan) shared(tile int) int {
	states := roundUp(p.Hidden, 32) + padding
	return tile*4*(2*p.Layers*states+roundUp(p.Vocab, 4)+2) + rolloutThreads/32*pickBytes(p.Vocab)
}

// Launch is the launch of [Rollout] for a number of rows: a block for each
// multiprocessor, but tiles of at least 4 if the weights come from the L2 cache,
// whose bandwidth all blocks share.
func (p RolloutPlan) Launch(rows int) Launch {
	tile := ceil(rows, p.Card.SMs)
	// The table replaces the first layer's input weights.
	if weights := 4 * ((6*p.Layers-3)*p.Hidden*p.Hidden + p.Vocab*p.Hidden); weights > cacheBytes {
		tile = max(tile, 4)
	}
	at := 8
	switch {
	case tile <= 2:
		at = 2
	case tile <= 4:
		at = 4
	}
	tile = roundUp(tile, at)
	for tile > 2 && p.shared(tile) > p.Card.Shared {
		if tile > at {
			tile -= at
		} else {
			at /= 2
			tile = at
		}
	}
	n := ceil(rows, tile)
	return Launch{
		Kernel: p.kernel(at), Grid: [3]int{n, 1, 1}, Block: [3]int{rolloutThreads, 1, 1},
		Shared: p.shared(tile), Tile: tile, Tiles: n,
	}
}
