package sweep

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

func TestParseLooks(t *testing.T) {
	seeds, looks, ok, err := ParseLooks(" 4..16 ")
	if err != nil || !ok || len(seeds) != 16 || len(looks) != 3 || looks[1] != (sweepdir.Look{Seeds: 8, Level: .0125}) {
		t.Errorf("%v %v %v %v", seeds, looks, ok, err)
	}
	if _, looks, _, _ := ParseLooks("3..7"); len(looks) != 3 || looks[2].Seeds != 7 {
		t.Errorf("3..7: %v", looks)
	}
	if _, _, ok, err := ParseLooks("1,2,5"); ok || err != nil {
		t.Errorf("a list: %v %v", ok, err)
	}
	for text, want := range map[string]string{
		"1..16": "two seeds or more", "4..4": "more seeds than the first", "8..4": "more seeds than the first",
		"4..20000": "at most 10000", "..": "is no plan of looks", "4..a": "is no plan of looks", "1,2..4": "is no plan of looks",
	} {
		if _, _, ok, err := ParseLooks(text); !ok || err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, config.ErrConfig) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// A plan is part of the request, not of the identity, and goes with neither halving nor tuned arms.
func TestPlanOfLooks(t *testing.T) {
	long(t)
	const axes = "axes: [{key: lr, values: [1e-4, 1e-3, 1e-2]}]\n"
	p := planOf(t, axes+"seeds: 4..16", PlanOptions{})
	if len(p.Manifest.Looks) != 3 || !strings.Contains(string(p.Request), "seeds: 4..16\n") {
		t.Errorf("%v\n%s", p.Manifest.Looks, p.Request)
	}
	if without := planOf(t, axes+"seeds: 16", PlanOptions{}); without.Manifest.Hash != p.Manifest.Hash {
		t.Error("the hash is another")
	}
	tuned := "arms: [{name: a}, {name: b, set: {beta: 1}}]\naxes: [{key: lr, values: [1, 2]}]\nbest_over: lr\nseeds: 4..16"
	if _, err := NewPlan(parsed(t, tuned), PlanOptions{ReuseChoice: true}); err == nil || !strings.Contains(err.Error(), "--reuse-choice") {
		t.Errorf("tuned arms on the seeds of the choice: %v", err)
	}
	for seeds, want := range map[string]string{"4..16": "[{4 0 true <nil>} {8 0.025 false <nil>} {12 0.0125 false <nil>} {20 0.0125 false <nil>}]",
		"[2, 3]": "[{2 0 true <nil>} {4 0.05 false <nil>}]"} {
		p := planOf(t, strings.Replace(tuned, "4..16", seeds, 1), PlanOptions{})
		if got := fmt.Sprint(p.Manifest.Looks); got != want {
			t.Errorf("%s: %s", seeds, got)
		}
		req, err := ParseRequest("sweep.yaml", p.Request)
		expect.OK(t, err)
		again, err := NewPlan(req, PlanOptions{})
		if expect.OK(t, err); again.Manifest.Hash != p.Manifest.Hash || fmt.Sprint(again.Manifest.Looks) != want {
			t.Errorf("%s: again %v\n%s", seeds, again.Manifest.Looks, p.Request)
		}
	}
}

// endRun writes the result of a run: arm a is far better than arm b.
func endRun(t *testing.T, dir string, e sweepdir.Entry) {
	t.Helper()
	expect.OK(t, os.MkdirAll(e.Path(dir), 0o755))
	right := []int{900, 100}[e.Arm] + int(e.Seed)
	r := rundir.Result{Status: rundir.StateDone, Steps: 1}
	r.Final.Split = rundir.SplitVal
	r.Final.Sampled = rundir.Counts{
		N: 1000, CorrectNum: right, ErrorNum: 1000 - right, FormattedRight: right, Unformatted: 1000 - right,
		AnswerReward: float64(right) / 1000, FormatReward: float64(right) / 1000,
	}
	expect.OK(t, rundir.WriteJSON(filepath.Join(e.Path(dir), rundir.ResultFile), r))
}

// Runs that have failed don't hold up a look if two runs of each arm are left.
func TestDueGivesUpFailedRuns(t *testing.T) {
	for seeds, want := range map[int]string{2: "due [3], looks taken 0", 3: "due [3], looks taken 1"} {
		m := fakeManifest(2, seeds+1)
		m.Looks = []sweepdir.Look{{Seeds: seeds, Level: .025}, {Seeds: seeds + 1, Level: .025}}
		dir := writeSweep(t, m)
		for _, e := range m.Runs[:2*seeds] {
			if e.Index != 3 {
				endRun(t, dir, e)
			}
		}
		p := &Located{Plan: &Plan{Manifest: m}, Dir: dir}
		due, err := p.Due(func(string) {})
		if expect.OK(t, err); fmt.Sprint(due) != "[3]" { // it was not tried yet
			t.Errorf("%d seeds: due %v", seeds, due)
		}
		expect.OK(t, os.MkdirAll(m.Runs[3].Path(dir), 0o755))
		expect.OK(t, rundir.WriteJSON(filepath.Join(m.Runs[3].Path(dir), rundir.StatusFile), rundir.Status{State: rundir.StateFailed, Error: "no data"}))
		due, err = p.Due(func(string) {})
		expect.OK(t, err)
		if got := fmt.Sprintf("due %v, looks taken %d", due, p.Manifest.LooksTaken()); got != want {
			t.Errorf("%d seeds: %s, want %s", seeds, got, want)
		}
	}
}

// A look is taken once, and only when all runs up to it have ended.
func TestTakeLook(t *testing.T) {
	m := fakeManifest(2, 4)
	m.Looks = []sweepdir.Look{{Seeds: 2, Level: .025}, {Seeds: 4, Level: .025}}
	dir := writeSweep(t, m)
	end := func(index int) { endRun(t, dir, m.Runs[index]) }
	take := func(gone ...int) (sweepdir.Manifest, string) {
		t.Helper()
		now, text, err := TakeLook(dir, func(s sweepdir.RunState) bool { return len(gone) > 0 && s.Index == gone[0] })
		expect.OK(t, err)
		return now, text
	}
	for i := range 3 {
		end(i)
		if now, text := take(); now.LooksTaken() > 0 || text != "" {
			t.Fatalf("after %d runs: %s", i+1, text)
		}
	}
	if _, _, err := TakeLook(dir, func(s sweepdir.RunState) bool { return s.Index == 3 }); err == nil ||
		!strings.Contains(err.Error(), "needs two finished runs") {
		t.Errorf("a run failed of two: %v", err)
	}
	end(3)
	now, text := take()
	if now.LooksTaken() != 1 || now.NextLook() != -1 || !strings.Contains(text, "no comparison is left open") {
		t.Fatalf("%s: %+v", text, now.Looks[0].Taken)
	}
	again, text := take()
	if text != "" || again.LooksTaken() != 1 {
		t.Errorf("again: %s", text)
	}
	s, err := sweepdir.Open(dir)
	expect.OK(t, err)
	if !s.Finished() || s.Runs[4].State != sweepdir.Stopped {
		t.Errorf("%v %s", s.Finished(), s.Runs[4].State)
	}
}

// Runs that wait for a look count when as many are started as fit into the memory: more of them than of the first
// seeds may run at a time.
func TestPlannedRunsFitMemory(t *testing.T) {
	p := planOf(t, "axes: [{key: lr, values: [1e-3, 3e-3]}]\nset: {val_size: 8, unseen_size: 0, test_size: 0}\nseeds: 2..4", PlanOptions{})
	dir := writeSweep(t, p.Manifest)
	synctest.Test(t, func(t *testing.T) {
		l, j := &fakeLauncher{t: t, rest: fails(1, "no data")}, &journal{}
		o := fakeOptions(l, j)
		o.Cores, o.Memory = 8, int64(6.5*memories(1)(p.Manifest.Runs[0]).Total())
		if _, err := Run(t.Context(), dir, o); err == nil || !strings.Contains(fmt.Sprint(j.notes), "6 runs at a time instead of 8") {
			t.Errorf("%v, notes %q", err, j.notes)
		}
	})
}
