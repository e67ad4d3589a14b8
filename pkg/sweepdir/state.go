package sweepdir

import (
	"fmt"
	"path/filepath"

	"grpo/pkg/rundir"
)

// Missing is the state of a run that has not begun; the others are those of
// package rundir (running, done, diverged, interrupted, failed), and [Dead].
const (
	Missing = "missing"
	// Dead is a run whose status says "running" and whose process is gone.
	Dead = "dead"
)

// RunState is an entry of the manifest with what its folder holds.
type RunState struct {
	Entry
	State string      // a State of package rundir, Missing or Dead
	Run   *rundir.Run // nil while Missing, or where the folder can't be read
	// Error says why a run failed or why its folder can't be read.
	Error string
}

// Sweep is what a sweep's folder holds.
type Sweep struct {
	Dir      string
	Manifest Manifest
	Runs     []RunState // as Manifest.Runs
}

// OfArm returns the runs of an arm in the order of Manifest.Seeds.
func (s *Sweep) OfArm(arm int) []RunState {
	var out []RunState
	for _, r := range s.Runs {
		if r.Arm == arm {
			out = append(out, r)
		}
	}
	return out
}

// Finished says whether every run has its result.
func (s *Sweep) Finished() bool {
	for _, r := range s.Runs {
		if r.Run == nil || !r.Run.Finished() {
			return false
		}
	}
	return true
}

// Open reads the sweep in dir: its manifest and, from their folders, the state
// of each run. Only the manifest can make it fail: a run's folder that can't be
// read is reported in [RunState.Error].
func Open(dir string) (*Sweep, error) {
	m, err := ReadManifest(dir)
	if err != nil {
		return nil, fmt.Errorf("open sweep: %w", err)
	}
	s := &Sweep{Dir: dir, Manifest: m}
	for _, e := range m.Runs {
		s.Runs = append(s.Runs, StateOf(dir, e))
	}
	return s, nil
}

// OpenPart is [Open] for a part of the study in dir; it returns nil for a part
// that has not begun.
func OpenPart(dir string, p Part) (*Sweep, error) {
	path, err := p.Path(dir)
	if err != nil {
		return nil, fmt.Errorf("open part %s: %w", p.Name, err)
	}
	if !IsSweep(path) {
		return nil, nil
	}
	return Open(path)
}

// StateOf reads what the folder of an entry holds. result.json decides;
// without it, a folder whose lock is held is running whatever its status says,
// because a process that continues a run takes the lock before it writes.
func StateOf(dir string, e Entry) RunState {
	s := RunState{Entry: e, State: rundir.StateFailed}
	path := e.Path(dir)
	if e.Config == "" {
		s.Error = e.Error
		return s
	}
	if err := e.CheckFolder(dir); err != nil {
		s.Error = err.Error()
		return s
	}
	if !exists(path) {
		s.State = Missing
		return s
	}
	s.read(path)
	if s.State != rundir.StateRunning {
		return s
	}
	held, known := rundir.Held(path)
	claimed := s.Run != nil && s.Run.Status != nil && s.Run.Status.State == rundir.StateRunning
	switch {
	case held || !known && claimed:
	case exists(filepath.Join(path, rundir.ResultFile)): // written while this read the others
		s.read(path)
	default:
		s.dead(path)
	}
	return s
}

// read fills the state; a run without a result counts as running.
func (s *RunState) read(path string) {
	s.State, s.Run, s.Error = rundir.StateRunning, nil, ""
	run, err := rundir.Open(path)
	switch {
	case err != nil && rundir.HasFiles(path):
		s.State, s.Error = rundir.StateFailed, err.Error()
	case err == nil && run.Result != nil:
		s.State, s.Run = run.Result.Status, run
	case err == nil:
		s.Run = run
	}
}

// dead fills the state of a run that no process works on.
func (s *RunState) dead(path string) {
	log := filepath.Join(path, TaskLog)
	switch {
	case s.Run == nil && !exists(log):
		s.State = Missing
	case s.Run == nil || s.Run.Status == nil:
		s.State, s.Error = Dead, fmt.Sprintf("its process ended before it wrote a status (see %s)", log)
	case s.Run.Status.State == rundir.StateFailed:
		s.State, s.Error = rundir.StateFailed, s.Run.Status.Error
	case s.Run.Status.State == rundir.StateInterrupted:
		s.State = rundir.StateInterrupted
	default: // "running", or "done" by a process that was killed before it wrote the result
		s.State = Dead
		s.Error = fmt.Sprintf("its process %d is gone, last seen at %s", s.Run.Status.PID, s.Run.Status.Updated)
	}
}
