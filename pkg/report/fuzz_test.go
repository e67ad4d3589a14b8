package report

import (
	"bytes"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grpo/internal/expect"
	"grpo/internal/reporttest"
	"grpo/pkg/plots"

	"grpo/internal/untrusted"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// fuzzLimit: a table of a few lines needs little, but its columns are as wide as
// their widest cell.
var fuzzLimit = untrusted.Limit{Base: 32 << 20, PerByte: 16 << 10, Time: untrusted.Reader.Time}

// FuzzReport: whatever is in the files of a run of unknown origin, its
// report is an error that names the folder, or a table that can be shown.
func FuzzReport(f *testing.F) {
	dir := reporttest.SynthFolder(f, 1, 20)
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(dir, name))
		expect.OK(f, err)
		return data
	}
	f.Add(read(rundir.ConfigFile), read(rundir.MetricsFile), read(rundir.EvalFile))
	eval := `{"step":0,"split":"\u001b[31m|","sampled":{"n":1,"correct_num":1,"formatted_right":1},"majority_answer":"\u001b[31m|\n<b>"}` + "\n"
	for _, config := range []string{
		"", "name: \"\\e[31m|<b>\"\nseed: 1\n", "seed: -1\n", "name: [a]\n", "train: {learning_rate: .nan, n_grpo_steps: 99999999999}\n", "\xff", "a: &a [*a]\n", "name: &a\n  - *a\n",
		"a0: &a0 [x, x]\n" + strings.Repeat("a1: &a1 [*a0, *a0, *a0, *a0, *a0, *a0, *a0, *a0, *a0, *a0]\n", 8), "? ? ? ?\n", "%\n",
		"name: |\n  two\n  lines\nrollout: {rollout_batch_size: 0, group_size: 0}\n",
	} {
		f.Add([]byte(config), []byte("{\"step\":1,\"loss\":1e308,\"rewards\":{\"\\u001b[31m|\":{\"mean\":1,\"std\":0}}}\n"), []byte(eval))
	}
	f.Add([]byte("name: a\nseed: 1\n"), []byte("{\"step\":1}\n"), []byte(strings.Replace(eval, `\u001b[31m|`, "val", 1)))
	f.Add([]byte("seed: 1\n"), []byte(""), []byte(`{"step":9223372036854775807,"split":"val","sampled":{"n":9223372036854775807,"correct_num":9223372036854775807}}`+"\n"))
	f.Fuzz(func(t *testing.T, config, metrics, evals []byte) {
		dir := t.TempDir()
		for name, data := range map[string][]byte{rundir.ConfigFile: config, rundir.MetricsFile: metrics, rundir.EvalFile: evals} {
			expect.OK(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
		}
		fuzzLimit.Check(t, len(config)+len(metrics)+len(evals), func() {
			run, err := rundir.Open(dir)
			if err != nil {
				untrusted.CheckError(t, err)
				return
			}
			for _, write := range []func(io.Writer) error{
				func(w io.Writer) error { return WriteMarkdown(w, []*rundir.Run{run}) },
				func(w io.Writer) error { return WriteSummary(w, run) },
			} {
				var b bytes.Buffer
				if err := write(&b); err != nil {
					untrusted.CheckError(t, err)
					continue
				}
				untrusted.CheckText(t, b.String())
			}
		})
	})
}

