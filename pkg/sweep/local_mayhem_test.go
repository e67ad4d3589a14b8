//go:build unix

package sweep

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

var mayhem = flag.Int("mayhem", 0, "how many sweeps TestLocalMayhem kills at random moments; CI: 1")

// Whatever is killed at any time, the same command ends with the results
// of an uninterrupted sweep, and no run is done a second time.
func TestLocalMayhem(t *testing.T) {
	if *mayhem == 0 {
		t.Skip("only with -mayhem N, as in CI")
	}
	m := realManifest(t, []string{"0.001", "0.003", "0.01"}, 2, "train.n_grpo_steps=16", "eval.every_n_steps=4")
	want := uninterrupted(t, m)
	for round := range *mayhem {
		seed := uint64(round + 1)
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			dir := writeSweep(t, m)
			v := &vandal{t: t, dir: dir, random: rand.New(rand.NewPCG(seed, 0)), results: map[int]string{}}
			v.ravage()
			s := openSweep(t, dir)
			same(t, s, want)
			v.look(s)
			for _, r := range s.Runs {
				text, err := os.ReadFile(filepath.Join(r.Path(dir), rundir.LogFile))
				if n := strings.Count(string(text), "Z done\n"); err != nil || n > 1 {
					t.Errorf("run %d was done %d times, %v", r.Index, n, err)
				}
				for _, below := range []string{"", rundir.CheckpointDir} {
					if left, err := filepath.Glob(filepath.Join(r.Path(dir), below, ".*grpo-tmp")); err != nil || len(left) > 0 {
						t.Errorf("left behind: %v, %v", left, err)
					}
				}
			}
			t.Logf("%d launchers, %d of them and %d children killed", v.launchers, v.killed, v.children)
		})
	}
}

type vandal struct {
	t         *testing.T
	dir       string
	random    *rand.Rand
	results   map[int]string // of runs that are done
	launchers int
	killed    int
	children  int
}

// ravage repeats one command until it ends well, and kills it and its children
// at random moments: at first early, then later and later, so that it ends.
func (v *vandal) ravage() {
	for limit := 300; ; limit += 200 {
		c := launch(v.t, v.dir)
		v.launchers++
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		err, alive := error(nil), true
		for alive {
			select {
			case err = <-ended:
				alive = false
			case <-time.After(time.Duration(v.random.IntN(limit)) * time.Millisecond):
				v.look(openSweep(v.t, v.dir))
				if v.random.IntN(3) == 0 {
					c.Process.Kill()
					v.killed++
					err = <-ended
					alive = false
				} else {
					v.killChild()
				}
			}
		}
		if err == nil {
			return
		}
		if code := c.ProcessState.ExitCode(); code != -1 && code != exitFailed {
			v.t.Errorf("exit code %d: %s", code, c.Stderr)
		}
		if v.launchers > 60 {
			v.t.Fatalf("no end after %d launchers; the last: %v: %s", v.launchers, err, c.Stderr)
		}
	}
}

// killChild kills a process that has the folder of a run, a child of this
// launcher or of a former one.
func (v *vandal) killChild() {
	s := openSweep(v.t, v.dir)
	for _, i := range v.random.Perm(len(s.Runs)) {
		o, held, _ := rundir.Holder(s.Runs[i].Path(v.dir))
		if !held || !v.isChild(o.PID) {
			continue
		}
		if syscall.Kill(o.PID, syscall.SIGKILL) == nil {
			v.children++
		}
		return
	}
}

// isChild says whether a process is a task of this sweep; where the system
// can't tell, none is.
func (v *vandal) isChild(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && bytes.Contains(text, []byte("task\x00--sweep\x00"+v.dir+"\x00"))
}

// look remembers results, and reports one that changes.
func (v *vandal) look(s *sweepdir.Sweep) {
	for _, r := range s.Runs {
		if !r.Finished() {
			if v.results[r.Index] != "" {
				v.t.Errorf("the result of run %d is lost", r.Index)
			}
			continue
		}
		text, err := os.ReadFile(filepath.Join(r.Path(v.dir), rundir.ResultFile))
		if before := v.results[r.Index]; err != nil || before != "" && before != string(text) {
			v.t.Errorf("run %d was done again: %s\nthen %s, %v", r.Index, before, text, err)
		}
		v.results[r.Index] = string(text)
	}
}

// dieEnv makes a task die at its first step: "killed" by SIGKILL, as the kernel
// kills for memory, or of "memory" that the system does not give it.
const dieEnv = "SWEEP_TEST_DIE"

type dying struct {
	quiet
	how string
}

var held []byte

func (d dying) Step(rundir.Metrics) {
	if d.how == "killed" {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	limit := syscall.Rlimit{Cur: 64 << 20, Max: 64 << 20} // less than is in use
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &limit); err == nil {
		held = make([]byte, 1<<30)
	}
}

// A child that dies for lack of memory is reported as such, with what helps.
func TestLocalDiesForMemory(t *testing.T) {
	long(t)
	for _, c := range []struct{ how, want string }{
		{"killed", "it was killed, probably by the kernel for lack of memory (signal: killed); lower --jobs"},
		{"memory", "it ran out of memory (fatal error: "},
	} {
		t.Run(c.how, func(t *testing.T) {
			if c.how == "memory" && runtime.GOOS != "linux" {
				t.Skip("only Linux holds a process to RLIMIT_AS")
			}
			dir := writeSweep(t, realManifest(t, []string{"0.001"}, 1, "train.n_grpo_steps=4", "eval.every_n_steps=4"))
			l, j := local(), &journal{}
			l.Env = append(l.Env, dieEnv+"="+c.how)
			_, err := Run(t.Context(), dir, Options{Launcher: l, Observer: j, Now: time.Now, Cores: 1, Poll: 20 * time.Millisecond, Pause: time.Millisecond})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "; lower --jobs") {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
			if e := j.first(Died); e.Err == nil || !strings.Contains(e.Err.Error(), c.want) {
				t.Errorf("reported %v, want %q", e.Err, c.want)
			}
		})
	}
}
