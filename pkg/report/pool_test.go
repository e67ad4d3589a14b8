package report

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/analysis"
	"grpo/pkg/plots"

	"pgregory.net/rapid"

	"grpo/pkg/config"
	"grpo/pkg/rundir"
)

// poolRun is a run in memory of the default configuration, changed.
func poolRun(dir string, seed uint64, change func(*config.Config)) *rundir.Run {
	c := config.Default()
	c.Seed = seed
	if change != nil {
		change(&c)
	}
	run := reporttest.Around(.9, .01, 1)(seed).Run(seed)
	run.Dir, run.Config = dir, config.Marshal(c)
	run.Meta = &rundir.Meta{Version: "1.0", Revision: "abc", Kernel: "avx2", ProblemsHash: "0123456789"}
	return run
}

func TestArmsOf(t *testing.T) {
	none := func(*rundir.Run) {}
	for _, tt := range []struct {
		name   string
		change func(*config.Config) // of the second run
		made   func(*rundir.Run)
		differ []string // none: one arm
	}{
		{"seeds", nil, none, nil},
		{"a name", func(c *config.Config) { c.Name = "another" }, none, nil},
		{"checkpoints", func(c *config.Config) { c.Output.KeepCheckpoints = 7 }, none, nil},
		{"a rate", func(c *config.Config) { c.Train.LearningRate = 3e-3 }, none, []string{"train.learning_rate"}},
		{"two keys", func(c *config.Config) { c.Train.LearningRate, c.Rollout.GroupSize = 3e-3, 4 }, none, []string{"rollout.group_size", "train.learning_rate"}},
		{"the problems of one file name", nil, func(r *rundir.Run) { r.Meta.ProblemsHash = "9876543210" }, []string{"problems"}},
		{"the program", nil, func(r *rundir.Run) { r.Meta.Version = "1.1" }, nil},
		{"the revision", nil, func(r *rundir.Run) { r.Meta.Revision = "def" }, nil},
		{"the kernel", nil, func(r *rundir.Run) { r.Meta.Kernel = "go" }, []string{"kernel"}},
		{"the wider vectors, with the same bits", nil, func(r *rundir.Run) { r.Meta.Kernel = "avx512" }, nil},
		{"the device", nil, func(r *rundir.Run) { r.Meta.Device = "GPU, tf32" }, []string{"device"}},
		{"threads and times", nil, func(r *rundir.Run) { r.Meta.Threads, r.Meta.Started, r.Meta.Host = 7, "now", "there" }, nil},
		{"a folder without meta.json", nil, func(r *rundir.Run) { r.Meta = nil }, nil},
		{"no meta.json, other validation problems", nil, func(r *rundir.Run) { r.Meta, r.Result.Final.MajorityAnswer = nil, "7" }, []string{"validation problems"}},
		{"a key that the first version lacked", nil, func(r *rundir.Run) { r.Config = bytes.Replace(r.Config, []byte("  pass_k: false\n"), nil, 1) }, nil},
		{"a key of a later version", nil, func(r *rundir.Run) { r.Config = append(r.Config, "later: 1\n"...) }, []string{"later"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			runs := []*rundir.Run{poolRun("x", 1, nil), poolRun("y", 2, tt.change)}
			tt.made(runs[1])
			sw, err := analysis.ArmsOf(runs, "")
			expect.OK(t, err)
			if !slices.Equal(sw.Manifest.Varied, tt.differ) || len(sw.Manifest.Arms) != min(2, 1+len(tt.differ)) {
				t.Errorf("%d arms by %q, want %q", len(sw.Manifest.Arms), sw.Manifest.Varied, tt.differ)
			}
			for what, err := range map[string]error{
				"table":   WriteMarkdown(&bytes.Buffer{}, runs),
				"figures": drawError(runs),
			} {
				if (err == nil) != (tt.differ == nil) || err != nil && !strings.Contains(err.Error(), strings.Join(tt.differ, ", ")) {
					t.Errorf("%s: %v, differing keys %q", what, err, tt.differ)
				}
			}
		})
	}
}

