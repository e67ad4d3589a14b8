package sweepdir

import (
	"fmt"
	"path/filepath"

	"grpo/pkg/rundir"
)

// Missing is the state of a run that has not started; the others are [Dead] and those of package
// rundir (running, done, diverged, interrupted, failed).
const (
	Missing = "missing"
	// Dead is a run whose status is "running" but whose process no longer exists.
	Dead = "dead"
)

// RunState is an entry of the manifest with the content of its folder.
type RunState struct {
	Entry
	State string      // a State of package rundir, Missing, Dead, Stopped or Planned
	Run   *rundir.Run // nil if Missing or unreadable
	// Error explains why a run failed or why its folder can't be read.
	Error string
}

// Finished reports whether the run has its result.
func (s RunState) Finished() bool { return s.Run != nil && s.Run.Finished() }

// Ended reports whether nothing is left to train of a run in this state.
func Ended(state string) bool {
	return state == rundir.StateDone || state == rundir.StateDiverged || state == Stopped
}

// LeftOut reports whether a run in this state is not trained on: halving or a look has stopped it, or a look comes first.
func LeftOut(state string) bool { return state == Stopped || state == Planned }

// Sweep is the content of a sweep's folder.
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

// Unfinished counts the runs that have no result and were not stopped.
func (s *Sweep) Unfinished() (n int) {
	for _, r := range s.Runs {
		if r.State != Stopped && !r.Finished() {
			n++
		}
	}
	return n
}

// Finished reports whether every run has its result, or was stopped.
func (s *Sweep) Finished() bool { return s.Unfinished() == 0 }

// Open reads the manifest of the sweep in dir and the state of each run from its folder. Only the
// manifest can make it fail: an unreadable run folder is reported in [RunState.Error].
func Open(dir string) (*Sweep, error) {
	m, err := ReadManifest(dir)
	if err != nil {
		return nil, fmt.Errorf("open sweep: %w", err)
	}
	s := &Sweep{Dir: dir, Manifest: m}
	for _, e := range m.Runs {
		s.Runs = append(s.Runs, m.Settle(StateOf(dir, e)))
	}
	return s, nil
}

// OpenPart is [Open] for a part of the study in dir; nil if the part has not started.
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

// OpenStudy reads the study in dir and opens its parts; nil for a part that has not started.
func OpenStudy(dir string) (Study, []*Sweep, error) {
	st, err := ReadStudy(dir)
	if err != nil {
		return st, nil, err
	}
	parts := make([]*Sweep, len(st.Parts))
	for i, p := range st.Parts {
		if parts[i], err = OpenPart(dir, p); err != nil {
			return st, nil, err
		}
	}
	return st, parts, nil
}

// StateOf reads the folder of an entry. result.json decides. Without it, a folder whose lock is
// held is running whatever its status, because a process that continues a run takes the lock before
// it writes.
func StateOf(dir string, e Entry) RunState { return stateOf(dir, e, rundir.Open) }

// Glance is [StateOf] for a list of many runs: it verifies no file and reads little of the logs (see
// [rundir.Peek]).
func Glance(dir string, e Entry) RunState { return stateOf(dir, e, rundir.Peek) }

func stateOf(dir string, e Entry, open func(string) (*rundir.Run, error)) RunState {
	s := RunState{Entry: e, State: rundir.StateFailed}
	path := e.Path(dir)
	if err := e.CheckFolder(dir); err != nil {
		s.Error = err.Error()
		return s
	}
	if !exists(path) {
		s.State = Missing
		return s
	}
	s.read(path, open)
	if s.State != rundir.StateRunning {
		return s
	}
	held, known := rundir.Held(path)
	claimed := s.Run != nil && s.Run.Status != nil && s.Run.Status.State == rundir.StateRunning
	switch {
	case held || !known && claimed:
	case exists(filepath.Join(path, rundir.ResultFile)): // written during this read
		s.read(path, open)
	default:
		s.dead(path)
	}
	return s
}

// read fills the state; a run without a result counts as running.
func (s *RunState) read(path string, open func(string) (*rundir.Run, error)) {
	s.State, s.Run, s.Error = rundir.StateRunning, nil, ""
	run, err := open(path)
	switch {
	case err != nil && rundir.HasFiles(path):
		s.State, s.Error = rundir.StateFailed, err.Error()
	case err == nil && run.Result != nil:
		s.State, s.Run = run.Result.Status, run
	case err == nil:
		s.Run = run
	}
}

// dead fills the state of a run without a process.
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
		s.Error = s.Run.Gone()
	}
}
