//go:build withcuda

package kernels

// GRUPlan is how a layer of one hidden size runs as a persistent kernel: a block, or a cluster of
// blocks that write to each other's shared memory, keeps W_hh in registers and runs a tile of
// sequences through all steps. See gru.cu.
type GRUPlan struct {
	Card    Card
	Hidden  int
	Cluster int // blocks of a cluster: 1, or 4 on compute capability 9.x

	units                           int // hidden units of a block, a multiple of 32
	forwardSlices, backwardSlices   int // lanes that share a dot product
	forwardThreads, backwardThreads int
}

// The registers of a multiprocessor hold the part of W_hh for 128 units of 128
// states: 96 numbers in each of 512 threads.
const (
	blockUnits   = 128
	clusterUnits = 64 // of a block of a cluster, with 256 states for each
	clusterSize  = 4
	unitsAtATime = 32
	blockThreads = 512 // with 128 registers each they fill a multiprocessor
	padding      = 8   // floats between rows in shared memory, PAD in gru.cu
)

// GRU returns the plan for a hidden size, and false if W_hh does not fit (above
// 128; above 256 on compute capability 9.x, which has clusters): then
// [GRUGatesForward] and cuBLAS run step by step. For newer cards the driver
// translates PTX, and a cluster of this size may not fit.
func (c Card) GRU(hidden int) (GRUPlan, bool) {
	p := GRUPlan{Card: c, Hidden: hidden, Cluster: 1}
	switch {
	case hidden < 1:
		return p, false
	case hidden <= blockUnits:
		p.units, p.forwardSlices, p.backwardSlices = roundUp(hidden, unitsAtATime), 4, 8
	case hidden <= clusterSize*clusterUnits && c.SM >= 90 && c.SM < 100:
		p.Cluster, p.forwardSlices, p.backwardSlices = clusterSize, 8, 16
		p.units = roundUp(ceil(hidden, clusterSize), unitsAtATime)
	default:
		return p, false
	}
	p.forwardThreads, p.backwardThreads = p.units*p.forwardSlices, p.units/2*p.backwardSlices
	_, fits := p.tile(1, 1, p.forwardBytes())
	_, back := p.tile(1, 1, p.backwardBytes())
	return p, fits && back
}

// Module is what to compile for the plan.
func (p GRUPlan) Module() Module {
	return Module{
		Name: "gru",
		Source: define("GRU_HIDDEN", p.Hidden, "GRU_CLUSTER", p.Cluster, "GRU_UNITS", p.units,
			"FORWARD_SLICES", p.forwardSlices, "BACKWARD_SLICES", p.backwardSlices) +
			source("common", "exchange", "gru", "gru_backward"),
		Kernels: []string{GRUForward, GRUForward + narrow, GRUBackward, GRUBackward + narrow},
	}
}

// narrow marks the variants that take 2 sequences at a time instead of 4.
const narrow = "_narrow"

// states is H rounded up as in the module.
func (p GRUPlan) states() int { return p.units * p.Cluster }

// Shared memory for each sequence of a tile: its states, double-buffered, in the
// forward pass; the gates' gradients, double-buffered, and the state's in the
// backward pass.
func (p GRUPlan) forwardBytes() int { return 2 * 4 * (p.states() + padding) }

func (p GRUPlan) backwardBytes() int { return 2*4*(3*p.states()+padding) + 4*p.units }

// tile splits n0 sequences into equal tiles: one for each block (or cluster) that can be resident,
// or a multiple if tiles of that size do not fit in shared memory. A tile is a multiple of the rows
// that a thread processes at once.
func (p GRUPlan) tile(n0, blocksPerSM, bytes int) (tile int, fits bool) {
	room := p.Card.Shared / blocksPerSM / bytes / 4 * 4
	if room < 4 {
		return 0, false
	}
	places := max(1, p.Card.SMs*blocksPerSM/p.Cluster)
	switch {
	case p.Cluster > 1 && p.Card.Clusters > 0:
		places = p.Card.Clusters
	case p.Cluster > 1 && places > 1:
		places-- // a cluster needs multiprocessors of one group
	}
	waves := ceil(n0, places*room)
	if tile = ceil(n0, places*waves); tile <= 2 {
		return 2, true
	}
	return min(room, roundUp(tile, 4)), true
}

func (p GRUPlan) launch(kernel string, n0, threads, bytes int) Launch {
	blocks := max(1, blockThreads/threads)
	tile, _ := p.tile(n0, blocks, bytes)
	if tile == 2 {
		kernel += narrow
	}
	tiles := ceil(n0, tile)
	return Launch{
		Kernel: kernel, Grid: [3]int{tiles * p.Cluster, 1, 1}, Block: [3]int{threads, 1, 1},
		Shared: tile * bytes, Tile: tile, Tiles: tiles,
	}
}

// Largest are the launches that need the largest share of a multiprocessor: they bound the number
// of clusters that run at once.
func (p GRUPlan) Largest() [2]Launch {
	const many = 1 << 20
	return [2]Launch{p.Forward(many), p.Backward(many)}
}

// Forward is the launch of [GRUForward] over n0 sequences.
func (p GRUPlan) Forward(n0 int) Launch {
	return p.launch(GRUForward, n0, p.forwardThreads, p.forwardBytes())
}

// Backward is the launch of [GRUBackward] over n0 sequences; parts needs Tiles·4H floats.
func (p GRUPlan) Backward(n0 int) Launch {
	return p.launch(GRUBackward, n0, p.backwardThreads, p.backwardBytes())
}
