package process

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"grpo/internal/expect"
)

func TestHere(t *testing.T) {
	p := Here()
	if p.Host == "" || !p.Same(p) || p.Ended(p) || p != Here() {
		t.Errorf("here: %+v", p)
	}
	if runtime.GOOS == "linux" && (p.Boot == "" || p.Namespace == "") {
		t.Errorf("here: %+v", p)
	}
}

func TestPlaces(t *testing.T) {
	p := Place{"a", "machine", "boot", "namespace"}
	for _, tt := range []struct {
		name        string
		q           Place
		same, ended bool
	}{
		{"another name", Place{"b", "machine", "boot", "namespace"}, true, false},
		{"another boot", Place{"a", "machine", "later", "namespace"}, false, true},
		{"another boot of a copy of the machine", Place{"b", "machine", "later", "namespace"}, false, false},
		{"another machine", Place{"a", "other", "later", "namespace"}, false, false},
		{"another container", Place{"a", "machine", "boot", "other"}, false, false},
		{"nothing known", Place{Host: "a"}, false, false},
	} {
		if p.Same(tt.q) != tt.same || p.Ended(tt.q) != tt.ended {
			t.Errorf("%s: same %v, ended %v", tt.name, p.Same(tt.q), p.Ended(tt.q))
		}
	}
	if a, b := (Place{Host: "a"}), (Place{Host: "b"}); !a.Same(a) || a.Same(b) || a.Ended(b) {
		t.Error("without ids the name decides")
	}
}

func TestExists(t *testing.T) {
	is := func(name string, pid int, born string, want bool) {
		t.Helper()
		if exists, known := Exists(pid, born); exists != want || !known {
			t.Errorf("%s: exists %v, known %v", name, exists, known)
		}
	}
	own := Born(os.Getpid())
	if own == "" {
		t.Skip("this system tells no start times")
	}
	is("this process", os.Getpid(), own, true)
	is("one that had this id", os.Getpid(), "7", false)
	is("none", 0, own, false)
	if _, known := Exists(os.Getpid(), ""); known {
		t.Error("known without a start time")
	}
	child := exec.Command(os.Args[0], "-test.run=^$", "-test.v")
	hold, err := child.StdinPipe()
	expect.OK(t, err)
	defer hold.Close()
	expect.OK(t, child.Start())
	born := Born(child.Process.Pid)
	expect.OK(t, child.Process.Kill())
	// It is a zombie until it is waited for.
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		if exists, _ := Exists(child.Process.Pid, born); !exists {
			break
		}
		if time.Since(start) > 10*time.Second {
			t.Fatal("a zombie exists")
		}
	}
	child.Wait()
	is("a killed process", child.Process.Pid, born, false)
}

func TestJob(t *testing.T) {
	for _, tt := range []struct {
		name    string
		env     map[string]string
		job     string
		restart int
	}{
		{"none", nil, "", 0},
		{"array", map[string]string{"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3"}, "slurm 7_3", 0},
		{"requeued", map[string]string{"SLURM_JOB_ID": "9", "SLURM_RESTART_COUNT": "2"}, "slurm 9", 2},
		{"index", map[string]string{"GRPO_JOB": "lr", "JOB_COMPLETION_INDEX": "4"}, "kubernetes lr-4", 0},
		{"another program's index", map[string]string{"JOB_COMPLETION_INDEX": "4"}, "", 0},
	} {
		job, restart := Job(func(key string) string { return tt.env[key] })
		if job != tt.job || restart != tt.restart {
			t.Errorf("%s: %q, %d", tt.name, job, restart)
		}
	}
	if !Replaces("slurm 9", 2, 1) || Replaces("slurm 9", 1, 1) || !Replaces("kubernetes lr-4", 0, 0) {
		t.Error("replaces")
	}
}

func TestGetenv(t *testing.T) {
	env := []string{"A=1", "AB=2", "A=3=4"} // of two, the last counts, as for a process
	for name, want := range map[string]string{"A": "3=4", "AB": "2", "B": ""} {
		if got := Getenv(env, name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
