package sweep

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"grpo/internal/regular"
	"grpo/internal/textutil"
	"grpo/pkg/budget"
	"grpo/pkg/config"
	"grpo/pkg/dataset"
	"grpo/pkg/policy"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
	"grpo/pkg/train"
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
	Name      string `json:"-"` // of the arm, for readers ([sweepdir.Manifest.NameOf])
	// Reward is the last sampled validation answer reward.
	Reward *float64 `json:"validation_reward"`
	PID    int      `json:"pid,omitempty"`
	// Left is the time that a running run still takes, in seconds; 0 = unknown.
	Left  float64   `json:"left_s,omitempty"`
	Slurm *SlurmRun `json:"slurm,omitempty"`
}

// InProgress says whether a run is running or waits in a queue. Where runs are missing or dead, it is
// also true for a minute after the folder was prepared or a run ended: the next may be about to start,
// and a process that has just started looks dead.
func (s *Status) InProgress() bool {
	if s.Counts[rundir.StateRunning]+s.Counts[StateQueued]+s.Counts[StateRequeued] > 0 {
		return true
	}
	isRecent := func(age float64) bool { return age >= 0 && age < 60 }
	ended := func(r RunStatus) bool { return (r.Finished() || r.State == sweepdir.Dead) && isRecent(r.Age) }
	return s.Counts[sweepdir.Missing]+s.Counts[sweepdir.Dead]+len(s.Absent) > 0 &&
		(isRecent(s.prepared) || slices.ContainsFunc(s.Runs, ended))
}

// SlurmRun is what Slurm says about the job of a run.
type SlurmRun struct {
	Job    string `json:"job"` // "12_3"
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	Node   string `json:"node,omitempty"`
}

// States of runs that wait in a cluster's queue.
const (
	StateQueued   = "queued"
	StateRequeued = "requeued" // preempted, at its time limit, or its node failed: it continues later
)

// Finished says whether the run has its result, or was stopped.
func (r RunStatus) Finished() bool { return sweepdir.Ended(r.State) }

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
	// Advice is how to need less memory, if a run may have been killed for lack of it: see [Status.Advise].
	Advice string `json:"advice,omitempty"`
	// Submitted: there are jobs in Slurm, or were. SlurmError is why it does not tell more.
	Submitted  bool    `json:"submitted,omitempty"`
	SlurmError string  `json:"slurm_error,omitempty"`
	prepared   float64 // seconds since the study or one of its sweeps was prepared; -1: unknown
}

