package tinylm

// A task runs all steps of a chunk of sequences. Sequences don't depend on each
// other, so tasks never wait, the states stay in the cache, and the size of chunks
// changes no bit.
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
