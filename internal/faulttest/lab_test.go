//go:build unix

package faulttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// smallRun is the run under test: twelve steps in a second or two, with a checkpoint after each so
// that there is much to interrupt, on one thread.
var smallRun = []string{"train", "-c", "smoke", "--quiet", "--threads", "1", "--seed", "7",
	"--set", "rollout_batch_size=64", "--set", "n_grpo_steps=12", "--set", "every_n_steps=3",
	"--set", "val_size=32", "--set", "test_size=32", "--set", "unseen_size=32",
	"--set", "checkpoint_every_n_steps=1", "--set", "keep_checkpoints=2"}

// lab has what all faults share.
type lab struct {
	ctx       context.Context
	kills     int
	seed      uint64
	binary    string
	self      string // this program, which runs another under limits
	work      string // folder of all runs
	version   string
	reference string // folder of the reference run
	took      time.Duration

	// Each fault has its own, so that faults can be tried in parallel.
	rng  *rand.Rand
	name string // prefix of its folders
	made int
}

func newLab(ctx context.Context, kills int, seed uint64) (*lab, error) {
	l := &lab{ctx: ctx, kills: kills, seed: seed}
	var err error
	if l.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if l.work, err = os.MkdirTemp("", "grpo-faults-"); err != nil {
		return nil, err
	}
	l.binary = filepath.Join(l.work, "grpo")
	out, err := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", l.binary, "grpo").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("build the program: %w: %s", err, bytes.TrimSpace(out))
	}
	v, err := l.command("version").succeed()
	if err != nil {
		return nil, err
	}
	l.version, _, _ = strings.Cut(v.stdout, "\n")
	l = l.at("reference")
	l.reference = l.dir()
	for range 2 { // the first one warms the machine's caches
		if err := os.RemoveAll(l.reference); err != nil {
			return nil, err
		}
		o, err := l.train(l.reference).succeed()
		if err != nil {
			return nil, fmt.Errorf("the reference run: %w", err)
		}
		l.took = o.took
	}
	return l, nil
}

// at is the lab for one fault, with its own random stream and folders.
func (l *lab) at(name string) *lab {
	h := fnv.New64a()
	h.Write([]byte(name))
	own := *l
	own.rng, own.made = rand.New(rand.NewPCG(l.seed, h.Sum64())), 0
	own.name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	return &own
}

// dir names a new folder, which does not exist.
func (l *lab) dir() string {
	l.made++
	return filepath.Join(l.work, fmt.Sprintf("%s-%d", l.name, l.made))
}

// tries scales a fault's number of tries n, which is for 200 kills.
func (l *lab) tries(n int) int { return max(1, n*l.kills/200) }

// moment is a random time within the duration of the reference run.
func (l *lab) moment() time.Duration { return time.Duration(l.rng.Float64() * float64(l.took)) }

// process is the program with its arguments, started or not.
type process struct {
	cmd         *exec.Cmd
	ctx         context.Context // its time limit
	cancel      context.CancelFunc
	out, errOut bytes.Buffer
	started     time.Time
}

// command prepares the program without the user's settings (variables that start with GRPO_).
func (l *lab) command(args ...string) *process {
	p := &process{}
	p.ctx, p.cancel = context.WithTimeout(l.ctx, 2*time.Minute+40*l.took)
	p.cmd = exec.CommandContext(p.ctx, l.binary, args...)
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGQUIT) } // prints the stacks
	p.cmd.WaitDelay = 10 * time.Second
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "GRPO_") || strings.HasPrefix(kv, "GOMEMLIMIT=")
	})
	// A run that is refused for lack of space would never meet a full disk.
	p.cmd.Env = append(p.cmd.Env, "GRPO_DISK=off")
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.errOut
	return p
}

// train is the command under test, in a folder.
func (l *lab) train(dir string, more ...string) *process {
	return l.command(append(append(slices.Clone(smallRun), "--out", dir), more...)...)
}

// outcome is how a process ended.
type outcome struct {
	code           int // -1 if a signal ended it
	signal         syscall.Signal
	stdout, stderr string
	took           time.Duration
}

func (o outcome) String() string {
	how := fmt.Sprintf("exit %d", o.code)
	if o.code < 0 {
		how = o.signal.String()
	}
	text := strings.TrimSpace(o.stderr)
	if lines := strings.Split(text, "\n"); len(lines) > 12 {
		text = strings.Join(append(lines[:12], "..."), "\n")
	}
	return how + ": " + text
}

func (p *process) start() error {
	p.started = time.Now()
	return p.cmd.Start()
}

// succeed runs the process; another exit code than 0 is an error.
func (p *process) succeed() (outcome, error) {
	o, err := p.wait()
	if err == nil && o.code != 0 {
		err = fmt.Errorf("%s: %s", strings.Join(p.cmd.Args, " "), o)
	}
	return o, err
}

// wait starts the process if needed and waits for its end. It is an error if it
// hangs; then it prints its stacks.
func (p *process) wait() (outcome, error) {
	defer p.cancel()
	if p.cmd.Process == nil {
		if err := p.start(); err != nil {
			return outcome{}, err
		}
	}
	err := p.cmd.Wait()
	o := outcome{stdout: p.out.String(), stderr: p.errOut.String(), took: time.Since(p.started)}
	if errors.Is(p.ctx.Err(), context.DeadlineExceeded) {
		return o, fmt.Errorf("it hung for %v: %s", o.took, mainStack(o.stderr))
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return o, err
	}
	o.code = p.cmd.ProcessState.ExitCode()
	if ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		o.signal = ws.Signal()
	}
	return o, nil
}

// mainStack is the stack of the main goroutine in a dump of all goroutines, or the whole text if it
// is not a dump.
func mainStack(text string) string {
	if i := strings.Index(text, "\ngoroutine 1 "); i >= 0 {
		text = text[i+1:]
		if end := strings.Index(text, "\n\n"); end >= 0 {
			text = text[:end]
		}
	}
	return text
}

// signalled starts the process, sends the signals one after another, and waits for
// its end.
func (p *process) signalled(signals ...timedSignal) (outcome, error) {
	if err := p.start(); err != nil {
		return outcome{}, err
	}
	done := make(chan struct{})
	go func() {
		for _, s := range signals {
			select {
			case <-time.After(s.after):
			case <-done:
				return
			}
			for s.until != nil && !s.until() {
				select {
				case <-done:
					return
				default:
				}
			}
			_ = p.cmd.Process.Signal(s.signal) // it may have ended
		}
	}()
	o, err := p.wait()
	close(done)
	return o, err
}

type timedSignal struct {
	after  time.Duration // since the one before
	signal syscall.Signal
	until  func() bool // to wait for before sending; nil = nothing
}
