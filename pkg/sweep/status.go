package sweep

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"grpo/internal/textutil"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// RunStatus is the progress of a run.
type RunStatus struct {
	Part  string  `json:"part,omitempty"` // of a study
	Index int     `json:"index"`
	Arm   string  `json:"arm"`
	Seed  uint64  `json:"seed"`
	Dir   string  `json:"dir"`
	State string  `json:"state"`
	Step  int     `json:"step"`
	Steps int     `json:"steps"`
	Error string  `json:"error,omitempty"`
	Age   float64 `json:"last_sign_s"` // seconds since a file of the run was last written; -1: never
	// Attempts is the number of processes that trained the run. Host and Job (of a
	// scheduler) are those of the last; Elsewhere: it is not on this machine.
	Attempts  int    `json:"attempts"`
	Host      string `json:"host,omitempty"`
	Job       string `json:"job,omitempty"`
	Elsewhere bool   `json:"-"`
	// Reward is the last sampled validation answer reward.
	Reward *float64 `json:"validation_reward"`
	PID    int      `json:"pid,omitempty"`
}

// Finished says whether the run has its result.
func (r RunStatus) Finished() bool { return isResult(r.State) }

// isResult says whether a run in this state has its result.
func isResult(state string) bool { return state == rundir.StateDone || state == rundir.StateDiverged }

// Status is the progress of a run, a sweep or a study.
type Status struct {
	Dir      string         `json:"dir"`
	Kind     string         `json:"kind"` // "run", "sweep" or "study"
	Name     string         `json:"name"`
	Finished bool           `json:"finished"`
	Counts   map[string]int `json:"counts"`                 // of runs by state
	Continue string         `json:"continue"`               // the command; empty if finished
	Absent   []string       `json:"absent_parts,omitempty"` // parts of a study that have not started
	Runs     []RunStatus    `json:"runs"`
	// OneRun is the command that trains the next missing run of a sweep that was
	// only prepared.
	OneRun string `json:"-"`
}

// ReadStatus reads the folder of a run, a sweep or a study. It changes nothing.
func ReadStatus(dir string, now time.Time) (*Status, error) {
	s := &Status{Dir: dir, Counts: map[string]int{}, Runs: []RunStatus{}}
	var argv []string // of the command that made the folder
	var err error
	switch {
	case sweepdir.IsStudy(dir):
		argv, err = s.readStudy(now)
	case sweepdir.IsSweep(dir):
		var sw *sweepdir.Sweep
		if sw, err = sweepdir.Open(dir); err == nil {
			s.Kind, s.Name, argv = "sweep", sw.Manifest.Name, sw.Manifest.Argv
			s.addSweep(sw, "", now)
		}
	default:
		argv, err = s.readRun(now)
	}
	if err != nil {
		return nil, err
	}
	for _, run := range s.Runs {
		s.Counts[run.State]++
	}
	next := slices.IndexFunc(s.Runs, func(r RunStatus) bool { return !r.Finished() })
	if s.Finished = next < 0 && len(s.Absent) == 0; s.Finished || argv == nil {
		return s, nil
	}
	s.Continue = continueWith(argv, dir)
	if s.Kind == "sweep" && slices.Contains(argv, "--prepare") {
		index := fmt.Sprint(s.Runs[next].Index)
		s.OneRun = textutil.CommandLine([]string{argv[0], "task", "--sweep", dir, "--index", index})
	}
	return s, nil
}

func (s *Status) readStudy(now time.Time) (argv []string, err error) {
	st, err := sweepdir.ReadStudy(s.Dir)
	if err != nil {
		return nil, err
	}
	s.Kind, s.Name = "study", st.Name
	for _, p := range st.Parts {
		sw, err := sweepdir.OpenPart(s.Dir, p)
		switch {
		case err != nil:
			return nil, err
		case sw == nil:
			s.Absent = append(s.Absent, p.Name)
		default:
			s.addSweep(sw, p.Name, now)
		}
	}
	return st.Argv, nil
}