// Versions are arms where they are what is compared, and elsewhere a note.
func TestVersions(t *testing.T) {
	newer := func(dir string, seed uint64, change func(*config.Config)) *rundir.Run {
		r := poolRun(dir, seed, change)
		r.Meta.Version = "1.1"
		return r
	}
	rate := func(c *config.Config) { c.Train.LearningRate = 3e-3 }
	const note = "different versions of grpo (1.0 abc; 1.1 abc)"
	for _, tt := range []struct {
		name   string
		runs   []*rundir.Run
		differ []string
		noted  bool
	}{
		{"a seed each", []*rundir.Run{poolRun("x", 1, nil), newer("y", 2, nil)}, nil, true},
		{"one seed of both", []*rundir.Run{poolRun("x", 1, nil), poolRun("y", 2, nil), newer("z", 2, nil)}, []string{"version"}, false},
		{"another rate", []*rundir.Run{poolRun("x", 1, nil), newer("y", 2, nil), newer("z", 1, rate)}, []string{"train.learning_rate"}, true},
		{"both", []*rundir.Run{poolRun("x", 1, nil), newer("y", 1, nil), newer("z", 1, rate)}, []string{"train.learning_rate", "version"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sw, err := analysis.ArmsOf(tt.runs, "")
			expect.OK(t, err)
			if !slices.Equal(sw.Manifest.Varied, tt.differ) {
				t.Errorf("arms by %q, want %q", sw.Manifest.Varied, tt.differ)
			}
			text := strings.Join(mustReport(t, sw).Verdict.Caveats, "\n")
			if strings.Contains(text, note) != tt.noted {
				t.Errorf("noted: want %v\n%s", tt.noted, text)
			}
			if len(sw.Manifest.Arms) > 1 {
				return
			}
			var b bytes.Buffer
			expect.OK(t, WriteMarkdown(&b, tt.runs))
			if !strings.Contains(b.String(), note) {
				t.Error(b.String())
			}
		})
	}
}

// A configuration from elsewhere can't write to the terminal.
func TestArmsOfUntrustedConfigurations(t *testing.T) {
	r := poolRun("y", 2, nil)
	r.Config = append(r.Config, "\"\\e[2Jkey\": \"\\e[31mvalue\"\n"...)
	r.Meta.Version = "\x1b[1m2"
	sw, err := analysis.ArmsOf([]*rundir.Run{poolRun("x", 1, nil), r}, "")
	expect.OK(t, err)
	var b bytes.Buffer
	expect.OK(t, WriteSweepSummary(&b, mustReport(t, sw), "all"))
	if text := b.String() + strings.Join(sw.Manifest.Varied, ""); strings.Contains(text, "\x1b") || !strings.Contains(text, "[2Jkey") {
		t.Errorf("%q", text)
	}
}

// Arms are called by their rates as in a sweep, not as in YAML (1e-05).
func TestNamesOfRates(t *testing.T) {
	rate := func(c *config.Config) { c.Train.LearningRate = 1e-5 }
	sw, err := analysis.ArmsOf([]*rundir.Run{poolRun("x", 1, nil), poolRun("y", 1, rate)}, "")
	expect.OK(t, err)
	if a := sw.Manifest.Arms[1]; a.Name != "learning_rate=1e-5" || a.Label != "learning_rate 1e-5" {
		t.Errorf("%+v", a)
	}
}

func TestArmsOfErrors(t *testing.T) {
	bare := poolRun("bare", 2, nil)
	bare.Config = nil
	for _, tt := range []struct {
		name string
		runs []*rundir.Run
		want string
	}{
		{"the same run", []*rundir.Run{poolRun("x", 1, nil), poolRun("copy", 1, nil)}, "x and copy are one run (seed 1"},
		{"the same seed in the second arm", []*rundir.Run{
			poolRun("x", 1, nil), poolRun("y", 1, func(c *config.Config) { c.Train.LearningRate = 1 }), poolRun("z", 1, func(c *config.Config) { c.Train.LearningRate = 1 }),
		}, "y and z are one run"},
		{"no configuration", []*rundir.Run{poolRun("x", 1, nil), bare}, "bare has no config.yaml"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			expect.Error(t, expect.Err(analysis.ArmsOf(tt.runs, "")), tt.want)
			if err := WriteMarkdown(&bytes.Buffer{}, tt.runs); err == nil {
				t.Error("the table averages them")
			}
		})
	}
}

// Two runs are in one arm just where they are of one configuration, whatever they
// and their folders are called, and every arm has its own name.
func TestArmsAreConfigurations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var runs []*rundir.Run
		var ids []string
		next := map[string]uint64{}
		for i := range rapid.IntRange(1, 5).Draw(t, "runs") {
			rate := rapid.SampledFrom([]float64{1e-4, 1e-3}).Draw(t, "rate")
			group := rapid.SampledFrom([]int{4, 8}).Draw(t, "group")
			kernel := rapid.SampledFrom([]string{"avx2", "go"}).Draw(t, "kernel")
			id := fmt.Sprint(rate, group, kernel)
			next[id]++
			r := poolRun(fmt.Sprintf("run-%d", i), next[id], func(c *config.Config) {
				c.Name = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name")
				c.Train.LearningRate, c.Rollout.GroupSize = rate, group
			})
			r.Meta.Kernel = kernel
			runs, ids = append(runs, r), append(ids, id)
		}
		sw, err := analysis.ArmsOf(runs, "")
		expect.OK(t, err)
		names := map[string]bool{}
		for _, a := range sw.Manifest.Arms {
			names[a.Name] = true
		}
		if len(names) != len(next) || len(sw.Manifest.Arms) != len(next) {
			t.Fatalf("%d arms, want %d: %v", len(sw.Manifest.Arms), len(next), names)
		}
		of := map[string]int{}
		for _, e := range sw.Manifest.Runs {
			i := slices.IndexFunc(runs, func(r *rundir.Run) bool { return r.Dir == e.Dir })
			if i < 0 { // a seed that this arm lacks
				continue
			}
			if arm, ok := of[ids[i]]; ok && arm != e.Arm {
				t.Fatalf("%s is in the arms %d and %d", ids[i], arm, e.Arm)
			}
			of[ids[i]] = e.Arm
		}
		expect.OK(t, expect.Err(analysis.Analyse(sw)))
	})
}

