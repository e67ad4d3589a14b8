package slurm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
	"grpo/pkg/train"
)

// answer returns an Exec with this output or error.
func answer(out string, err error) Exec {
	return func(context.Context, string, string, ...string) (string, error) { return out, err }
}

func TestTasks(t *testing.T) {
	const text = "12_3|3|PENDING|Resources||abc\n12_4|4|RUNNING|None|node7|abc\n13|N/A|PENDING|Dependency||(null)\n" +
		"12_5|5|NODE_FAIL|None|node9|abc\nstrange\n"
	got, err := Tasks(t.Context(), answer(text, nil), []string{"12", "13"})
	want := []Task{
		{"12", "12_3", 3, "PENDING", "Resources", "", "abc"}, {"12", "12_4", 4, "RUNNING", "", "node7", "abc"},
		{"13", "13", -1, "PENDING", "Dependency", "", ""}, {"12", "12_5", 5, "NODE_FAIL", "", "node9", "abc"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if got[0].Ended() || !got[0].Waiting() || got[1].Waiting() || !got[3].Ended() {
		t.Error("a state is misunderstood")
	}
	unknown := &Error{Program: "squeue", Text: "slurm_load_jobs error: Invalid job id specified"}
	if got, err := Tasks(t.Context(), answer("", unknown), []string{"9"}); len(got) > 0 || err != nil {
		t.Errorf("an unknown id: %v, %v", got, err)
	}
	if _, err := Tasks(t.Context(), answer("", &Error{Program: "squeue", Text: "timeout"}), []string{"9"}); err == nil {
		t.Error("no error")
	}
	if _, err := Tasks(t.Context(), nil, nil); err != nil { // asks nothing
		t.Error(err)
	}
}

// As Slurm 22.05 printed it after a launch failure, and for jobs that the user and an operator hold.
func TestHeld(t *testing.T) {
	for _, tt := range []struct {
		state, reason string
		held, failed  bool
	}{
		{"PENDING", "launch failed requeued held", true, true},
		{"PENDING", "launch_failed_requeued_held", true, true},
		{"PENDING", "JobHeldAdmin", true, false},
		{"PENDING", "JobHeldUser", true, false},
		{"REQUEUE_HOLD", "None", true, false},
		{"PENDING", "BeginTime", false, false},
		{"RUNNING", "JobHeldAdmin", false, false}, // released a moment ago
	} {
		task := Task{State: tt.state, Reason: tt.reason}
		if task.Held() != tt.held || task.LaunchFailed() != tt.failed {
			t.Errorf("%s, %s: held %v, launch failed %v", tt.state, tt.reason, task.Held(), task.LaunchFailed())
		}
	}
}

// As Slurm 22.05 printed it while a job was cancelled, and at a time limit.
func TestShow(t *testing.T) {
	const text = `JobId=14 JobName=trap.sh
   JobState=COMPLETING Reason=%s Dependency=(null)
   Requeue=1 Restarts=2 BatchFlag=1 Reboot=0 ExitCode=0:0
   RunTime=00:01:18 TimeLimit=00:01:00 TimeMin=N/A
   StartTime=2026-11-22T23:35:16 EndTime=2026-11-22T23:36:34 Deadline=N/A
   PreemptEligibleTime=2026-11-22T23:35:16 PreemptTime=None
   Comment=x JobState=RUNNING
`
	for reason, cancelled := range map[string]bool{"None": true, "TimeLimit": false} {
		info, err := Show(t.Context(), answer(strings.ReplaceAll(text, "%s", reason), nil), "14", time.UTC)
		if err != nil || info.Cancelled() != cancelled || info.TimedOut() == cancelled || info.Preempted || info.Restarts != 2 {
			t.Errorf("%s: %+v, %v", reason, info, err)
		}
		if want := time.Date(2026, 11, 22, 23, 36, 34, 0, time.UTC); !info.Limit.Equal(want) {
			t.Errorf("its time ends %s", info.Limit)
		}
	}
}

func TestSubmit(t *testing.T) {
	for out, want := range map[string]string{"12\n": "12", "12;cluster\n": "12", "": "", "-u": "", "Submitted 12": ""} {
		if got, err := Submit(t.Context(), answer(out, nil), Script{}); got != want || (err == nil) != (want != "") {
			if want != "" || err == nil {
				t.Errorf("%q: %q, %v", out, got, err)
			}
		}
	}
	var failed *Error
	if _, err := Submit(t.Context(), answer("", &Error{Program: "sbatch", Missing: true}), Script{}); !errors.As(err, &failed) || !IsMissing(err) {
		t.Errorf("got %v", err)
	}
}

func TestRequeue(t *testing.T) {
	pending := &Error{Program: "scontrol", Text: "Job is pending execution for job 12_3"}
	if err := Requeue(t.Context(), answer("", pending), "12_3"); err != nil {
		t.Errorf("Slurm did it itself: %v", err)
	}
	if err := Requeue(t.Context(), answer("", &Error{Text: "Access denied"}), "12_3"); err == nil {
		t.Error("no error")
	}
}

func TestMaxArraySize(t *testing.T) {
	for text, want := range map[string]int{"MaxArraySize            = 201\n": 201, "": 1001, "MaxArraySize = 0\n": 1001} {
		if got := MaxArraySize(t.Context(), answer(text, nil)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// The tasks of an array read back as they were.
func TestIndices(t *testing.T) {
	if got := Indices([]int{9, 0, 3, 5, 6, 7}, 4); got != "0,3,5-7,9%4" {
		t.Errorf("got %s", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		tasks := rapid.SliceOfNDistinct(rapid.IntRange(0, 60), 1, 40, rapid.ID[int]).Draw(t, "tasks")
		var back []int
		for part := range strings.SplitSeq(Indices(tasks, 0), ",") {
			from, to, isRange := strings.Cut(part, "-")
			if !isRange {
				to = from
			}
			a, _ := strconv.Atoi(from)
			b, _ := strconv.Atoi(to)
			for ; a <= b; a++ {
				back = append(back, a)
			}
		}
		if slices.Sort(tasks); !slices.Equal(back, tasks) {
			t.Fatalf("%v reads back as %v", tasks, back)
		}
	})
}

func TestScript(t *testing.T) {
	s := Script{
		Name: "grpo-1", Comment: "1", Log: "/a b/%A_%a.log", Dir: "/w", Array: "0-3", After: []string{"7", "8"}, Signal: true,
		Settings: config.Launcher{Partition: "p", QOS: "q", Setup: []string{"module load x"}, Directives: []string{"-C avx512"}},
		CPUs:     2, Memory: 1<<30 + 1, Time: 61 * time.Second,
		Command: []string{"/it's/grpo", "task", "--sweep", "/a b"}, Rest: ` --index "$SLURM_ARRAY_TASK_ID"`,
	}
	want := `sbatch --parsable --requeue --open-mode=append --job-name=grpo-1 --comment=1 '--output=/a b/%A_%a.log' ` +
		`--chdir=/w --signal=B:USR2@120 --array=0-3 --dependency=afterany:7:8 <<'END'
#!/bin/bash
#SBATCH --partition=p
#SBATCH --qos=q
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=2
#SBATCH --mem=1025M
#SBATCH --time=2
#SBATCH -C avx512
module load x
exec '/it'\''s/grpo' task --sweep '/a b' --index "$SLURM_ARRAY_TASK_ID"
END
`
	if got := s.CommandLine(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	// Options of the command line would win over the user's lines.
	s.Settings.Directives = []string{"--signal=B:USR2@600", "--no-requeue"}
	if got := s.CommandLine(); strings.Contains(got, "@120") || strings.Contains(got, "--requeue") || !strings.Contains(got, "\n#SBATCH --signal=B:USR2@600\n") {
		t.Errorf("own directives: %s", got)
	}
	if got := s.Report("/log", "/grpo", "report").Args(); slices.Contains(got, "--requeue") || strings.Contains(strings.Join(got, " "), "signal") {
		t.Errorf("report: %s", got)
	}
}

// Two jobs of a run: the one in the queue counts, whichever is later, and jobs with another comment
// are none of this sweep's.
func TestQueueOfARun(t *testing.T) {
	dir := t.TempDir()
	expect.OK(t, (Submission{Job: "12", Comment: "c", Indices: []int{0, 1}, Report: "13"}).Write(dir))
	expect.OK(t, (Submission{Job: "112", Comment: "d", Indices: []int{1001}, Offset: 1000}).Write(dir))
	expect.OK(t, (Submission{Job: "30", Comment: "c", Indices: []int{0, 2}}).Write(dir))
	q, err := ReadQueue(t.Context(), dir, answer("12_0|0|RUNNING|None|n1|c\n30_0|0|NODE_FAIL|None|n2|c\n"+
		"30_2|2|PENDING|launch failed requeued held||c\n12_1|1|RUNNING|None|n1|other\n112_1|1|PENDING|None||d\n"+
		"13|N/A|PENDING|Dependency||c\n12_7|7|RUNNING|None|n1|c\n", nil))
	expect.OK(t, err)
	if got := q.Task(0); got == nil || got.ID != "12_0" {
		t.Errorf("run 0: %+v", got)
	}
	if got := q.Task(1); got != nil {
		t.Errorf("run 1: %+v", got)
	}
	if busy := q.Busy(); len(busy) != 2 || !busy[0] || !busy[1001] {
		t.Errorf("busy %v", busy)
	}
	if got := q.Last(0); got == nil || got.Job != "30" {
		t.Errorf("last %+v", got)
	}
	if ids, _ := q.Alive(); !slices.Equal(ids, []string{"12", "30", "112", "13"}) {
		t.Errorf("alive %v", ids)
	}
	if got := q.FailedNodes(); !slices.Equal(got, []string{"n2"}) {
		t.Errorf("failed nodes %v", got)
	}
}

// Every run is in one array, as a task below the limit.
func TestArrays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		indices := rapid.SliceOfNDistinct(rapid.IntRange(0, 100), 1, 60, rapid.ID[int]).Draw(t, "indices")
		limit := rapid.IntRange(2, 40).Draw(t, "limit")
		var all []int
		for _, a := range (Script{}).Arrays(indices, limit, 0) {
			for _, i := range a.Indices {
				if task := i - a.Offset; task < 0 || task >= limit {
					t.Fatalf("run %d is task %d of %d", i, task, limit)
				}
			}
			all = append(all, a.Indices...)
		}
		if slices.Sort(indices); !slices.Equal(all, indices) {
			t.Fatalf("%v became %v", indices, all)
		}
	})
}

func TestJobOf(t *testing.T) {
	if j := JobOf([]string{"SLURM_JOB_ID=", "HOME=/"}); j != nil {
		t.Errorf("a job outside of Slurm: %+v", j)
	}
	j := JobOf([]string{"SLURM_JOB_ID=14", "SLURM_ARRAY_JOB_ID=12", "SLURM_ARRAY_TASK_ID=3", "SLURMD_NODENAME=n", "SLURM_JOB_END_TIME=60"})
	if j == nil || j.ID != "12_3" || j.Node != "n" || !j.Limit.Equal(time.Unix(60, 0)) {
		t.Errorf("got %+v", j)
	}
}

// What [sweep.Wait] learns from Slurm.
func TestFollower(t *testing.T) {
	dir, study := t.TempDir(), t.TempDir()
	err := errors.Join(
		Submission{Job: "12", Comment: "c", Indices: []int{0, 1, 2}}.Write(dir),
		Submission{Job: "20", Comment: "c", Continues: true}.Write(study),
		os.WriteFile(filepath.Join(dir, Dir, "12_2.log"), []byte("a\nbash: /no/grpo: not found\n"), 0o666),
	)
	expect.OK(t, err)
	const jobs = "12_0|0|RUNNING|None|n1|c\n12_1|1|PENDING|JobHeldUser||c\n12_2|2|TIMEOUT|TimeLimit|n1|c\n"
	f := NewFollower(answer(jobs+"20|N/A|PENDING|Dependency||c\n", nil), dir, study)
	expect.OK(t, f.Ask(t.Context()))
	if r, h, e := f.Job(0), f.Job(1), f.Job(2); !r.Exists || r.Waits || !h.Exists || !h.Waits || h.Held == "" || e.Exists {
		t.Errorf("running %+v, held %+v, ended %+v", r, h, e)
	}
	if text, log := f.Ended(2); text != "job 12_2 ended (TIMEOUT): bash: /no/grpo: not found" || log != filepath.Join(dir, Dir, "12_2.log") {
		t.Errorf("%s, %s", text, log)
	}
	if !f.MaySubmit() {
		t.Error("the study's job is not seen")
	}
	f.run = answer("", &Error{Program: "squeue", Text: "Socket timed out"})
	if err := f.Ask(t.Context()); err == nil || !f.Job(0).Exists {
		t.Errorf("without an answer: %v", err)
	}
}

// Completions of an evaluation are progress, as a step is.
func TestSavedBy(t *testing.T) {
	dir := t.TempDir()
	m := sweepdir.Manifest{
		Format: sweepdir.FormatVersion, Command: "sweep", Name: "x", Arms: []sweepdir.Arm{{Name: "a"}}, Seeds: []uint64{1},
		Runs: []sweepdir.Entry{{Seed: 1, Hash: "00000000", Dir: "runs/a", Config: "seed: 1\n"}},
	}
	m.Hash = m.Identity()
	expect.OK(t, sweepdir.WriteManifest(dir, m))
	path := m.Runs[0].Path(dir)
	expect.OK(t, os.MkdirAll(filepath.Join(path, rundir.CheckpointDir), 0o755))
	if got := savedBy(dir, 0); got != (saved{}) {
		t.Errorf("nothing: %+v", got)
	}
	expect.OK(t, rundir.WriteJSON(filepath.Join(path, rundir.CheckpointDir, rundir.ChecksumsFile), rundir.Checksums{Step: 3}))
	expect.OK(t, os.WriteFile(filepath.Join(path, train.UnfinishedFile), []byte("{}\n"), 0o644))
	if got := savedBy(dir, 0); got != (saved{3, 3}) {
		t.Errorf("a step and a line: %+v", got)
	}
}
