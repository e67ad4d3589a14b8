package rundir

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grpo/internal/expect"
)

func counts(n, right, wrong int) Counts {
	return Counts{
		N: n, CorrectNum: right, ErrorNum: n - right,
		FormattedRight: right, FormattedWrong: wrong, Unformatted: n - right - wrong,
		AnswerReward: float64(right) / float64(n), FormatReward: float64(right+wrong) / float64(n),
	}
}

// fullRun writes a small run that is done.
func fullRun(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	before := Eval{Step: 0, Split: SplitVal, Sampled: counts(8, 1, 4)}
	after := Eval{Step: 2, Split: SplitVal, Sampled: counts(8, 7, 1), Greedy: ptr(counts(8, 8, 0))}
	expect.OK(t, WriteFileAtomic(filepath.Join(dir, ConfigFile), []byte("seed: 1\n")))
	expect.OK(t, WriteJSON(filepath.Join(dir, MetaFile), Meta{Version: "v0"}))
	expect.OK(t, WriteJSON(filepath.Join(dir, StatusFile), Status{State: StateDone, Step: 2, Steps: 2}))
	expect.OK(t, WriteJSON(filepath.Join(dir, ResultFile), Result{Status: StateDone, Initial: before, Final: after, BestStep: 2, Best: after, WallS: 3}))
	metrics := mustOpen(t, filepath.Join(dir, MetricsFile))
	expect.OK(t, metrics.Append(Metrics{Step: 1, Loss: math.NaN()}))
	expect.OK(t, metrics.Append(Metrics{Step: 2}))
	evals := mustOpen(t, filepath.Join(dir, EvalFile))
	expect.OK(t, evals.Append(before))
	expect.OK(t, evals.Append(after))
	expect.OK(t, evals.Append(Eval{Step: 2, Split: SplitUnseen, Sampled: counts(4, 2, 1)}))
	samples := mustOpen(t, filepath.Join(dir, SamplesFile))
	expect.OK(t, samples.Append(Sample{Step: 2, Split: SplitVal, Completion: "7+5=<<7+5=12>>12\n#### 12"}))
	return dir
}

func TestOpen(t *testing.T) {
	r, err := Open(fullRun(t))
	expect.OK(t, err)
	if !r.Finished() || len(r.Missing) != 0 || len(r.Partial) != 0 {
		t.Errorf("finished %v, missing %q, partial %v", r.Finished(), r.Missing, r.Partial)
	}
	if string(r.Config) != "seed: 1\n" || r.Meta.Version != "v0" || r.Status.Step != 2 {
		t.Errorf("config %q, meta %+v, status %+v", r.Config, r.Meta, r.Status)
	}
	if len(r.Metrics) != 2 || !math.IsNaN(r.Metrics[0].Loss) || len(r.Evals) != 3 || len(r.Samples) != 1 {
		t.Errorf("metrics %+v, %d evaluations, %d samples", r.Metrics, len(r.Evals), len(r.Samples))
	}
	if r.Result.Final.Greedy.CorrectNum != 8 || r.Result.Initial.Greedy != nil {
		t.Errorf("result %+v", r.Result)
	}
}

func TestOpenOfAHalfFinishedRun(t *testing.T) {
	dir := fullRun(t)
	for _, name := range []string{ResultFile, SamplesFile} {
		expect.OK(t, os.Remove(filepath.Join(dir, name)))
	}
	f, err := os.OpenFile(filepath.Join(dir, MetricsFile), os.O_APPEND|os.O_WRONLY, 0)
	expect.OK(t, err)
	f.WriteString(`{"step":3,"lo`)
	f.Close()

	r, err := Open(dir)
	expect.OK(t, err)
	if r.Finished() || r.Result != nil || r.Samples != nil {
		t.Errorf("result %v, samples %v", r.Result, r.Samples)
	}
	if want := []string{SamplesFile, ResultFile}; !slices.Equal(r.Missing, want) {
		t.Errorf("missing %q, want %q", r.Missing, want)
	}
	if len(r.Metrics) != 2 || len(r.Partial) != 1 || r.Partial[0].Line != 3 {
		t.Errorf("%d metrics, partial %v", len(r.Metrics), r.Partial)
	}
}

