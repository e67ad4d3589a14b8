package cmd

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"grpo/internal/expect"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
	"grpo/pkg/sweepdir"
)

// tableTest is a table with a clock that the test moves.
type tableTest struct {
	t      *testing.T
	out    strings.Builder
	clock  time.Time
	m      sweepdir.Manifest
	table  *sweepTable
	width  int
	height int
}

// tablePlan is of the arms lr=0.001 and lr=0.01 with the seeds 1 and 2, of 100 steps.
var tablePlan = sync.OnceValues(func() (*sweep.Plan, error) {
	req, err := sweep.AxesRequest([]sweep.AxisRequest{{Key: "lr", Values: []string{"1e-3", "1e-2"}}})
	if err != nil {
		return nil, err
	}
	return sweep.NewPlan(req, sweep.PlanOptions{Seeds: []uint64{1, 2}, Set: []string{"n_grpo_steps=100"}})
})

// newTableTest has the runs of tablePlan on two places.
func newTableTest(t *testing.T, redraw bool) *tableTest {
	cores := runtime.GOMAXPROCS(2) // two places also on a machine with one core
	t.Cleanup(func() { runtime.GOMAXPROCS(cores) })
	p, err := tablePlan()
	expect.OK(t, err)
	x := &tableTest{t: t, clock: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), m: p.Manifest, width: 80, height: 24}
	x.table = newSweepTable(&State{Err: &x.out, Redraw: redraw, Now: func() time.Time { return x.clock }}, false, x.m, 2)
	x.table.screen.Size = func() (int, int) { return x.width, x.height }
	return x
}

// event reports an event of run i after a pause.
func (x *tableTest) event(after time.Duration, i int, e sweep.Event) {
	x.clock = x.clock.Add(after)
	e.Entry = x.m.Runs[i]
	x.table.Event(e)
}

// at is a run's folder after this number of steps, half a second each after a start of
// two seconds, which is that of evaluations, with one every 10 steps.
func at(state string, step int, reward float64) sweepdir.RunState {
	r := &rundir.Run{}
	for s := 1; s <= step; s++ {
		r.Metrics = append(r.Metrics, rundir.Metrics{Step: s, Time: rundir.Timing{RolloutS: 0.5, ElapsedS: 2 + 0.5*float64(s)}})
	}
	for s := 0; s <= step; s += 10 {
		r.Evals = append(r.Evals, rundir.Eval{Step: s, Split: rundir.SplitVal, Sampled: rundir.Counts{AnswerReward: reward}},
			rundir.Eval{Step: s, Split: rundir.SplitUnseen, Sampled: rundir.Counts{AnswerReward: 0.01}})
	}
	r.Status = &rundir.Status{State: state, Step: step / 10 * 10, Steps: 100}
	return sweepdir.RunState{State: state, Run: r}
}

// ended is at with a result.
func ended(state string, step int, reward float64) sweepdir.RunState {
	s := at(state, step, reward)
	s.Run.Result = &rundir.Result{Status: state, Steps: 100, WallS: 50, Final: rundir.Eval{Sampled: rundir.Counts{AnswerReward: reward}}}
	if state == rundir.StateDiverged {
		step := 20
		s.Run.Result.DivergedAt, s.Run.Result.DivergedReason = &step, "validation reward fell to 0.000 from 0.162 at step 0"
	}
	return s
}

