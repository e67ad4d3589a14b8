package decoder

import (
	"testing"

	"pgregory.net/rapid"
)

// Passes of any sizes need as much memory as the largest of them, and a sixteenth more. What is handed out does not
// overlap.
func TestArenaHoldsItsLargestPass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a arena
		for range rapid.IntRange(1, 8).Draw(t, "passes") {
			a.Reset()
			var handed [][]float32
			for i, n := range rapid.SliceOfN(rapid.IntRange(1, 1<<20), 1, 12).Draw(t, "sizes") {
				x := a.floats(n)
				x[0], x[n-1] = float32(i), float32(i)
				handed = append(handed, x)
			}
			for i, x := range handed {
				if x[0] != float32(i) || x[len(x)-1] != float32(i) {
					t.Fatalf("request %d of %d numbers was handed out again", i, len(x))
				}
			}
		}
		a.Reset()
		if room := a.sizes[0]; len(a.blocks) != 1 || room > max(smallBlock, a.most+a.most/16) {
			t.Fatalf("%d blocks, the first of %d numbers; at most %d were handed out at a time", len(a.blocks), room, a.most)
		}
	})
}