// FuzzFigures: whatever the figures of a run are, drawing them ends, in a PNG or
// in an error. An axis whose ticks are put one after the other has no end where
// a step is lost in rounding.
func FuzzFigures(f *testing.F) {
	big, tiny := math.MaxFloat64, math.SmallestNonzeroFloat64
	for _, x := range [][4]float64{
		{0, 0, 0, 0}, {1, 2, 3, 4}, {big, -big, tiny, -tiny}, {math.NaN(), math.Inf(1), math.Inf(-1), 0}, {1e300, 1e300, 1e300, 1e300},
		{1, math.Nextafter(1, 2), 1e-320, 1e308}, {1e16, 1e16 + 2, 1e16 + 4, 1e16}, {-0.1, 1e-17, 1e17, 0.3},
	} {
		f.Add(x[0], x[1], x[2], x[3], int64(10), int64(1<<53))
	}
	f.Add(1.0, 2.0, 3.0, 4.0, int64(0), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, a, b, c, d float64, n, step int64) {
		n = n & (math.MaxInt64 >> 3) // what opening a folder lets through
		run := &rundir.Run{Dir: "fuzz", Config: []byte("seed: 1\n")}
		for i, x := range []float64{a, b, c, d} {
			run.Metrics = append(run.Metrics, rundir.Metrics{Step: i + 1, Loss: x, GradNorm: -x, Entropy: x / 3, Length: x * x, LengthRight: &x, ClipFraction: &x,
				Reward: rundir.Stat{Mean: x, Std: x}, AnswerReward: x})
			counts := rundir.Counts{N: int(n), CorrectNum: int(n) / (i + 1), AnswerReward: x, FormatReward: x, Length: x, LengthRight: &x}
			counts.ErrorNum = counts.N - counts.CorrectNum
			run.Evals = append(run.Evals, rundir.Eval{Step: i * int(step/4), Split: rundir.SplitVal, Sampled: counts, Greedy: &counts, MajorityBaseline: x})
		}
		limit := untrusted.Limit{Base: 1 << 30, Time: untrusted.Reader.Time}
		limit.Check(t, 0, func() {
			figures, err := plots.Runs([]*rundir.Run{run}, "", nil)
			if err != nil {
				untrusted.CheckError(t, err)
			} else if len(figures) != 2 || !bytes.HasPrefix(figures[0].PNG, []byte("\x89PNG")) {
				t.Fatal("no PNG and no error")
			}
		})
	})
}

// FuzzPage: whatever the strings of a sweep contain, its page has the elements,
// attributes and quotes that it has when the letters of markup are taken out of
// them: nothing in a text is markup.
func FuzzPage(f *testing.F) {
	for _, s := range []string{
		"plain", `</script><script>alert(1)</script>`, `" onmouseover="alert(1)`, "' x='", "<!--", "]]>", "{{.}}", "javascript:alert(1)", "&lt;script&gt;", "\x00", "\xff<b>",
		"\u202e<i>", "</title>", "</style><style>", "`${1}`", "<img src=x onerror=alert(1)>", "\n<p>\n",
	} {
		f.Add(s)
	}
	marks := func(t *testing.T, text string) (counts [3]int) {
		a := mustReport(t, reporttest.DrawnSweep(2, nil, reporttest.ManyArms(2)...))
		m := &a.Sweep.Manifest
		m.Title, m.Base, m.Argv = text, text, []string{"grpo", text}
		m.Fixed = []sweepdir.Override{{Key: text, Value: text}}
		m.Varied = []string{text}
		m.Arms[0].Set = []sweepdir.Override{{Key: text, Value: text}}
		a.Verdict = Verdict{Question: text, Headline: text, Lines: []string{text}, Caveats: []string{text}, Missing: []string{text}}
		a.Arms[0].Arm.Label, a.Arms[0].Status = text, text
		a.Arms[0].Runs[0].Dir = "runs/" + text
		a.Arms[0].Runs[1].Run.Result.Status, a.Arms[0].Runs[1].Run.Result.DivergedReason = rundir.StateDiverged, text
		a.Arms[1].Runs[0].Error = text
		a.Sweep.Runs[0].Run.Meta = &rundir.Meta{Version: text}
		page := pageOf(t, a)
		return [3]int{strings.Count(page, "<"), strings.Count(page, ">"), strings.Count(page, `"`)}
	}
	plain := strings.NewReplacer("<", "x", ">", "x", `"`, "x", "'", "x", "&", "x")
	f.Fuzz(func(t *testing.T, text string) {
		text = "word " + text // an element with nothing in it may be left out
		if got, want := marks(t, text), marks(t, plain.Replace(text)); got != want {
			t.Fatalf("%q: %v of <, > and \", without markup %v", text, got, want)
		}
	})
}
