package model

// A task carries a chunk of sequences through all of their steps. Sequences
// don't depend on each other, so a task waits for nobody, its states stay in
// the cache, and where chunks begin changes no bit.
const (
	maxChunk = 36 // of sequences: a multiple of the tiles' height
	minChunk = 12 // below this the tiles' overhead outweighs a second thread
)

// chunkSize cuts n sequences into chunks of equal size, as many as the threads
// can share out evenly.
func chunkSize(n, threads int) int {
	chunks := (n + maxChunk - 1) / maxChunk
	if r := chunks % threads; r > 0 {
		chunks += threads - r
	}
	return min(max(minChunk, (n+chunks-1)/chunks), maxChunk)
}

// A sum over sequences (the gradient of a weight) does depend on where it is
// cut. So there the cut is a function of the number of sequences and of the
// weights' size alone, never of the threads: into chunks, and runs of chunks,
// the parts, that each have an accumulator. Parts are added in ascending order.
const (
	sumChunk  = 32      // sequences
	fewChunk  = 16      // sequences, where there are few: enough chunks for some threads
	few       = 64      // sequences
	maxParts  = 16      // however many sequences there are
	partsRoom = 1 << 24 // elements of all accumulators (64 MB), above which there are fewer parts
	minParts  = 4       // but this many for large weights: enough for some threads
)

// cut is a partition of sequences for sums.
type cut struct{ n, size, chunks, parts int }

// cutSums cuts n sequences for accumulators of the given number of elements.
func cutSums(n, elements int) cut {
	size := sumChunk
	if n <= few {
		size = fewChunk
	}
	chunks := max(1, (n+size-1)/size)
	return cut{n, (n + chunks - 1) / chunks, chunks, min(chunks, partsFor(elements))}
}

func partsFor(elements int) int {
	return min(max(minParts, partsRoom/elements), maxParts)
}

// mostParts is the number of parts that n sequences or fewer have at most.
func mostParts(n, elements int) int { return min((n+fewChunk-1)/fewChunk, partsFor(elements)) }

// part returns the chunks from lo to hi of a part.
func (c cut) part(i int) (lo, hi int) { return i * c.chunks / c.parts, (i + 1) * c.chunks / c.parts }

// chunk returns the sequences from lo to hi of a chunk.
func (c cut) chunk(i int) (lo, hi int) { return min(i*c.size, c.n), min((i+1)*c.size, c.n) }

// arena is memory for accumulators, shared by ops that run one after the other.
type arena struct{ data []float32 }

func (a *arena) reserve(parts, elements int) {
	if n := parts * elements; n > len(a.data) {
		a.data = make([]float32, n)
	}
}
