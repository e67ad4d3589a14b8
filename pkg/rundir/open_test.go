package rundir

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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
	must := func(err error) {
		t.Helper()
		must(t, err)
	}
	before := Eval{Step: 0, Split: SplitVal, Sampled: counts(8, 1, 4)}
	after := Eval{Step: 2, Split: SplitVal, Sampled: counts(8, 7, 1), Greedy: ptr(counts(8, 8, 0))}
	must(WriteFileAtomic(filepath.Join(dir, ConfigFile), []byte("seed: 1\n")))
	must(WriteJSON(filepath.Join(dir, MetaFile), Meta{Version: "v0"}))
	must(WriteJSON(filepath.Join(dir, StatusFile), Status{State: StateDone, Step: 2, Steps: 2}))
	must(WriteJSON(filepath.Join(dir, ResultFile), Result{Status: StateDone, Initial: before, Final: after, BestStep: 2, Best: after, WallS: 3}))
	metrics := mustOpen(t, filepath.Join(dir, MetricsFile))
	must(metrics.Append(Metrics{Step: 1, Loss: math.NaN()}))
	must(metrics.Append(Metrics{Step: 2}))
	evals := mustOpen(t, filepath.Join(dir, EvalFile))
	must(evals.Append(before))
	must(evals.Append(after))
	must(evals.Append(Eval{Step: 2, Split: SplitUnseen, Sampled: counts(4, 2, 1)}))
	samples := mustOpen(t, filepath.Join(dir, SamplesFile))
	must(samples.Append(Sample{Step: 2, Split: SplitVal, Completion: "7+5=<<7+5=12>>12\n#### 12"}))
	return dir
}

func TestOpen(t *testing.T) {
	r, err := Open(fullRun(t))
	must(t, err)
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
		must(t, os.Remove(filepath.Join(dir, name)))
	}
	f, err := os.OpenFile(filepath.Join(dir, MetricsFile), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	f.WriteString(`{"step":3,"lo`)
	f.Close()

	r, err := Open(dir)
	must(t, err)
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
			must(t, err)
			tt.change(run.Result)
			data, err := Marshal(run.Result) // with a checksum that fits
			if !sum {
				data, err = Marshal(plainResult(*run.Result))
			}
			must(t, err)
			write(t, filepath.Join(dir, ResultFile), string(data))
			_, err = Open(dir)
			if err == nil {
				t.Errorf("%s (checksum: %v): displayed", tt.name, sum)
				continue
			}
			for _, want := range append(tt.want, ResultFile) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s (checksum: %v): error %q, want one with %q", tt.name, sum, err, want)
				}
			}
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	tests := []struct {
		name   string
		damage func(t *testing.T, dir string) (open string)
		want   []string
	}{
		{"a folder that is not there", func(t *testing.T, dir string) string { return filepath.Join(dir, "none") },
			[]string{"no such file"}},
		{"an empty folder", func(t *testing.T, dir string) string { return t.TempDir() }, []string{"not a run folder", ConfigFile}},
		{"a file", func(t *testing.T, dir string) string { return filepath.Join(dir, ConfigFile) }, []string{"it is a file, not a run folder"}},
		{"a broken line in the middle", func(t *testing.T, dir string) string {
			p := filepath.Join(dir, MetricsFile)
			write(t, p, "{]\n"+read(t, p))
			return dir
		}, []string{MetricsFile, "line 1"}},
		{"a doubled step", func(t *testing.T, dir string) string {
			p := filepath.Join(dir, MetricsFile)
			write(t, p, read(t, p)+read(t, p))
			return dir
		}, []string{MetricsFile, "line 3", "step 1 where step 3 was due"}},
		{"a doubled evaluation", func(t *testing.T, dir string) string {
			p := filepath.Join(dir, EvalFile)
			content := read(t, p)
			last := content[strings.LastIndex(strings.TrimSuffix(content, "\n"), "\n")+1:]
			write(t, p, content+last)
			return dir
		}, []string{EvalFile, "line 4", `"unseen"`}},
		{"evaluations out of order", func(t *testing.T, dir string) string {
			p := filepath.Join(dir, EvalFile)
			write(t, p, read(t, p)+strings.SplitAfter(read(t, p), "\n")[0])
			return dir
		}, []string{EvalFile, "line 4", "step 0 after step 2"}},
		{"counts that don't add up", func(t *testing.T, dir string) string {
			p := filepath.Join(dir, EvalFile)
			write(t, p, strings.Replace(read(t, p), `"error_num":1`, `"error_num":2`, 1))
			return dir
		}, []string{EvalFile, "line 2", "sampled", "add up"}},
		{"categories that don't add up, in the result", func(t *testing.T, dir string) string {
			write(t, filepath.Join(dir, ResultFile), `{"status": "done", "initial": {"sampled": {"unformatted": 4}}}`)
			return dir
		}, []string{ResultFile, "initial", "unformatted 4"}},
		{"a number of the result that was changed", func(t *testing.T, dir string) string {
			p := filepath.Join(dir, ResultFile)
			write(t, p, strings.Replace(read(t, p), `"wall_s": 3`, `"wall_s": 4`, 1))
			return dir
		}, []string{ResultFile, "checksum"}},
		{"a result without an outcome", func(t *testing.T, dir string) string {
			write(t, filepath.Join(dir, ResultFile), "{}")
			return dir
		}, []string{ResultFile, "status"}},
		{"a truncated result", func(t *testing.T, dir string) string {
			p := filepath.Join(dir, ResultFile)
			write(t, p, read(t, p)[:40])
			return dir
		}, []string{ResultFile, "unexpected end"}},
		{"a status with a key of another version", func(t *testing.T, dir string) string {
			write(t, filepath.Join(dir, StatusFile), `{"state":"done","phase":"x"}`)
			return dir
		}, []string{StatusFile, `unknown field "phase"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := fullRun(t)
			_, err := Open(tt.damage(t, dir))
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q, want one with %q", err, want)
				}
			}
		})
	}
}