// story is what happens to the four runs.
func (x *tableTest) story() {
	x.event(0, 0, sweep.Event{Kind: sweep.Started, Attempt: 1})
	x.event(0, 1, sweep.Event{Kind: sweep.Started, Attempt: 1})
	x.event(4*time.Second, 0, sweep.Event{Kind: sweep.Progress, State: at(rundir.StateRunning, 2, 0.162)})
	x.event(7*time.Second, 0, sweep.Event{Kind: sweep.Progress, State: at(rundir.StateRunning, 18, 0.512)})
	x.event(time.Second, 0, sweep.Event{Kind: sweep.Progress, State: at(rundir.StateRunning, 20, 0.533)})
	x.event(time.Second, 1, sweep.Event{Kind: sweep.Died, Err: errors.New("panic: boom"), LogTail: "panic: boom\ngoroutine 1", LogPath: "s/runs/b/task.log", State: at(sweepdir.Dead, 10, 0.2)})
	x.event(time.Second, 1, sweep.Event{Kind: sweep.Started, Attempt: 2, From: 10, State: at(sweepdir.Dead, 14, 0.2)})
	x.event(20*time.Second, 0, sweep.Event{Kind: sweep.Progress, State: at(rundir.StateRunning, 60, 0.71)})
	x.event(18*time.Second, 0, sweep.Event{Kind: sweep.Ended, State: ended(rundir.StateDone, 100, 0.871)})
	x.event(0, 2, sweep.Event{Kind: sweep.Started, Attempt: 1})
	x.event(2*time.Second, 1, sweep.Event{Kind: sweep.Ended, State: ended(rundir.StateDiverged, 100, 0)})
	x.event(time.Second, 3, sweep.Event{Kind: sweep.GaveUp, Err: errors.New("open nothing: no such file")})
	x.table.Note("a remark")
	x.event(time.Second, 2, sweep.Event{Kind: sweep.Hung, Err: errors.New("no sign of life for 5m0s")})
	x.event(time.Second, 2, sweep.Event{Kind: sweep.Stopped, State: at(rundir.StateInterrupted, 10, 0.3)})
	x.table.done()
}

