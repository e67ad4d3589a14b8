package sweep

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"grpo/pkg/rundir"
	"grpo/pkg/sweep/slurm"
	"grpo/pkg/train"
)

// queueOf returns an Exec whose squeue gives these answers in turn, the last one for ever. An
// answer "!" is a failure.
func queueOf(answers ...string) slurm.Exec {
	return func(_ context.Context, _, name string, _ ...string) (string, error) {
		a := answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		if a == "!" {
			return "", &slurm.Error{Program: name, Text: "Socket timed out"}
		}
		return a, nil
	}
}

// submitted writes a sweep of two runs that were submitted as job 12.
func submitted(t *testing.T) string {
	dir := writeSweep(t, fakeManifest(2, 1))
	if err := (Submission{Job: "12", Comment: "c", Indices: []int{0, 1}, Report: "13"}).write(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func waitFast(dir string, j *journal, run slurm.Exec) WaitOptions {
	return WaitOptions{
		Exec: run, Observer: j, Now: time.Now, Poll: 5 * time.Millisecond, Pause: 10 * time.Millisecond,
		Grace: 60 * time.Millisecond,
	}
}

// A run without a job and without a result is given up after a while, with the end of its log; one
// that failed says why. A failure of squeue is no end.
func TestWaitGivesUpRunsWithoutJobs(t *testing.T) {
	dir, j := submitted(t), &journal{}
	if err := os.WriteFile(filepath.Join(dir, SlurmDir, "12_0.log"), []byte("a\nbash: /no/grpo: not found\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	s, err := Wait(t.Context(), dir, waitFast(dir, j, queueOf("!", "!",
		"12_0|0|RUNNING|None|n1|c\n12_1|1|PENDING|Resources||c\n", "!", "12_1|1|TIMEOUT|TimeLimit|n1|c\n")))
	var failed *FailedError
	if s == nil || !errors.As(err, &failed) || len(failed.Failures) != 2 {
		t.Fatalf("%v, %v", s, err)
	}
	text := err.Error()
	for _, want := range []string{"a, seed 1: job 12_0 ended: bash: /no/grpo: not found", "b, seed 1: job 12_1 ended (TIMEOUT)"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s does not have %q", text, want)
		}
	}
	if n := slices.IndexFunc(j.notes, func(n string) bool { return strings.Contains(n, "does not answer and is asked again") }); n < 0 {
		t.Errorf("notes %q", j.notes)
	}
	isLogged := func(e Event) bool {
		return e.Kind == GaveUp && e.Entry.Index == 0 && strings.Contains(e.LogTail, "not found")
	}
	if !slices.ContainsFunc(j.events, isLogged) {
		t.Errorf("no event has the log: %+v", j.events)
	}
}

// As long as a job of the study may submit runs, nothing is given up; and a run that is requeued
// waits again.
func TestWaitForRunsOfALaterStage(t *testing.T) {
	dir, j := submitted(t), &journal{}
	study := t.TempDir()
	if err := (Submission{Job: "20", Comment: "c", Continues: true}).write(study); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	opts := waitFast(dir, j, queueOf("20|N/A|PENDING|Dependency||c\n"))
	opts.Study = study
	if s, err := Wait(ctx, dir, opts); s != nil || !errors.Is(err, train.ErrInterrupted) {
		t.Errorf("%v, %v", s, err)
	}
	if n := j.count(GaveUp); n > 0 {
		t.Errorf("%d runs were given up", n)
	}
	opts.Exec, opts.Observer = queueOf("12_0|0|RUNNING|None|n1|c\n12_1|1|RUNNING|None|n1|c\n",
		"12_0|0|PENDING|BeginTime||c\n12_1|1|RUNNING|None|n1|c\n"), &journal{}
	ctx, stop = context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	_, err := Wait(ctx, dir, opts)
	j = opts.Observer.(*journal)
	if !errors.Is(err, train.ErrInterrupted) || j.count(Started) != 2 || j.count(Queued) != 1 {
		t.Errorf("%v; %d started, %d queued", err, j.count(Started), j.count(Queued))
	}
}

