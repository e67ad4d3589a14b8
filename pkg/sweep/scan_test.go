package sweep

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"grpo/internal/expect"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// Waiting are the runs that are not finished and can be trained; another process may be at one.
func TestScan(t *testing.T) {
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
		expect.OK(t, err)
		p.Wait()
	})
	unlock, err := rundir.Claim(first.Runs[1].Path(dir), rundir.KindRun, nil)
	expect.OK(t, err)
	defer unlock()

	j := &journal{}
	opts := fakeOptions(nil, j)
	for i, want := range [][]int{{1, 2, 3, 5}, {1, 2, 3, 4, 5}} {
		got, err := parts[i].Scan(t.Context(), opts)
		expect.OK(t, err)
		var runs []int
		for _, e := range got.Waiting {
			runs = append(runs, e.Index)
		}
		if !slices.Equal(runs, want) || got.Finished != 1 || got.Failed != 1-i {
			t.Errorf("part %d: %v of %+v, want %v", i, runs, got, want)
		}
		opts.StudySweeps = append(opts.StudySweeps, parts[i].Dir)
	}
	if state := sweepdir.StateOf(parts[1].Dir, second.Runs[0]); !state.Finished() {
		t.Errorf("the finished run of the first part was not copied: %s", state.State)
	}
	notes := strings.Join(j.notes, "\n")
	for _, want := range []string{
		"a, seed 3 can't be trained: open " + first.Runs[4].Path(dir) + ": not a folder: it is a symbolic link",
		"1 run copied from " + dir,
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %q in\n%s", want, notes)
		}
	}
}
