//go:build withcuda

package kernels

// Launch is the configuration of a kernel launch. All counts are at least 1 unless there is no
// work.
type Launch struct {
	Kernel string
	Grid   [3]int
	Block  [3]int
	Shared int // bytes of dynamic shared memory; above 48 KiB the function's limit must be raised first
	Tile   int // the kernel's argument tile or chunk, if any
	Tiles  int // the number of tiles or chunks: the parts that the second pass of a sum adds
}

// Empty reports whether there is no work: the driver refuses such a launch.
func (l Launch) Empty() bool { return l.Grid[0] < 1 || l.Grid[1] < 1 || l.Grid[2] < 1 }

// Card describes the GPU.
type Card struct {
	SM     int // compute capability, 90 for 9.0
	SMs    int // multiprocessors
	Shared int // most dynamic shared memory of a block after opting in, bytes
	// Clusters is the number of clusters that run at once, by
	// cuOccupancyMaxActiveClusters for a plan's largest launches; 0: unknown, and
	// the plan estimates it.
	Clusters int
}

const (
	threads  = 256 // of a block, by default
	warps    = threads / 32
	maxParts = 512 // of a sum in two passes
)

func ceil(a, b int) int { return (a + b - 1) / b }

func roundUp(a, b int) int { return ceil(a, b) * b }

// Elementwise is the launch of [Axpy], [Add] and [AdamW] over n elements, in
// grid-stride loops.
func (c Card) Elementwise(kernel string, n int) Launch {
	return Launch{Kernel: kernel, Grid: [3]int{min(ceil(n, threads), 16*c.SMs), 1, 1}, Block: [3]int{threads, 1, 1}}
}

// SumSquares are the launches of both passes; parts needs room for Tiles doubles. The number of
// parts depends on n alone, so all cards add in the same order.
func (c Card) SumSquares(n int) (parts, total Launch) {
	blocks := min(ceil(n, 4*threads), maxParts)
	parts = Launch{Kernel: SumSquaresParts, Grid: [3]int{blocks, 1, 1}, Block: [3]int{threads, 1, 1},
		Shared: threads * 8, Tiles: blocks}
	total = Launch{Kernel: SumSquaresTotal, Grid: [3]int{1, 1, 1}, Block: [3]int{threads, 1, 1}, Shared: threads * 8}
	return parts, total
}

// ColSum are the launches of both passes of a sum of rows×width; parts needs room for Tiles·width
// floats.
func (c Card) ColSum(rows, width int) (parts, sum Launch) {
	chunk := max(64, ceil(rows, maxParts))
	n := ceil(rows, chunk)
	parts = Launch{Kernel: ColSumParts, Grid: [3]int{n, ceil(width, 32), 1}, Block: [3]int{32, 8, 1},
		Shared: 8 * 32 * 4, Tile: chunk, Tiles: n}
	return parts, c.Sum(n, width)
}

// Sum is the launch of [SumParts] over count parts of n elements.
func (c Card) Sum(count, n int) Launch {
	return Launch{Kernel: SumParts, Grid: [3]int{ceil(n, 32), 1, 1}, Block: [3]int{32, 8, 1},
		Shared: 8 * 32 * 4, Tiles: count}
}

// BiasGrad is the launch of [GRUBiasGrad].
func (c Card) BiasGrad(hidden int) Launch {
	return Launch{Kernel: GRUBiasGrad, Grid: [3]int{ceil(4*hidden, 32), 1, 1}, Block: [3]int{32, 8, 1},
		Shared: 8 * 32 * 4}
}

// tableColumns is the width of a block of [TableGradParts]: each thread owns a
// column of the block's vocab×tableColumns sums in shared memory.
const tableColumns = 64

// TableGrad are the launches that sum n rows by token. ok is false if the
// vocabulary doesn't fit shared memory: then use [ScatterAddRows] with targets
// NULL and count = vocab.
func (c Card) TableGrad(n, width, vocab int) (parts, sum Launch, ok bool) {
	shared := vocab * tableColumns * 4
	chunk := max(128, ceil(n, maxParts/2))
	count := ceil(n, chunk)
	parts = Launch{
		Kernel: TableGradParts, Grid: [3]int{count, ceil(width, tableColumns), 1}, Block: [3]int{tableColumns, 1, 1},
		Shared: shared, Tile: chunk, Tiles: count,
	}
	return parts, c.Sum(count, vocab*width), shared <= c.Shared
}

// Gather is the launch of [GatherRows].
func (c Card) Gather(n, width int) Launch {
	return Launch{Kernel: GatherRows, Grid: [3]int{n, 1, 1}, Block: [3]int{min(roundUp(width, 32), threads), 1, 1}}
}

// ScatterAdd is the launch of [ScatterAddRows] to count targets.
func (c Card) ScatterAdd(width, count int) Launch {
	return Launch{Kernel: ScatterAddRows, Grid: [3]int{count, ceil(width, 128), 1}, Block: [3]int{128, 1, 1},
		Shared: 128 * 4}
}

// Gates is the launch of [GRUGatesForward] or [GRUGatesBackward].
func (c Card) Gates(kernel string, n, hidden int) Launch {
	return Launch{Kernel: kernel, Grid: [3]int{ceil(hidden, threads), min(n, 65535), 1},
		Block: [3]int{min(roundUp(hidden, 32), threads), 1, 1}}
}

// Rows is the launch of the kernels with a warp for each row: [HeadForward],
// [HeadBackward], [ValueForward], [ValueBackward].
func (c Card) Rows(kernel string, rows int) Launch {
	return Launch{Kernel: kernel, Grid: [3]int{ceil(rows, warps), 1, 1}, Block: [3]int{threads, 1, 1}}
}

// A vocabulary from blockVocab on is large: [Card.Head] makes a block of rowThreads for each row.
const (
	blockVocab = 4 * rowThreads
	rowThreads = 512
	rowShared  = 2 * rowThreads / 32 * 4 // bytes
	// headColumns are the logits of a block of the backward pass.
	headColumns = 16 * rowThreads
	ofBlocks    = "_block" // suffix of a kernel's name
)

// Head is the launch of [HeadForward] or [HeadBackward]. The order of sums depends on the
// vocabulary, not on the number of rows.
func (c Card) Head(kernel string, rows, vocab int) Launch {
	if vocab < blockVocab {
		return c.Rows(kernel, rows)
	}
	l := Launch{Kernel: kernel + ofBlocks, Grid: [3]int{rows, 1, 1}, Block: [3]int{rowThreads, 1, 1}, Shared: rowShared}
	if kernel == HeadBackward {
		l.Grid[1], l.Shared = min(ceil(vocab, headColumns), 65535), 0
	}
	return l
}

// Pick is the launch of [SamplePick].
func (c Card) Pick(rows, vocab int) Launch {
	return Launch{Kernel: SamplePick, Grid: [3]int{ceil(rows, 4), 1, 1}, Block: [3]int{128, 1, 1},
		Shared: 4 * pickBytes(vocab)}
}

// pickBytes is the shared memory of a warp that chooses a token: the
// probabilities and, for truncation, their order.
func pickBytes(vocab int) int { return roundUp(8*vocab, 16) }
