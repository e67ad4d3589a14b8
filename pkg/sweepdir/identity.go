package sweepdir

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
)

// Identity is the value of [Manifest.Hash]: the first 8 hex digits of the
// SHA-256 over the arms' names, the seeds and the hashes of the runs'
// configurations (for a run without one: what its arm sets and the error).
// Their order does not count: the same runs are the same sweep. Titles, notes
// and the command line do not enter.
func (m Manifest) Identity() string {
	var lines []string
	for _, e := range m.Runs {
		arm := m.Arms[e.Arm]
		line := fmt.Sprintf("%q %d %s", arm.Name, e.Seed, e.Hash)
		if e.Config == "" {
			line = fmt.Sprintf("%q %d broken %q %q", arm.Name, e.Seed, arm.Set, e.Error)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	h := sha256.New()
	for _, l := range lines {
		fmt.Fprintln(h, l)
	}
	return hex.EncodeToString(h.Sum(nil))[:8]
}
