//go:build withcuda

package kernels

// Tiles are the pieces of a tree of segments between which attention is computed, as arrays for
// upload. Tiles are in the order of the segments and of their rows.
type Tiles struct {
	Tile []int32 // (tiles, 2): first row, rows
	// Seen has the tiles that tile t sees in [SeenAt[t], SeenAt[t+1]): those of the ancestors, then
	// of its own segment. The last one is t itself, in which row i sees the rows 0..i.
	SeenAt, Seen []int32
	// Task is (tasks, 3): a tile of keys, and the range of SeenBy with queries that see it, in
	// ascending order. The tasks of tile t are [TaskAt[t], TaskAt[t+1]), at least one.
	Task, TaskAt, SeenBy []int32
}

// TilesOf cuts segments into tiles of at most size rows. Segment s has the rows start[s] to
// start[s]+length[s], and context[s] are its ancestors, from the root. A task has at most `most`
// tiles of queries, so that many blocks share a prompt that every completion sees.
func TilesOf(start, length []int, context [][]int, size, most int) *Tiles {
	t := &Tiles{SeenAt: []int32{0}, TaskAt: []int32{0}}
	tilesOf := make([][]int32, len(start)) // of each segment
	var seenBy [][]int32                   // of each tile
	for s := range start {
		var seen []int32
		for _, a := range context[s] {
			seen = append(seen, tilesOf[a]...)
		}
		for row := 0; row < length[s]; row += size {
			tile := int32(len(seenBy))
			t.Tile = append(t.Tile, int32(start[s]+row), int32(min(size, length[s]-row)))
			tilesOf[s], seen, seenBy = append(tilesOf[s], tile), append(seen, tile), append(seenBy, nil)
			t.Seen = append(t.Seen, seen...)
			t.SeenAt = append(t.SeenAt, int32(len(t.Seen)))
			for _, k := range seen {
				seenBy[k] = append(seenBy[k], tile)
			}
		}
	}
	for k, by := range seenBy {
		for at := 0; at < len(by); at += most {
			from := len(t.SeenBy) + at
			t.Task = append(t.Task, int32(k), int32(from), int32(from+min(most, len(by)-at)))
		}
		t.TaskAt = append(t.TaskAt, int32(len(t.Task)/3))
		t.SeenBy = append(t.SeenBy, by...)
	}
	return t
}

// Count is the number of tiles.
func (t *Tiles) Count() int { return len(t.Tile) / 2 }

// Tasks is the number of tasks.
func (t *Tiles) Tasks() int { return len(t.Task) / 3 }