// ReadStatus reads the folder of a run, a sweep or a study. It changes nothing. ask adds what is
// known of the jobs of a sweep or a study that were submitted to a cluster; nil = nothing.
func ReadStatus(dir string, now time.Time, ask func(*Status) error) (*Status, error) {
	s := &Status{Dir: dir, Counts: map[string]int{}, Runs: []RunStatus{}, prepared: -1}
	var argv []string // of the command that made the folder
	var err error
	switch {
	case sweepdir.IsStudy(dir):
		argv, err = s.readStudy(now)
	case sweepdir.IsSweep(dir):
		var m sweepdir.Manifest
		if m, err = sweepdir.ReadManifest(dir); err == nil {
			s.Kind, s.Name, argv = "sweep", m.Name, m.Argv
			s.addSweep(dir, m, "", now)
		}
	default:
		argv, err = s.readRun(now)
	}
	if err != nil {
		return nil, err
	}
	if s.Kind != "run" && ask != nil {
		if err := ask(s); err != nil {
			return nil, err
		}
	}
	for _, run := range s.Runs {
		s.Counts[run.State]++
	}
	next := slices.IndexFunc(s.Runs, func(r RunStatus) bool { return !r.Finished() })
	if s.Finished = next < 0 && len(s.Absent) == 0; s.Finished || argv == nil {
		return s, nil
	}
	s.Continue = textutil.CommandLine(ContinueArgs(s.Kind, argv, dir))
	if s.Kind == "sweep" && slices.Contains(argv, "--prepare") && next >= 0 && s.Runs[next].State != sweepdir.Planned {
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
	s.Kind, s.Name, s.prepared = "study", st.Name, ageOf(filepath.Join(s.Dir, sweepdir.StudyFile), now)
	for _, p := range st.Parts {
		path, err := p.Path(s.Dir)
		if err != nil {
			return nil, fmt.Errorf("open part %s: %w", p.Name, err)
		}
		if !sweepdir.IsSweep(path) {
			s.Absent = append(s.Absent, p.Name)
			continue
		}
		m, err := sweepdir.ReadManifest(path)
		if err != nil {
			return nil, fmt.Errorf("open sweep: %w", err)
		}
		s.addSweep(path, m, p.Name, now)
	}
	return st.Argv, nil
}

// ageOf is the number of seconds since a file was last changed, -1 without it.
func ageOf(path string, now time.Time) float64 {
	changed := stampOf(path).changed
	if changed.IsZero() {
		return -1
	}
	return max(0, now.Sub(changed).Seconds())
}

func (s *Status) addSweep(dir string, m sweepdir.Manifest, part string, now time.Time) {
	if age := ageOf(filepath.Join(dir, sweepdir.ManifestFile), now); s.prepared < 0 || age < s.prepared {
		s.prepared = age
	}
	for _, e := range m.Runs {
		r := m.Settle(sweepdir.Glance(dir, e))
		row := RunStatus{
			Part: part, Index: r.Index, Arm: m.Arms[r.Arm].Name, Name: m.NameOf(r.Arm), Seed: r.Seed,
			Dir: r.Path(dir), State: r.State, Error: r.Error, Age: -1, Steps: stepsOf(e),
		}
		if r.CheckFolder(dir) == nil { // else State and Error report that it is a link
			row.read(r.Run, e.Config, now)
		}
		s.Runs = append(s.Runs, row)
	}
}

// stepsOf finds the number of steps in a frozen configuration, whose form is known. Reading it
// whole takes a thousand times as long.
func stepsOf(e sweepdir.Entry) int {
	_, rest, _ := strings.Cut(e.Config, "\n  n_grpo_steps: ")
	text, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.Atoi(text)
	return n
}

// readRun reads the status of a single run, which has no manifest.
func (s *Status) readRun(now time.Time) (argv []string, err error) {
	run, err := rundir.Open(s.Dir)
	if err != nil {
		return nil, fmt.Errorf("%w (status takes the folder of a run, a sweep or a study)", err)
	}
	s.Kind = "run"
	row := RunStatus{Dir: s.Dir, State: sweepdir.Dead, Error: run.Gone(), Age: -1}
	held, known := rundir.Held(s.Dir)
	switch st := run.Status; {
	case run.Result != nil:
		row.State, row.Seed, s.Name, row.Error = run.Result.Status, run.Result.Seed, run.Result.Name, ""
	case held || !known && st != nil && st.State == rundir.StateRunning:
		row.State, row.Error = rundir.StateRunning, ""
	case st != nil && st.State != rundir.StateRunning && st.State != rundir.StateDone:
		row.State, row.Error = st.State, st.Error
	}
	if c, err := config.LoadText(filepath.Join(s.Dir, rundir.ConfigFile), run.Config); err == nil {
		row.Seed, s.Name = c.Config.Seed, c.Config.Name
	}
	row.read(run, string(run.Config), now)
	s.Runs = append(s.Runs, row)
	if run.Meta == nil {
		return nil, nil
	}
	return run.Meta.Argv, nil
}

// read fills in steps, reward and the time of the last change of a run with this configuration, which
// [rundir.Peek] leaves out.
func (r *RunStatus) read(run *rundir.Run, text string, now time.Time) {
	for _, name := range heartbeat {
		if age := ageOf(filepath.Join(r.Dir, name), now); r.Age < 0 || age >= 0 && age < r.Age {
			r.Age = age
		}
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
		if r.State == rundir.StateRunning && text != "" {
			if c, err := config.LoadText(filepath.Join(r.Dir, rundir.ConfigFile), []byte(text)); err == nil {
				// Evaluations can take an hour after the newest step.
				since := max(0, ageOf(filepath.Join(r.Dir, rundir.MetricsFile), now))
				r.Left = max(0, PaceOf(run.Metrics).Left(c.Config)-since)
			}
		}
	}
	for _, e := range run.Evals {
		if e.Split == rundir.SplitVal {
			r.Reward = &e.Sampled.AnswerReward
		}
	}
	if run.Result != nil {
		r.Step, r.Reward = run.Result.Steps, &run.Result.Final.Sampled.AnswerReward
	}
}

// ContinueArgs returns the command that continues the folder dir of a run, a sweep or a
// study, given the one that made it. The folder may have been moved or renamed, or chosen by --fresh,
// so --out is the folder that was asked about.
func ContinueArgs(kind string, argv []string, dir string) []string {
	switch {
	case len(argv) < 2:
		return argv
	case kind == "run":
		return []string{argv[0], "train", "--resume", dir}
	case kind == "sweep" && argv[1] == "assignment":
		dir = filepath.Join(dir, "..") // of the study
	}
	folder := []string{"--out", dir}
	out, named := sweepdir.InFolder(argv, folder)
	fresh := slices.ContainsFunc(argv, func(arg string) bool {
		name, value, _ := strings.Cut(arg, "=")
		return name == "--fresh" && value != "false"
	})
	name, isDefault := strings.CutPrefix(filepath.Base(dir), argv[1]+"-")
	isDefault = isDefault && len(name) == 8 && filepath.Dir(dir) == "results" // "sweep-" and the hash
	if !named && (fresh || !isDefault) {
		out = append(out, folder...)
	}
	return out
}

// Advise sets the advice for the first run whose process may have been killed for lack of memory;
// available bytes, 0 = unknown. It reads the run's problems and its model, which may take seconds.
func (s *Status) Advise(available int64) {
	for _, r := range s.Runs {
		if r.State != sweepdir.Dead {
			continue
		}
		run, err := rundir.Peek(r.Dir)
		if err != nil || !run.MayLackMemory() {
			continue
		}
		if s.Advice = adviceFor(r.Dir, available); s.Advice != "" {
			return
		}
	}
}

// adviceFor is empty for a run whose configuration or inputs can't be read, which the run itself reports.
func adviceFor(dir string, available int64) string {
	path := filepath.Join(dir, rundir.ConfigFile)
	text, err := regular.Read(path, regular.MaxDocument)
	if err != nil {
		return ""
	}
	loaded, err := config.LoadText(path, text)
	if err != nil {
		return ""
	}
	p, err := dataset.Of(loaded.Config)
	if err != nil {
		return ""
	}
	m, err := policy.Of(loaded.Config)
	if err != nil {
		return ""
	}
	need, err := train.MemoryOf(m, loaded.Config, p, 1)
	if err != nil {
		return ""
	}
	return budget.AfterKill(m, loaded.Config, need, available)
}
