package report

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/rundir"
)

// withSamples gives a run the completions of two problems at some steps: "a" is always right, "b"
// becomes right at the last step.
func withSamples(r *rundir.Run, steps ...int) {
	for i, step := range steps {
		for _, problem := range []string{"a", "b"} {
			right := 0.0
			if problem == "a" || i == len(steps)-1 {
				right = 1
			}
			r.Samples = append(r.Samples, rundir.Sample{
				Step: step, Split: rundir.SplitVal, Decoding: rundir.DecodingSampled, Problem: problem, Prompt: "Ask " + problem + "\n<b>",
				Completion: fmt.Sprintf("%s at %d\n</pre><script>", problem, step), Gold: "16", Ended: true, Reward: right, AnswerReward: right, FormatReward: 1,
			})
		}
	}
	r.Samples = append(r.Samples, rundir.Sample{Step: 0, Split: rundir.SplitVal, Decoding: rundir.DecodingGreedy, Problem: "b"})
}

func TestExamples(t *testing.T) {
	sw := reporttest.DrawnSweep(2, nil, reporttest.ManyArms(3)...)
	if mustReport(t, sw).examples() != nil {
		t.Error("examples of runs without samples")
	}
	for _, s := range sw.Runs {
		if s.Arm != 1 {
			withSamples(s.Run, 0, 10, 20, 30, 40, 50, 60)
		}
	}
	a := mustReport(t, sw)
	e := a.examples()
	if e == nil || len(e.Arms) != 2 || e.Gold != "16" || e.Prompt != "Ask b\n<b>" || !e.Arms[0].Open || e.Arms[1].Open || e.Arms[0].Seed != "seed 1" {
		t.Fatalf("%+v", e)
	}
	var steps []string
	for _, s := range e.Arms[0].Steps {
		steps = append(steps, fmt.Sprintf("%d %v %s", s.Step, s.Right, s.Numbers))
	}
	if len(steps) != 5 || steps[0] != "0 false reward 0" || !strings.HasPrefix(steps[2], "30 false") || !strings.HasPrefix(steps[4], "60 true") {
		t.Errorf("%q", steps)
	}
	page := pageOf(t, a)
	inOrder(t, page, `href="#examples"`, `id="examples"`, "Ask b\n&lt;b&gt;", "Right answer: 16", "<b>Step 0</b>", "b at 0\n&lt;/pre&gt;&lt;script&gt;", "<b>Step 60</b>: right")
}

func TestFacts(t *testing.T) {
	r := reporttest.SynthRun(t, 1, 200)
	r.Config = append(r.Config, "model: {init: base, hidden_size: 64, num_layers: 2}\ndata: {source: generated}\n"...)
	r.Meta = &rundir.Meta{Version: "1.2.3", OS: "linux", Arch: "amd64", Kernel: "avx2", Threads: 2, Started: "2026-05-06T07:08:09Z", Host: "secret"}
	other := *r
	other.Meta = &rundir.Meta{Version: "1.2.3", OS: "linux", Arch: "arm64", Kernel: "go", Started: "2026-05-07T00:00:00Z"}
	other.Config = []byte(strings.ReplaceAll(string(r.Config), "base", "models/SmolLM2"))
	got := strings.Join(facts([]*rundir.Run{r, &other}), " · ")
	want := "SmolLM2 / TinyLM, 2 layers of width 64 · 62,820 trained parameters · generated problems (1,024 validation, 512 unseen facts, 1,024 test)" +
		" · linux/amd64, avx2, 2 threads a run / linux/arm64, go · 2026-05-06 / 2026-05-07 · grpo 1.2.3"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := facts([]*rundir.Run{{Config: []byte("train: [")}}); len(got) != 0 {
		t.Errorf("%q of a run without anything", got)
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234", -123: "-123"} {
		if got := thousands(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}

func TestExportRuns(t *testing.T) {
	one, two := reporttest.SynthRun(t, 1, 20), reporttest.SynthRun(t, 2, 20)
	both := Export{CSV: true, TensorBoard: true}
	out := t.TempDir()
	paths, err := ExportRuns(out, "", []*rundir.Run{one, two}, both)
	if err != nil || len(paths) != 4 || paths[0] != filepath.Join(out, "train-1", rundir.TableFile) || paths[3] != filepath.Join(out, "train-2", rundir.EventsFile) {
		t.Fatal(paths, err)
	}
	if data, err := os.ReadFile(paths[0]); err != nil || string(data) != string(one.CSV("", "1")) {
		t.Errorf("%v: %.100s", err, data)
	}
	// Of a sweep, at the same place below its folder.
	if paths, err = ExportRuns(out, filepath.Dir(filepath.Dir(one.Dir)), []*rundir.Run{one}, Export{CSV: true}); err != nil ||
		paths[0] != filepath.Join(out, filepath.Base(filepath.Dir(one.Dir)), "train-1", rundir.TableFile) {
		t.Error(paths, err)
	}
	expect.Error(t, expect.Err(ExportRuns(out, "", []*rundir.Run{one, one}, both)), "another run's folder")
	one.Dir = reporttest.SynthFolder(t, 1, 20)
	unlock, err := rundir.Claim(one.Dir, rundir.KindRun, nil)
	expect.OK(t, err)
	defer unlock()
	expect.Error(t, expect.Err(ExportRuns(one.Dir, "", []*rundir.Run{one}, both)), "is training in this folder")
}
