//go:build withcuda && linux

package kernels

import (
	"reflect"
	"slices"
	"testing"
)

func TestTiles(t *testing.T) {
	// A prompt of two tiles, a segment without tokens, and two completions behind both.
	start, length := []int{0, 5, 5, 10}, []int{5, 0, 3, 4}
	context := [][]int{nil, {0}, {0, 1}, {0, 1}}
	got := TilesOf(start, length, context, 4, 3)
	want := &Tiles{
		Tile:   []int32{0, 4, 4, 1, 5, 3, 10, 4},
		Low:    []int32{0, 0, 0, 0, 4, 5, 5, 5, 0, 0, 10, 10, 10, 10},
		SeenAt: []int32{0, 1, 3, 6, 9},
		Seen:   []int32{0, 0, 1, 0, 1, 2, 0, 1, 3},
		Task:   []int32{0, 0, 3, 0, 3, 4, 1, 4, 7, 2, 7, 8, 3, 8, 9},
		TaskAt: []int32{0, 2, 3, 4, 5},
		SeenBy: []int32{0, 1, 2, 3, 1, 2, 3, 2, 3},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("tiles %+v, want %+v", got, want)
	}
	// Behind it neighbours share a tile until it is full or their ancestors differ.
	start, length = []int{0, 2, 3, 5, 6, 7}, []int{2, 1, 2, 1, 1, 1}
	shared := TilesOf(start, length, [][]int{nil, {0}, {0}, {0}, {0}, nil}, 4, 3)
	if want := []int32{0, 2, 2, 4, 6, 1, 7, 1}; !slices.Equal(shared.Tile, want) {
		t.Errorf("tiles %v, want %v", shared.Tile, want)
	}
	if want := []int32{0, 0, 2, 3, 3, 5, 6, 7}; !slices.Equal(shared.Low, want) {
		t.Errorf("lowest rows %v, want %v", shared.Low, want)
	}
	if got.Count() != 4 || got.Tasks() != 5 {
		t.Errorf("%d tiles and %d tasks, want 4 and 5", got.Count(), got.Tasks())
	}
}