// Two jobs of a run: the one in the queue counts, whichever is later, and jobs with another comment
// are none of this sweep's.
func TestQueueOfARun(t *testing.T) {
	dir := submitted(t)
	if err := (Submission{Job: "112", Comment: "d", Indices: []int{1001}, Offset: 1000}).write(dir); err != nil {
		t.Fatal(err)
	}
	if err := (Submission{Job: "30", Comment: "c", Indices: []int{0, 2}}).write(dir); err != nil {
		t.Fatal(err)
	}
	q, err := ReadQueue(t.Context(), dir, queueOf("12_0|0|RUNNING|None|n1|c\n30_0|0|NODE_FAIL|None|n2|c\n"+
		"30_2|2|PENDING|launch failed requeued held||c\n12_1|1|RUNNING|None|n1|other\n112_1|1|PENDING|None||d\n"+
		"13|N/A|PENDING|Dependency||c\n12_7|7|RUNNING|None|n1|c\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := q.Task(0); got == nil || got.ID != "12_0" {
		t.Errorf("run 0: %+v", got)
	}
	if got := q.Task(1); got != nil {
		t.Errorf("run 1: %+v", got)
	}
	if busy := q.Busy(); len(busy) != 2 || !busy[0] || !busy[1001] {
		t.Errorf("busy %v", busy)
	}
	if got := q.last(0); got == nil || got.Job != "30" {
		t.Errorf("last %+v", got)
	}
	if ids, _ := q.alive(); !slices.Equal(ids, []string{"12", "30", "112", "13"}) {
		t.Errorf("alive %v", ids)
	}
	if got := q.failedNodes(); !slices.Equal(got, []string{"n2"}) {
		t.Errorf("failed nodes %v", got)
	}
}

// Every run is in one array, as a task below the limit.
func TestChunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		indices := rapid.SliceOfNDistinct(rapid.IntRange(0, 100), 1, 60, rapid.ID[int]).Draw(t, "indices")
		limit := rapid.IntRange(2, 40).Draw(t, "limit")
		var all []int
		for _, c := range chunks(indices, limit) {
			for _, i := range c.indices {
				if task := i - c.offset; task < 0 || task >= limit {
					t.Fatalf("run %d is task %d of %d", i, task, limit)
				}
			}
			all = append(all, c.indices...)
		}
		if slices.Sort(indices); !slices.Equal(all, indices) {
			t.Fatalf("%v became %v", indices, all)
		}
	})
}

func TestSlurmJobOf(t *testing.T) {
	if j := SlurmJobOf([]string{"SLURM_JOB_ID=", "HOME=/"}); j != nil {
		t.Errorf("a job outside of Slurm: %+v", j)
	}
	j := SlurmJobOf([]string{"SLURM_JOB_ID=14", "SLURM_ARRAY_JOB_ID=12", "SLURM_ARRAY_TASK_ID=3", "SLURMD_NODENAME=n", "SLURM_JOB_END_TIME=60"})
	if j == nil || j.ID != "12_3" || j.Node != "n" || !j.Limit.Equal(time.Unix(60, 0)) {
		t.Errorf("got %+v", j)
	}
}

// A list of a thousand finished runs: see docs/cluster.md.
func BenchmarkStatus(b *testing.B) {
	dir := b.TempDir()
	m := fakeManifest(20, 50)
	for _, e := range m.Runs {
		path := e.Path(dir)
		result := `{"status":"done","steps":200,"final":{"sampled":{"answer_reward":0.5}},"files":{` +
			strings.Repeat(`"x":"0123456789",`, 200) + `"y":""}}`
		err := errors.Join(os.MkdirAll(path, 0o777), os.WriteFile(filepath.Join(path, rundir.ResultFile), []byte(result), 0o666))
		if err != nil {
			b.Fatal(err)
		}
	}
	data, err := rundir.Marshal(m)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "manifest.json"), data, 0o666)
	}
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s, err := ReadStatus(b.Context(), dir, time.Now(), nil)
		if err != nil || !s.Finished {
			b.Fatalf("%v, %v", s, err)
		}
	}
}
