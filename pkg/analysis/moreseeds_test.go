package analysis

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"grpo/internal/reporttest"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

func TestWithSeeds(t *testing.T) {
	for argv, want := range map[string]string{
		"./grpo sweep lr --seeds 4 --out x":     "grpo sweep lr --out d/lr --seeds 11",
		"grpo ablate clip --seeds=4 --out=x -q": "grpo ablate clip --out d/lr -q --seeds 11",
		"grpo sweep lr --prepare":               "grpo sweep lr --seeds 11",
		"grpo assignment --all --out a":         "grpo assignment --all --reuse d --seeds 11",
		"grpo assignment --lr-per-arm":          "grpo assignment --lr-per-arm --seeds 11",
		"grpo report a b":                       "", "grpo": "", "rm -rf /": "",
	} {
		m := sweepdir.Manifest{Argv: strings.Fields(argv)}
		if got := strings.Join(withSeeds(&m, "d/lr", "11"), " "); got != want {
			t.Errorf("%s: %q, want %q", argv, got, want)
		}
	}
	for _, argv := range []string{"grpo sweep lr --fresh --out x", "grpo sweep lr --fresh"} {
		m := sweepdir.Manifest{Argv: strings.Fields(argv), Fresh: true}
		if got := strings.Join(withSeeds(&m, "x-2", "11"), " "); got != "grpo sweep lr --out x-2 --seeds 11" {
			t.Errorf("%s: %q", argv, got)
		}
	}
}

// The seeds are those that the answer needs.
func TestSeedsToAdd(t *testing.T) {
	arm := func(name string, finals ...float64) reporttest.FakeArm {
		return reporttest.FakeArm{Name: name, Run: func(seed uint64) reporttest.FakeRun {
			return reporttest.FakeRun{Initial: .2, Final: finals[seed-1]}
		}}
	}
	grid := func(last ...float64) *sweepdir.Sweep {
		sw := reporttest.FakeSweep(4, arm("x0y0", .5, .51, .5, .52), arm("x0y1", .52, .51, .53, .5), arm("x1y0", .8, .81, .8, .83), arm("x1y1", last...))
		for i := range sw.Manifest.Arms {
			sw.Manifest.Arms[i].Set = []sweepdir.Override{{Key: "k.x", Value: fmt.Sprint(i / 2)}, {Key: "k.y", Value: fmt.Sprint(i % 2)}}
		}
		return sw
	}
	three := func(reference string) *sweepdir.Sweep {
		sw := reporttest.FakeSweep(4, arm("best", .8, .81, .82, .79), arm("far", .5, .8, .7, .82), arm("near", .79, .78, .81, .8))
		sw.Manifest.Reference = reference
		return sw
	}
	diverged := three("")
	for i := range diverged.Runs {
		diverged.Runs[i].State = rundir.StateDiverged
	}
	for _, tt := range []struct {
		name  string
		sweep *sweepdir.Sweep
		needs func(Comparison) bool // nil: no seeds are suggested
	}{
		{"a grid", grid(.84, .78, .8, .79), func(c Comparison) bool { return c.Kind == KindInteraction }},
		{"a grid with an interaction", grid(.3, .31, .3, .33), nil},
		{"the closest to the best", three(""), func(c Comparison) bool { return c.B == "near" }},
		{"the first with a reference", three("best"), func(c Comparison) bool { return c.A == "far" }},
		{"all diverged", diverged, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := mustAnalyse(t, tt.sweep)
			finals, got := a.finals(), slices.IndexFunc(a.Findings, func(f Finding) bool { return f.Kind == SeedsToAdd })
			sides := slices.ContainsFunc(finals, func(c Comparison) bool { return c.SeedsNeeded > 4 })
			if tt.needs == nil {
				if got >= 0 || !sides {
					t.Errorf("%+v, other comparisons that need seeds: %t", a.Findings[max(0, got)], sides)
				}
				return
			}
			i := slices.IndexFunc(finals, tt.needs)
			if got < 0 || a.Findings[got].Count != finals[i].SeedsNeeded {
				t.Fatalf("finding %d, want %d seeds of %+v", got, finals[i].SeedsNeeded, finals)
			}
			for k, c := range finals {
				if k != i && c.SeedsNeeded == finals[i].SeedsNeeded {
					t.Errorf("%s - %s needs as many", c.A, c.B)
				}
			}
		})
	}
}

func TestSeedList(t *testing.T) {
	for _, test := range []struct {
		seeds []uint64
		n     int
		want  string
	}{
		{[]uint64{1, 2, 3, 4}, 8, "8"}, {[]uint64{2, 1}, 3, "3"}, {[]uint64{1, 2, 5}, 5, "5"},
		{[]uint64{7, 9}, 4, "7,9,1,2"}, {[]uint64{0, 1}, 3, "0,1,2"}, {[]uint64{0, 2}, 3, "0,2,1"},
	} {
		if got := seedList(test.seeds, test.n); got != test.want {
			t.Errorf("%v, %d: %s, want %s", test.seeds, test.n, got, test.want)
		}
	}
}