func TestSweepTableLines(t *testing.T) {
	x := newTableTest(t, false)
	x.story()
	want := `started   lr=1e-3, seed 1
started   lr=1e-2, seed 1
          lr=1e-3, seed 1: step 18/100  validation 0.512
died      lr=1e-2, seed 1: panic: boom
  s/runs/b/task.log:
    panic: boom
    goroutine 1
started   lr=1e-2, seed 1, attempt 2, after step 10
          lr=1e-3, seed 1: step 60/100  validation 0.710
total     0 of 4 runs, 34s elapsed, about 1m25s left
done      lr=1e-3, seed 1: validation 0.871 in 52s
total     1 of 4 runs, 52s elapsed, about 1m1s left
started   lr=1e-3, seed 2
diverged  lr=1e-2, seed 1: validation 0.000 in 40s (at step 20: validation reward fell to 0.000 from 0.162 at step 0)
failed    lr=1e-2, seed 2: open nothing: no such file
note: a remark
hangs     lr=1e-3, seed 2: no sign of life for 5m0s
stopped   lr=1e-3, seed 2: at step 10 of 100, with a checkpoint
2 of 4 runs (1 diverged), 1 failed, 1 stopped, 57s elapsed
`
	if got := x.out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestSweepTableQuiet(t *testing.T) {
	x := newTableTest(t, true)
	x.table = newSweepTable(&State{Err: &x.out, Redraw: true, Now: func() time.Time { return x.clock }}, true, x.m, 2)
	x.story()
	if x.out.Len() > 0 {
		t.Errorf("quiet, but wrote %q", x.out.String())
	}
}

// screen is what a terminal shows after a text with cursor moves.
func screen(t *testing.T, text string) []string {
	lines, row, col := []string{""}, 0, 0
	move := regexp.MustCompile(`^\x1b\[(\d*)([AJK])`)
	for text != "" {
		switch m := move.FindStringSubmatch(text); {
		case m != nil:
			text = text[len(m[0]):]
			switch m[2] {
			case "A":
				n, _ := strconv.Atoi(m[1])
				if row -= n; row < 0 {
					t.Fatal("the cursor left the screen")
				}
			case "J":
				lines = append(lines[:row], lines[row][:min(col, len(lines[row]))])
			case "K":
				lines[row] = lines[row][:min(col, len(lines[row]))]
			}
		case text[0] == '\x1b':
			t.Fatalf("an unknown escape: %q", text[:min(10, len(text))])
		case text[0] == '\r':
			col, text = 0, text[1:]
		case text[0] == '\n':
			if row++; row == len(lines) {
				lines = append(lines, "")
			}
			col, text = 0, text[1:]
		default:
			l := lines[row] + strings.Repeat(" ", max(0, col-len(lines[row])))
			lines[row] = l[:col] + text[:1] + l[min(len(l), col+1):]
			col, text = col+1, text[1:]
		}
	}
	return lines
}

func TestSweepTableRedraw(t *testing.T) {
	x := newTableTest(t, true)
	x.event(0, 0, sweep.Event{Kind: sweep.Started, Attempt: 1})
	x.event(0, 1, sweep.Event{Kind: sweep.Started, Attempt: 1})
	x.event(12*time.Second, 0, sweep.Event{Kind: sweep.Progress, State: at(rundir.StateRunning, 20, 0.512)})
	x.event(50*time.Millisecond, 0, sweep.Event{Kind: sweep.Progress, State: at(rundir.StateRunning, 21, 0.512)}) // too soon: not drawn
	want := `run              step    validation  state    left
lr=1e-3, seed 1  20/100  0.512       running  46s
lr=1e-2, seed 1  0/100               running
lr=1e-3, seed 2                      waiting
lr=1e-2, seed 2                      waiting
[#...................] 0 of 4 runs, 12s elapsed, about 1m44s left
`
	if got := strings.Join(screen(t, x.out.String()), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	x.event(time.Second, 1, sweep.Event{Kind: sweep.GaveUp, Err: errors.New("no such file"), LogTail: "grpo: no such file", LogPath: "task.log"})
	x.event(time.Second, 2, sweep.Event{Kind: sweep.Started, Attempt: 1})
	x.event(40*time.Second, 0, sweep.Event{Kind: sweep.Ended, State: ended(rundir.StateDone, 100, 0.871)})
	want = `failed    lr=1e-2, seed 1: no such file
  task.log:
    grpo: no such file
run              step     validation  state    left
lr=1e-2, seed 1  0/100                failed
lr=1e-3, seed 2  0/100                running
lr=1e-2, seed 2                       waiting
lr=1e-3, seed 1  100/100  0.871       done     took 54s
[##########..........] 1 of 4 runs, 1 failed, 54s elapsed, about 54s left
`
	if got := strings.Join(screen(t, x.out.String()), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	x.table.done()
	want = `failed    lr=1e-2, seed 1: no such file
  task.log:
    grpo: no such file
1 of 4 runs, 1 failed, 54s elapsed
`
	if got := strings.Join(screen(t, x.out.String()), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// fits checks that no line of the table is too long and that it is not too high, and returns it.
func (x *tableTest) fits() []string {
	lines := x.table.frame(x.clock, x.width, x.height)
	if len(lines) > max(1, x.height-1) {
		x.t.Errorf("%d lines on %dx%d", len(lines), x.width, x.height)
	}
	for _, l := range lines {
		if len(l) > x.width {
			x.t.Errorf("%q on %dx%d", l, x.width, x.height)
		}
	}
	return lines
}

// TestSweepTableFits: at any size of the terminal and at any point of the story
// no line is too long, no frame too high, and no run lost.
func TestSweepTableFits(t *testing.T) {
	for _, width := range []int{1, 20, 40, 58, 80, 200} {
		for height := 1; height < 12; height++ {
			t.Run(fmt.Sprintf("%dx%d", width, height), func(t *testing.T) {
				x := newTableTest(t, true)
				x.width, x.height = width, height
				x.event(0, 0, sweep.Event{Kind: sweep.Started, Attempt: 1})
				x.event(12*time.Second, 0, sweep.Event{Kind: sweep.Progress, State: at(rundir.StateRunning, 20, 0.512)})
				x.event(time.Second, 1, sweep.Event{Kind: sweep.GaveUp, Err: errors.New("no")})
				lines := x.fits()
				if height == 5 && width == 80 {
					want := []string{
						"run              step   validation  state   left",
						"lr=1e-2, seed 1  0/100              failed",
						"... and 1 running, 2 waiting",
					}
					if strings.Join(lines[:3], "\n") != strings.Join(want, "\n") {
						t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
					}
				}
			})
		}
	}
}

func TestShortTime(t *testing.T) {
	const hour, day = 3600, 24 * 3600
	for s, want := range map[float64]string{
		0: "0s", 0.4: "0s", 9: "9s", 80: "1m20s", 59*60 + 59: "59m59s", 2*hour + 5*60 + 10: "2h5m", 30 * hour: "30h0m",
		40*day + hour: "40 days", 5 * 366 * day: "5 years", 99 * 365 * day: "99 years",
		101 * 366 * day: "more than 100 years", 1e10: "more than 100 years", 1e300: "more than 100 years", math.Inf(1): "more than 100 years",
	} {
		if got := shortTime(s); got != want {
			t.Errorf("%v: %s, want %s", s, got, want)
		}
	}
	if got := shortTime(math.NaN()); strings.Contains(got, "-") {
		t.Errorf("NaN: %s", got)
	}
}

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
			x.fits()
		}
	}
}
