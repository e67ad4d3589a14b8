package tinylm

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
