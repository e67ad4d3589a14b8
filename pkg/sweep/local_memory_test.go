//go:build unix

package sweep

import (
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"grpo/pkg/rundir"
)

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
