package cmd

import (
	"strings"
	"testing"
	"time"

	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
)

// TestStudyTable: the rows of a study are those of the running part, the bar and
// the counts are over all of them, and what will be copied costs nothing.
func TestStudyTable(t *testing.T) {
	x := newTableTest(t, true)
	x.table = newStudyTable(&State{Err: &x.out, Redraw: true, Now: func() time.Time { return x.clock }}, false, 2)
	x.table.screen.Size = func() (int, int) { return x.width, x.height }
	x.table.add(x.m, make([]bool, 4))
	x.table.add(x.m, []bool{true, false, true, false}) // lr=0.001 is copied
	x.table.Part(0, "part 1 of 2: lr")
	for i := range 4 {
		x.event(0, i, sweep.Event{Kind: sweep.Started, Attempt: 1})
		x.event(50*time.Second, i, sweep.Event{Kind: sweep.Ended, State: ended(rundir.StateDone, 100, 0.8)})
	}
	// The two that are left of the second part take 50 s each, side by side.
	if left, ok := x.table.left(x.clock); !ok || left != 50 {
		t.Errorf("%v s left, want 50", left)
	}
	x.table.Part(1, "part 2 of 2: baseline, learning rate 0.001")
	x.event(0, 0, sweep.Event{Kind: sweep.Found, State: ended(rundir.StateDone, 100, 0.8)})
	x.event(0, 2, sweep.Event{Kind: sweep.Found, State: ended(rundir.StateDone, 100, 0.8)})
	x.event(0, 1, sweep.Event{Kind: sweep.Started, Attempt: 1})
	want := `part 2 of 2: baseline, learning rate 0.001
run              step     validation  state    left
lr=1e-2, seed 1  0/100                running
lr=1e-2, seed 2                       waiting
lr=1e-3, seed 1  100/100  0.800       done     took 50s
lr=1e-3, seed 2  100/100  0.800       done     took 50s
[###############.....] 6 of 8 runs, 3m20s elapsed, about 50s left
`
	if got := strings.Join(screen(t, x.out.String()), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	// A run that could not be copied is made.
	x.event(0, 3, sweep.Event{Kind: sweep.Started, Attempt: 1})
	for _, i := range []int{1, 3} {
		x.event(50*time.Second, i, sweep.Event{Kind: sweep.Ended, State: ended(rundir.StateDone, 100, 0.8)})
	}
	x.table.done()
	if got := strings.Join(screen(t, x.out.String()), "\n"); got != "8 of 8 runs, 5m0s elapsed\n" {
		t.Errorf("at the end: %q", got)
	}
}

// TestStudyTableFits: no head makes a frame too high or too wide.
func TestStudyTableFits(t *testing.T) {
	for _, width := range []int{1, 20, 80} {
		for height := 1; height < 9; height++ {
			x := newTableTest(t, true)
			x.width, x.height = width, height
			x.table.Part(0, "part 1 of 4: lr, learning rates 0.0001, 0.0003, 0.001, 0.01")
			x.event(0, 0, sweep.Event{Kind: sweep.Started, Attempt: 1})
			lines := x.table.frame(x.clock, width, height)
			if len(lines) > max(1, height-1) {
				t.Errorf("%d lines on %dx%d", len(lines), width, height)
			}
			for _, l := range lines {
				if len(l) > width {
					t.Errorf("%q on %dx%d", l, width, height)
				}
			}
		}
	}
}

// TestStudyTableLines: without a terminal each part has a line before its runs.
func TestStudyTableLines(t *testing.T) {
	x := newTableTest(t, false)
	x.table.Part(0, "part 1 of 4: lr")
	x.event(0, 0, sweep.Event{Kind: sweep.Started, Attempt: 1})
	if got, want := x.out.String(), "part 1 of 4: lr\nstarted   lr=1e-3, seed 1\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
