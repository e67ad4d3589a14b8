//go:build race

package kernel

// Under the race detector sync.Pool drops items at random, on purpose.
const raceEnabled = true