// Arms with other problems are not said to have seen the same ones.
func TestArmsWithOtherProblems(t *testing.T) {
	var runs []*rundir.Run
	for seed := range uint64(3) {
		other := poolRun(fmt.Sprintf("other-%d", seed), seed, nil)
		other.Meta.ProblemsHash = "9876543210"
		runs = append(runs, poolRun(fmt.Sprintf("run-%d", seed), seed, nil), other)
	}
	sw, err := analysis.ArmsOf(runs, "")
	expect.OK(t, err)
	a := mustReport(t, sw)
	figures, err := plots.Sweep(a.Analysis, plots.SweepOptions{DPI: 36, MainOnly: true})
	expect.OK(t, err)
	paired := figures[len(figures)-1]
	if paired.File != "paired_difference.png" || strings.Contains(strings.Join(paired.Notes, " "), "same problems") {
		t.Errorf("%s: %q", paired.File, paired.Notes)
	}
	if text := strings.Join(a.Verdict.Caveats, "\n"); !strings.Contains(text, "different problems") {
		t.Error(text)
	}
}

// A sweep's report states which arms have runs that differ in more than their seeds.
func TestMixedArms(t *testing.T) {
	sw := reporttest.BaselineSweep(3)
	for i := range sw.Runs {
		sw.Runs[i].Run.Meta, sw.Runs[i].Run.Config = &rundir.Meta{Version: "1", Kernel: "avx2"}, []byte("seed: 1\n")
	}
	neverFinding(t, mustReport(t, sw), analysis.MixedArms)
	sw.Runs[3].Run.Meta.Kernel, sw.Runs[3].Run.Meta.Version = "go", "2"
	a := mustReport(t, sw)
	wantFinding(t, a, finding{Section: analysis.Caveat, Kind: analysis.MixedArms,
		Parts: []finding{{Kind: analysis.MixedArms, Arms: []int{1}, Keys: []string{"kernel"}}}})
	if text := strings.Join(a.Verdict.Caveats, "\n"); !strings.Contains(text, "different versions of grpo (1; 2)") {
		t.Error(text)
	}
}

// Runs that read other contents of a file are the first thing that a sweep's report says, and are never
// one arm: also of an earlier version, which recorded hashes of what it had read.
func TestOtherContents(t *testing.T) {
	for name, metas := range map[string][2]rundir.Meta{
		"files":       {{InputFiles: map[string]string{"tm/config.json": "a", "x": "b"}}, {InputFiles: map[string]string{"tm/config.json": "c", "x": "b"}}},
		"old weights": {{InitHash: "a"}, {InitHash: "b"}},
		"old network": {{InitHash: "a+1", NetworkHash: "n"}, {InitHash: "a+2", NetworkHash: "o"}},
	} {
		t.Run(name, func(t *testing.T) {
			sw := reporttest.BaselineSweep(3)
			for i := range sw.Runs {
				m := metas[0]
				sw.Runs[i].Run.Meta, sw.Runs[i].Run.Config = &m, []byte("seed: 1\nmodel: {init: tm}\n")
			}
			neverFinding(t, mustReport(t, sw), analysis.OtherContents)
			sw.Runs[3].Run.Meta = &metas[1]
			file := "tm"
			if name == "files" {
				file = "tm/config.json"
			}
			a := mustReport(t, sw)
			wantFinding(t, a, finding{Section: analysis.Headline, Kind: analysis.OtherContents, Values: []string{file}})
			wantFinding(t, a, finding{Section: analysis.Caveat, Kind: analysis.MixedArms,
				Parts: []finding{{Kind: analysis.MixedArms, Arms: []int{1}, Keys: []string{"contents of " + file}}}})
		})
	}
}

func TestDistinct(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"a", "b"} {
		expect.OK(t, os.Mkdir(name, 0o755))
	}
	dirs := []string{"a", "./a", "b", filepath.Join(dir, "a"), "none", "b/../a"}
	want := []string{"a", "b", "none"}
	if os.Symlink("a", "link") == nil {
		dirs = append(dirs, "link")
	}
	if got := analysis.Distinct(dirs); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
