package sweepdir

import (
	"fmt"
	"os"
	"path/filepath"

	"grpo/internal/regular"
	"grpo/pkg/rundir"
)

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

// Path is the folder of a run of the sweep in dir.
func (e Entry) Path(dir string) string { return filepath.Join(dir, filepath.FromSlash(e.Dir)) }

// CheckFolder returns an error where the folder of a run, or the one that holds
// all runs, is a link or a file: what is written there would lie outside the
// sweep.
func (e Entry) CheckFolder(dir string) error {
	if e.Dir == "." {
		return nil // a single run as a sweep of one: dir is the user's own argument
	}
	if err := regular.Folder(filepath.Join(dir, RunsDir)); err != nil {
		return err
	}
	return regular.Folder(e.Path(dir))
}

// StateOf reads what the folder of an entry holds. result.json decides;
// without it, a folder whose lock is held is running whatever its status says,
// because a process that continues a run takes the lock before it writes.
func StateOf(dir string, e Entry) RunState {
	s := RunState{Entry: e, State: Missing}
	if e.Config == "" {
		s.State, s.Error = rundir.StateFailed, e.Error
		return s
	}
	path := e.Path(dir)
	if err := e.CheckFolder(dir); err != nil {
		s.State, s.Error = rundir.StateFailed, err.Error()
		return s
	}
	if !exists(path) {
		return s
	}
	s.read(path)
	if s.State != rundir.StateRunning {
		return s
	}
	held, known := rundir.Held(path)
	switch {
	case held || !known && s.claimed():
		return s
	case s.finishedSince(path):
		s.read(path)
		return s
	}
	s.dead(path)
	return s
}

// read fills the state; a run without a result counts as running.
func (s *RunState) read(path string) {
	s.Run, s.Error = nil, ""
	run, err := rundir.Open(path)
	switch {
	case err != nil && noRunFiles(path):
		s.State = rundir.StateRunning
	case err != nil:
		s.State, s.Error = rundir.StateFailed, err.Error()
	case run.Result != nil:
		s.State, s.Run = run.Result.Status, run
	default:
		s.State, s.Run = rundir.StateRunning, run
	}
}

// claimed says whether the status says that a process is running.
func (s *RunState) claimed() bool {
	return s.Run != nil && s.Run.Status != nil && s.Run.Status.State == rundir.StateRunning
}

// finishedSince says whether the result came while the files were read.
func (s *RunState) finishedSince(path string) bool {
	return exists(filepath.Join(path, rundir.ResultFile))
}

// dead fills the state of a run on which no process works.
func (s *RunState) dead(path string) {
	switch {
	case s.Run == nil && !exists(filepath.Join(path, TaskLog)):
		s.State = Missing
	case s.Run == nil || s.Run.Status == nil:
		s.State, s.Error = Dead, fmt.Sprintf("its process ended before it wrote a status (see %s)", filepath.Join(path, TaskLog))
	case s.Run.Status.State == rundir.StateFailed:
		s.State, s.Error = rundir.StateFailed, s.Run.Status.Error
	case s.Run.Status.State == rundir.StateInterrupted:
		s.State = rundir.StateInterrupted
	default: // "running", or "done" by a process that was killed before it wrote the result
		s.State, s.Error = Dead, fmt.Sprintf("its process %d is gone, last seen at %s", s.Run.Status.PID, s.Run.Status.Updated)
	}
}

// noRunFiles says whether the folder holds none of the files that make a run.
func noRunFiles(path string) bool {
	for _, name := range []string{
		rundir.ConfigFile, rundir.MetaFile, rundir.MetricsFile, rundir.EvalFile, rundir.SamplesFile, rundir.StatusFile, rundir.ResultFile,
	} {
		if _, err := os.Lstat(filepath.Join(path, name)); err == nil {
			return false
		}
	}
	return true
}
