package slurm

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"grpo/pkg/config"
)

// answer returns an Exec with this output or error.
func answer(out string, err error) Exec {
	return func(context.Context, string, string, ...string) (string, error) { return out, err }
}

func TestQueue(t *testing.T) {
	const text = "12_3|3|PENDING|Resources||abc\n12_4|4|RUNNING|None|node7|abc\n13|N/A|PENDING|Dependency||(null)\n" +
		"12_5|5|NODE_FAIL|None|node9|abc\nstrange\n"
	got, err := Queue(t.Context(), answer(text, nil), []string{"12", "13"})
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
	if got, err := Queue(t.Context(), answer("", unknown), []string{"9"}); len(got) > 0 || err != nil {
		t.Errorf("an unknown id: %v, %v", got, err)
	}
	if _, err := Queue(t.Context(), answer("", &Error{Program: "squeue", Text: "timeout"}), []string{"9"}); err == nil {
		t.Error("no error")
	}
	if _, err := Queue(t.Context(), nil, nil); err != nil { // asks nothing
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
}
