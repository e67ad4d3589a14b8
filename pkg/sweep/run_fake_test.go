package sweep

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"grpo/internal/expect"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// fakeManifest has that many arms "a", "b", ... and seeds. Its
// configurations are not read by a launcher.
func fakeManifest(arms, seeds int) sweepdir.Manifest {
	m := sweepdir.Manifest{Format: sweepdir.FormatVersion, Command: "sweep", Name: "test"}
	for a := range arms {
		m.Arms = append(m.Arms, sweepdir.Arm{Name: string(rune('a' + a))})
	}
	for s := range seeds {
		m.Seeds = append(m.Seeds, uint64(s+1))
		for a := range arms {
			i := len(m.Runs)
			m.Runs = append(m.Runs, sweepdir.Entry{
				Index: i, Arm: a, Seed: uint64(s + 1), Hash: fmt.Sprintf("%08x", i), Config: "seed: 1\n",
				Dir: fmt.Sprintf("runs/%s,seed=%d", m.Arms[a].Name, s+1),
			})
		}
	}
	m.Hash = m.Identity()
	return m
}

func writeSweep(t *testing.T, m sweepdir.Manifest) string {
	t.Helper()
	dir := t.TempDir()
	expect.OK(t, sweepdir.WriteManifest(dir, m))
	return dir
}

// fakeLauncher runs fake processes in goroutines. The acts of a run are those of
// its processes, in order; the last one is repeated.
type fakeLauncher struct {
	t    *testing.T
	acts map[int][]act
	rest act // of runs without acts of their own

	mu     sync.Mutex
	starts []string // "INDEX/THREADS"
	alive  int
	most   int
	lastID int
}

// act is a fake process from start to end.
type act func(p *fakeProcess) Exit

func (l *fakeLauncher) Start(dir string, e sweepdir.Entry, threads int) (Process, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	play := l.rest
	if acts := l.acts[e.Index]; len(acts) > 0 {
		play = acts[0]
		if len(acts) > 1 {
			l.acts[e.Index] = acts[1:]
		}
	}
	if play == nil {
		return nil, errors.New("fork: no memory")
	}
	l.starts = append(l.starts, fmt.Sprintf("%d/%d", e.Index, threads))
	l.alive++
	l.most = max(l.most, l.alive)
	l.lastID++
	p := &fakeProcess{
		t: l.t, path: e.Path(dir), id: l.lastID, asked: make(chan struct{}), killed: make(chan struct{}), end: make(chan Exit, 1),
	}
	go func() {
		exit := play(p)
		l.mu.Lock()
		l.alive--
		l.mu.Unlock()
		p.end <- exit
	}()
	return p, nil
}

type fakeProcess struct {
	t             *testing.T
	path          string
	id            int
	step          int
	asked, killed chan struct{}
	once, twice   sync.Once
	end           chan Exit
}

func (p *fakeProcess) ID() int          { return p.id }
func (p *fakeProcess) Wait() Exit       { return <-p.end }
func (p *fakeProcess) Interrupt() error { p.once.Do(func() { close(p.asked) }); return nil }
func (p *fakeProcess) Kill() error      { p.twice.Do(func() { close(p.killed) }); return nil }

func (p *fakeProcess) check(err error) {
	if err != nil {
		p.t.Error(err)
	}
}

// locked acts with the run's lock, as a real process does, or ends for
// the process that has it.
func locked(play act) act {
	return func(p *fakeProcess) Exit {
		unlock, err := rundir.Claim(p.path, rundir.KindRun, nil)
		if err != nil {
			return Exit{Code: ExitInterrupted}
		}
		defer func() { p.check(unlock()) }()
		return play(p)
	}
}

func (p *fakeProcess) status(state, problem string) {
	p.check(rundir.WriteJSON(filepath.Join(p.path, rundir.StatusFile), rundir.Status{State: state, Step: p.step, PID: p.id, Error: problem}))
	putSaved(p.check, p.path, p.step)
}

// putSaved writes the files of a run from which its last checkpoint is known.
func putSaved(check func(error), dir string, step int) {
	check(os.MkdirAll(filepath.Join(dir, rundir.CheckpointDir), 0o755))
	check(rundir.WriteJSON(filepath.Join(dir, rundir.CheckpointDir, rundir.ChecksumsFile), rundir.Checksums{Step: step}))
}

