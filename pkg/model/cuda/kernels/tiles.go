//go:build withcuda

package kernels

import "slices"

// Tiles are the pieces of a tree of segments between which attention is computed, as arrays for
// upload. Tiles are in the order of the segments and of their rows.
type Tiles struct {
	Tile []int32 // (tiles, 2): first row, rows
	// Low is the first row that each row sees in its own tile: it sees those from there to itself.
	Low []int32
	// Seen has the tiles that tile t sees in [SeenAt[t], SeenAt[t+1]): those of the ancestors, then
	// of its own segment. The last one is t itself.
	SeenAt, Seen []int32
	// Task is (tasks, 3): a tile of keys, and the range of SeenBy with queries that see it, in
	// ascending order. The tasks of tile t are [TaskAt[t], TaskAt[t+1]), at least one.
	Task, TaskAt, SeenBy []int32
}

// TilesOf cuts segments into tiles of at most size rows. Segment s has the rows start[s] to
// start[s]+length[s], and context[s] are its ancestors, from the root. Neighbours with the same
// ancestors share a tile if they fit and no segment follows them: short completions of a prompt. A
// task has at most `most` tiles of queries, so that many blocks share a prompt that every completion
// sees.
func TilesOf(start, length []int, context [][]int, size, most int) *Tiles {
	t := &Tiles{SeenAt: []int32{0}, TaskAt: []int32{0}}
	follows, end := make([]bool, len(start)), 0
	for s, above := range context {
		for _, a := range above {
			follows[a] = true
		}
		end = max(end, start[s]+length[s])
	}
	t.Low = make([]int32, end)
	tilesOf := make([][]int32, len(start)) // of each segment
	var seenBy [][]int32                   // of each tile
	open := -1                             // the last segment of the last tile, if another may share it
	for s := range start {
		if n := len(t.Tile); open >= 0 && length[s] > 0 && !follows[s] && slices.Equal(context[s], context[open]) &&
			start[s] == int(t.Tile[n-2]+t.Tile[n-1]) && int(t.Tile[n-1])+length[s] <= size {
			t.Tile[n-1] += int32(length[s])
			t.setLow(start[s], length[s])
			open = s
			continue
		}
		var seen []int32
		for _, a := range context[s] {
			seen = append(seen, tilesOf[a]...)
		}
		for row := 0; row < length[s]; row += size {
			tile := int32(len(seenBy))
			t.Tile = append(t.Tile, int32(start[s]+row), int32(min(size, length[s]-row)))
			t.setLow(start[s]+row, min(size, length[s]-row))
			tilesOf[s], seen, seenBy = append(tilesOf[s], tile), append(seen, tile), append(seenBy, nil)
			t.Seen = append(t.Seen, seen...)
			t.SeenAt = append(t.SeenAt, int32(len(t.Seen)))
			for _, k := range seen {
				seenBy[k] = append(seenBy[k], tile)
			}
		}
		if length[s] > 0 {
			open = -1
			if !follows[s] && length[s] < size {
				open = s
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

// setLow makes first the lowest row that n rows from it on see in their tile.
func (t *Tiles) setLow(first, n int) {
	for i := range n {
		t.Low[first+i] = int32(first)
	}
}

// Count is the number of tiles.
func (t *Tiles) Count() int { return len(t.Tile) / 2 }

// Tasks is the number of tasks.
func (t *Tiles) Tasks() int { return len(t.Task) / 3 }