// A result that was edited by hand, with a correct checksum or none, must still agree with its own
// counts and with eval.jsonl.
func TestOpenRefusesAResultThatContradictsItself(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short")
	}
	for _, tt := range []struct {
		name   string
		change func(r *Result)
		want   []string
	}{
		{"a different answer reward", func(r *Result) { r.Final.Sampled.AnswerReward = 0.99 }, []string{"final: sampled", "answer_reward 0.99 contradicts correct_num 7 of n 8"}},
		{"another count, which adds up", func(r *Result) { r.Final.Sampled = counts(8, 8, 0) }, []string{"final", "contradicts eval.jsonl: line 2", "sampled.answer_reward: 1 and 0.875"}},
		{"a different format reward", func(r *Result) { r.Initial.Sampled.FormatReward = 1 }, []string{"initial: sampled", "format_reward 1 contradicts"}},
		{"more truncated than there are", func(r *Result) { r.Final.Sampled.Truncated = 9 }, []string{"truncated 9"}},
		{"a different length", func(r *Result) {
			c := &r.Final.Sampled
			c.LengthRight, c.LengthWrong, c.Length = ptr(10.0), ptr(20.0), 5
		}, []string{"completion_length 5 contradicts", "11.25"}},
		{"a length of no completion", func(r *Result) { r.Final.Greedy.LengthWrong = ptr(3.0) }, []string{"final: greedy", "no such completion"}},
		{"a best below the last", func(r *Result) { r.BestStep, r.Best = 0, r.Initial }, []string{"best has the answer_reward 0.125, below that of final, 0.875"}},
		{"another best step", func(r *Result) { r.BestStep = 1 }, []string{"best_step 1 contradicts"}},
		{"a different split", func(r *Result) { r.Unseen = &Eval{Step: 2, Split: SplitUnseen, Sampled: counts(4, 4, 0)} }, []string{"unseen", "line 3"}},
		{"done and diverged", func(r *Result) { r.DivergedAt = ptr(1) }, []string{"diverged_at 1"}},
	} {
		for _, sum := range []bool{true, false} {
			dir := fullRun(t)
			run, err := Open(dir)
			expect.OK(t, err)
			tt.change(run.Result)
			data, err := Marshal(run.Result) // with a checksum that fits
			if !sum {
				data, err = Marshal(plainResult(*run.Result))
			}
			expect.OK(t, err)
			write(t, filepath.Join(dir, ResultFile), string(data))
			_, err = Open(dir)
			expect.Error(t, err, append(tt.want, ResultFile)...)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	replace := func(old, new string) func(string) string {
		return func(s string) string { return strings.Replace(s, old, new, 1) }
	}
	whole := func(text string) func(string) string { return func(string) string { return text } }
	for _, tt := range []struct {
		name, file string
		change     func(text string) string
		want       []string
	}{
		{"a broken line in the middle", MetricsFile, func(s string) string { return "{]\n" + s }, []string{"line 1"}},
		{"a doubled step", MetricsFile, func(s string) string { return s + s }, []string{"line 3", "step 1 where step 3 was due"}},
		{"a doubled evaluation", EvalFile, func(s string) string {
			return s + s[strings.LastIndex(strings.TrimSuffix(s, "\n"), "\n")+1:]
		}, []string{"line 4", `"unseen"`}},
		{"evaluations out of order", EvalFile, func(s string) string { return s + strings.SplitAfter(s, "\n")[0] },
			[]string{"line 4", "step 0 after step 2"}},
		{"counts that don't add up", EvalFile, replace(`"error_num":1`, `"error_num":2`), []string{"line 2", "sampled", "add up"}},
		{"categories that don't add up, in the result", ResultFile,
			whole(`{"status": "done", "initial": {"sampled": {"unformatted": 4}}}`), []string{"initial", "unformatted 4"}},
		{"a number of the result that was changed", ResultFile, replace(`"wall_s": 3`, `"wall_s": 4`), []string{"checksum"}},
		{"a result without an outcome", ResultFile, whole("{}"), []string{"status"}},
		{"a truncated result", ResultFile, func(s string) string { return s[:40] }, []string{"unexpected end"}},
		{"a status with a key of another version", StatusFile, whole(`{"state":"done","phase":"x"}`), []string{`unknown field "phase"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := fullRun(t)
			path := filepath.Join(dir, tt.file)
			write(t, path, tt.change(read(t, path)))
			_, err := Open(dir)
			expect.Error(t, err, append(tt.want, tt.file)...)
		})
	}
	dir := fullRun(t)
	for path, want := range map[string]string{filepath.Join(dir, "none"): "no such file", t.TempDir(): "not a run folder",
		filepath.Join(dir, ConfigFile): "it is a file, not a run folder",
		filepath.Dir(dir):              "; its folder " + filepath.Base(dir) + " is one)"} {
		_, err := Open(path)
		expect.Error(t, err, want)
	}
}