// print writes to the process's log.
func (p *fakeProcess) print(text string) {
	p.check(os.MkdirAll(p.path, 0o755))
	f, err := os.OpenFile(filepath.Join(p.path, sweepdir.TaskLog), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	p.check(err)
	_, err = f.WriteString(text)
	p.check(err)
	p.check(f.Close())
}

// resume continues from the checkpoint that the status names.
func (p *fakeProcess) resume() {
	var s rundir.Status
	if rundir.ReadJSON(filepath.Join(p.path, rundir.StatusFile), &s) == nil {
		p.step = s.Step
	}
	metrics := filepath.Join(p.path, rundir.MetricsFile)
	data, _ := os.ReadFile(metrics)
	lines := slices.Collect(bytes.Lines(data))
	p.check(os.WriteFile(metrics, bytes.Join(lines[:min(len(lines), p.step)], nil), 0o600))
	p.status(rundir.StateRunning, "")
}

func (p *fakeProcess) append(m rundir.Metrics) {
	l, err := rundir.OpenLog(filepath.Join(p.path, rundir.MetricsFile))
	p.check(err)
	p.check(l.Append(m))
	p.check(l.Close())
}

// steps makes n steps of a second; save = a checkpoint after each.
// It returns early, with false, when the process was asked to stop or killed.
func (p *fakeProcess) steps(n int, save bool) bool {
	for range n {
		select {
		case <-p.asked:
			return false
		case <-p.killed:
			return false
		case <-time.After(time.Second):
		}
		p.step++
		p.append(rundir.Metrics{Step: p.step, Rewards: map[string]rundir.Stat{}, Time: rundir.Timing{UpdateS: 1}})
		if save {
			p.status(rundir.StateRunning, "")
		}
	}
	return true
}

// stop is the exit of a process that was asked to, or killed.
func (p *fakeProcess) stop() Exit {
	select {
	case <-p.killed:
		return Exit{Code: -1, Signal: "killed"}
	default:
		p.status(rundir.StateInterrupted, "")
		return Exit{Code: ExitInterrupted}
	}
}

// completes is a run of n steps that saves every one.
func completes(n int) act {
	return locked(func(p *fakeProcess) Exit {
		p.resume()
		if !p.steps(n-p.step, true) {
			return p.stop()
		}
		p.status(rundir.StateDone, "")
		p.check(rundir.WriteJSON(filepath.Join(p.path, rundir.ResultFile), rundir.Result{Status: rundir.StateDone, Steps: p.step}))
		return Exit{}
	})
}

// dies makes n steps, saves them or not, and is killed.
func dies(n int, save bool) act {
	return locked(func(p *fakeProcess) Exit {
		p.resume()
		if !p.steps(n, save) {
			return p.stop()
		}
		return Exit{Code: -1, Signal: "killed"}
	})
}

// panics ends like a Go program that panics, at once.
func panics(p *fakeProcess) Exit {
	p.print("panic: index out of range\n\ngoroutine 1 [running]:\nmain.main()\n")
	return Exit{Code: 2}
}

// fails reports an error and ends, as a task that fails.
func fails(code int, why string) act {
	return locked(func(p *fakeProcess) Exit {
		p.status(rundir.StateFailed, why)
		p.print("grpo: " + why + "\n")
		return Exit{Code: code}
	})
}

// hangs makes n steps and then nothing, until it is killed.
func hangs(n int) act {
	return locked(func(p *fakeProcess) Exit {
		p.resume()
		if !p.steps(n, true) {
			return p.stop()
		}
		<-p.killed
		return p.stop()
	})
}

// journal is an observer that records the events.
type journal struct {
	mu     sync.Mutex
	events []Event
	notes  []string
	on     func(Event)
}

func (j *journal) Event(e Event) {
	j.mu.Lock()
	j.events = append(j.events, e)
	j.mu.Unlock()
	if j.on != nil {
		j.on(e)
	}
}

func (j *journal) Note(s string) { j.notes = append(j.notes, s) }

var kindNames = map[EventKind]string{
	Found: "found", Started: "started", Progress: "progress", Ended: "ended", Died: "died", GaveUp: "gave up",
	Hung: "hung", Stopped: "stopped", Paused: "paused", Elsewhere: "elsewhere",
}

// of lists the events of a run, progress left out.
func (j *journal) of(index int) string {
	var out []string
	for _, e := range j.events {
		if e.Entry.Index == index && e.Kind != Progress {
			out = append(out, kindNames[e.Kind])
		}
	}
	return strings.Join(out, ", ")
}

func (j *journal) count(k EventKind) (n int) {
	for _, e := range j.events {
		if e.Kind == k {
			n++
		}
	}
	return n
}

func (j *journal) first(k EventKind) Event {
	i := slices.IndexFunc(j.events, func(e Event) bool { return e.Kind == k })
	if i < 0 {
		return Event{}
	}
	return j.events[i]
}
