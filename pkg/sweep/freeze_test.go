package sweep

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// Missing are the runs that are not finished, not running, can be trained, and are not missing in an
// earlier part.
func TestFreeze(t *testing.T) {
	first, second := fakeManifest(2, 3), fakeManifest(2, 3)
	second.Runs[5].Hash = "abcdef01"
	second.Hash = second.Identity()
	var parts []*Located
	for _, m := range []sweepdir.Manifest{first, second} {
		parts = append(parts, &Located{Plan: &Plan{Manifest: m}, Dir: writeSweep(t, m)})
	}
	dir := parts[0].Dir
	linkRun(t, first.Runs[4].Path(dir))
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLauncher{t: t, rest: completes(3)}
		p, err := l.Start(dir, first.Runs[0], 1)
		if err != nil {
			t.Fatal(err)
		}
		p.Wait()
	})
	unlock, err := rundir.Claim(first.Runs[1].Path(dir), rundir.KindRun, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()

	j := &journal{}
	got, err := Freeze(t.Context(), parts, fakeOptions(nil, j))
	if err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	for i, want := range [][]int{{2, 3, 5}, {4, 5}} {
		if !slices.Equal(got[i].Runs, want) {
			t.Errorf("part %d: %v, want %v", i, got[i].Runs, want)
		}
	}
	if state := sweepdir.StateOf(parts[1].Dir, second.Runs[0]); !state.Finished() {
		t.Errorf("the finished run of the first part was not copied: %s", state.State)
	}
	notes := strings.Join(j.notes, "\n")
	for _, want := range []string{
		"a, seed 3 can't be trained: open " + first.Runs[4].Path(dir) + ": not a folder: it is a symbolic link",
		"another process is training 1 run, which it keeps", "1 run copied from " + dir,
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %q in\n%s", want, notes)
		}
	}
}