func (s *Status) addSweep(sw *sweepdir.Sweep, part string, now time.Time) {
	for _, r := range sw.Runs {
		row := RunStatus{
			Part: part, Index: r.Index, Arm: sw.Manifest.Arms[r.Arm].Name, Seed: r.Seed,
			Dir: r.Path(sw.Dir), State: r.State, Error: r.Error, Age: -1,
		}
		row.Steps, _ = RunWork(r.Entry)
		if r.CheckFolder(sw.Dir) == nil { // else State and Error report that it is a link
			row.read(r.Run, now)
		}
		s.Runs = append(s.Runs, row)
	}
}

// readRun reads the status of a single run, which has no manifest.
func (s *Status) readRun(now time.Time) (argv []string, err error) {
	run, err := rundir.Open(s.Dir)
	if err != nil {
		return nil, fmt.Errorf("%w (status takes the folder of a run, a sweep or a study)", err)
	}
	s.Kind = "run"
	row := RunStatus{Dir: s.Dir, State: sweepdir.Dead}
	held, known := rundir.Held(s.Dir)
	switch st := run.Status; {
	case run.Result != nil:
		row.State, row.Seed, s.Name = run.Result.Status, run.Result.Seed, run.Result.Name
	case held || !known && st != nil && st.State == rundir.StateRunning:
		row.State = rundir.StateRunning
	case st != nil && st.State != rundir.StateRunning && st.State != rundir.StateDone:
		row.State, row.Error = st.State, st.Error
	}
	row.read(run, now)
	s.Runs = append(s.Runs, row)
	if run.Meta == nil {
		return nil, nil
	}
	return run.Meta.Argv, nil
}

// read fills in steps, reward and the time of the last change of a run.
func (r *RunStatus) read(run *rundir.Run, now time.Time) {
	var last time.Time
	for _, name := range heartbeat {
		if t := stampOf(filepath.Join(r.Dir, name)).changed; t.After(last) {
			last = t
		}
	}
	if r.Age = -1; !last.IsZero() {
		r.Age = max(0, now.Sub(last).Seconds())
	}
	owners, err := rundir.Owners(r.Dir)
	if err != nil {
		r.Error = strings.TrimPrefix(r.Error+"; "+err.Error(), "; ")
	}
	if r.Attempts = len(owners); r.Attempts > 0 {
		o := owners[r.Attempts-1]
		r.Host, r.Job, r.Elsewhere = o.Host, o.Job, o.Elsewhere()
	}
	if run == nil {
		return
	}
	if st := run.Status; st != nil {
		r.Step, r.Steps, r.PID = st.Step, max(r.Steps, st.Steps), st.PID
	}
	if n := len(run.Metrics); n > 0 {
		r.Step = max(r.Step, run.Metrics[n-1].Step)
	}
	for _, e := range run.Evals {
		if e.Split == rundir.SplitVal {
			r.Reward = &e.Sampled.AnswerReward
		}
	}
}

// continueWith returns the command that continues the folder dir, given the one that
// made it: without --prepare and --dry-run, which start no run, and with --out for
// --fresh, which would start over in another folder.
func continueWith(argv []string, dir string) string {
	fresh := false
	for _, a := range argv {
		if name, value, _ := strings.Cut(a, "="); name == "--fresh" {
			fresh = value != "false"
		}
	}
	var out []string
	for i := 0; i < len(argv); i++ {
		switch name, _, joined := strings.Cut(argv[i], "="); {
		case name == "--fresh", name == "--prepare", name == "--dry-run":
		case name == "--out" && fresh:
			if !joined {
				i++ // its value
			}
		default:
			out = append(out, argv[i])
		}
	}
	if fresh {
		out = append(out, "--out", dir)
	}
	return textutil.CommandLine(out)
}
