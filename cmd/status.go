package cmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"grpo/internal/regular"
	"grpo/internal/textutil"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
	"grpo/pkg/sweepdir"
)

// statusRow is a run as `grpo status` shows it.
type statusRow struct {
	Part  string  `json:"part,omitempty"` // of a study
	Index int     `json:"index"`
	Arm   string  `json:"arm"`
	Seed  uint64  `json:"seed"`
	Dir   string  `json:"dir"`
	State string  `json:"state"`
	Step  int     `json:"step"`
	Steps int     `json:"steps"`
	Error string  `json:"error,omitempty"`
	Age   float64 `json:"last_sign_s"` // seconds since the last sign of life; -1: none yet
	// Attempts is the number of processes that were started for the run, as its
	// log tells; 0 for a run that no sweep started.
	Attempts int `json:"attempts"`
	// Reward is the last sampled validation answer reward.
	Reward *float64 `json:"validation_reward"`
	PID    int      `json:"pid,omitempty"`
}

// statusReport is what `grpo status --json` prints.
type statusReport struct {
	Dir      string         `json:"dir"`
	Kind     string         `json:"kind"` // "run", "sweep" or "study"
	Name     string         `json:"name"`
	Finished bool           `json:"finished"`
	Counts   map[string]int `json:"counts"` // of runs by state
	Continue string         `json:"continue"`
	Absent   []string       `json:"absent_parts,omitempty"` // parts of a study that have not started
	Runs     []statusRow    `json:"runs"`
	prepared string         // the program, if its command started no run
}

func newStatus(s *State) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "status DIR",
		Short: "Show progress of runs",
		Long: `Status reads the folder of a run, a sweep or a study of several sweeps and shows
the state of each run: missing, running, dead (its process is gone), interrupted,
failed, done or diverged. It changes nothing; call it at any time.`,
		Example: `  grpo status results/sweep-1a2b3c4d
  grpo status results/train-1a2b3c4d --json`,
		Args: takes("the folder of a run, a sweep or a study", 1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := readStatus(args[0], s.Now())
			if err != nil {
				return missingInput(err)
			}
			if asJSON {
				return printJSON(s.Out, r)
			}
			return r.write(s.Out)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return c
}

// readStatus looks at a folder of any kind.
func readStatus(dir string, now time.Time) (*statusReport, error) {
	r := &statusReport{Dir: dir, Counts: map[string]int{}, Runs: []statusRow{}}
	var err error
	switch {
	case sweepdir.IsStudy(dir):
		err = r.study(dir, now)
	case sweepdir.IsSweep(dir):
		var sw *sweepdir.Sweep
		if sw, err = sweepdir.Open(dir); err == nil {
			r.Kind, r.Name, r.Continue = "sweep", sw.Manifest.Name, continueWith(sw.Manifest.Argv, dir)
			if slices.Contains(sw.Manifest.Argv, "--prepare") {
				r.prepared = sw.Manifest.Argv[0]
			}
			r.sweep(sw, "", now)
		}
	default:
		err = r.run(dir, now)
	}
	if err != nil {
		return nil, err
	}
	r.Finished = len(r.Absent) == 0
	for _, row := range r.Runs {
		r.Counts[row.State]++
		r.Finished = r.Finished && (row.State == rundir.StateDone || row.State == rundir.StateDiverged)
	}
	if r.Finished {
		r.Continue, r.prepared = "", ""
	}
	return r, nil
}

func (r *statusReport) study(dir string, now time.Time) error {
	st, err := sweepdir.ReadStudy(dir)
	if err != nil {
		return err
	}
	r.Kind, r.Name, r.Continue = "study", st.Name, continueWith(st.Argv, dir)
	for _, p := range st.Parts {
		sw, err := sweepdir.OpenPart(dir, p)
		if err != nil {
			return err
		}
		if sw == nil {
			r.Absent = append(r.Absent, p.Name)
			continue
		}
		r.sweep(sw, p.Name, now)
	}
	return nil
}

func (r *statusReport) sweep(sw *sweepdir.Sweep, part string, now time.Time) {
	for _, s := range sw.Runs {
		row := statusRow{Part: part, Index: s.Index, Arm: sw.Manifest.Arms[s.Arm].Name, Seed: s.Seed, Dir: s.Path(sw.Dir), State: s.State, Error: s.Error}
		row.Steps, _ = sweep.RunWork(s.Entry)
		row.Age = -1
		if s.CheckFolder(sw.Dir) == nil { // else it is a link: State and Error say so
			row.read(s.Run, now)
		}
		r.Runs = append(r.Runs, row)
	}
}

// run is the status of a single run: the same reading, without a manifest.
func (r *statusReport) run(dir string, now time.Time) error {
	run, err := rundir.Open(dir)
	if err != nil {
		return fmt.Errorf("%w (status takes the folder of a run, a sweep or a study)", err)
	}
	r.Kind = "run"
	row := statusRow{Dir: dir, State: sweepdir.Dead}
	held, known := rundir.Held(dir)
	switch st := run.Status; {
	case run.Result != nil:
		row.State = run.Result.Status
		r.Name, row.Seed = run.Result.Name, run.Result.Seed
	case held || !known && st != nil && st.State == rundir.StateRunning:
		row.State = rundir.StateRunning
	case st != nil && st.State != rundir.StateRunning && st.State != rundir.StateDone:
		row.State, row.Error = st.State, st.Error
	}
	if run.Meta != nil {
		r.Continue = continueWith(run.Meta.Argv, dir)
	}
	row.read(run, now)
	r.Runs = append(r.Runs, row)
	return nil
}

// read takes steps, reward and the last sign of life of a run.
func (row *statusRow) read(run *rundir.Run, now time.Time) {
	row.Age = -1
	if t, ok := lastSign(row.Dir); ok {
		row.Age = max(0, now.Sub(t).Seconds())
	}
	var err error
	if row.Attempts, err = attempts(row.Dir); err != nil {
		row.Error = strings.TrimPrefix(row.Error+"; "+err.Error(), "; ")
	}
	if run == nil {
		return
	}
	if st := run.Status; st != nil {
		row.Step, row.Steps, row.PID = st.Step, max(row.Steps, st.Steps), st.PID
	}
	if n := len(run.Metrics); n > 0 {
		row.Step = max(row.Step, run.Metrics[n-1].Step)
	}
	for _, e := range run.Evals {
		if e.Split == rundir.SplitVal {
			row.Reward = &e.Sampled.AnswerReward
		}
	}
}

// lastSign is when the files that a run writes as it goes were last written.
func lastSign(dir string) (time.Time, bool) {
	var last time.Time
	for _, name := range []string{rundir.StatusFile, rundir.MetricsFile, rundir.EvalFile, rundir.LogFile, rundir.ResultFile, sweepdir.TaskLog} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last, !last.IsZero()
}

// attempts counts the processes of a sweep's run by the lines with which its log
// begins each of them.
func attempts(dir string) (n int, err error) {
	text, err := regular.Read(filepath.Join(dir, sweepdir.TaskLog), regular.MaxLog)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	for line := range strings.Lines(string(text)) {
		if when, rest, ok := strings.Cut(line, " "); ok && strings.Contains(rest, " task --sweep ") {
			if _, err := time.Parse(time.RFC3339, when); err == nil {
				n++
			}
		}
	}
	return n, err
}

// continueWith turns the command that made the folder dir into the one that
// continues it: --prepare and --dry-run start no run, and --fresh would start over
// in another folder.
func continueWith(argv []string, dir string) string {
	var out []string
	fresh := false
	for i, a := range argv {
		name, value, _ := strings.Cut(a, "=")
		switch {
		case slices.Contains([]string{"--prepare", "--dry-run", "--fresh"}, name):
			fresh = fresh || name == "--fresh" && value != "false"
		default:
			out = append(out, argv[i])
		}
	}
	if !fresh {
		return textutil.CommandLine(out)
	}
	for i := 0; i < len(out); i++ {
		if out[i] == "--out" {
			out = slices.Delete(out, i, min(i+2, len(out)))
			i--
		} else if strings.HasPrefix(out[i], "--out=") {
			out = slices.Delete(out, i, i+1)
			i--
		}
	}
	return textutil.CommandLine(append(out, "--out", dir))
}

func (r *statusReport) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if r.Kind == "study" {
		textutil.Fprintf(w, "part\t")
	}
	fmt.Fprintln(w, "run\tstate\tstep\tvalidation\tlast update\tattempts")
	var errs []error
	for _, row := range r.Runs {
		name := row.Dir
		if row.Arm != "" {
			name = fmt.Sprintf("%s, seed %d", row.Arm, row.Seed)
		}
		reward, age, tries := "", "never", ""
		if row.Reward != nil {
			reward = fmt.Sprintf("%.3f", *row.Reward)
		}
		if row.Age >= 0 {
			age = shortTime(row.Age) + " ago"
		}
		if row.Attempts > 0 {
			tries = fmt.Sprint(row.Attempts)
		}
		if r.Kind == "study" {
			textutil.Fprintf(w, "%s\t", row.Part)
		}
		textutil.Fprintf(w, "%s\t%s\t%d/%d\t%s\t%s\t%s\n", name, row.State, row.Step, row.Steps, reward, age, tries)
		if row.Error != "" {
			errs = append(errs, fmt.Errorf("%s: %s", name, row.Error))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	textutil.Fprintf(out, "\n%s\n", r.summary())
	for _, err := range errs {
		textutil.Fprintf(out, "%v\n", err)
	}
	if r.Continue != "" {
		textutil.Fprintf(out, "to continue: %s\n", r.Continue)
	}
	if i := slices.IndexFunc(r.Runs, func(row statusRow) bool { return row.State != rundir.StateDone && row.State != rundir.StateDiverged }); r.prepared != "" && i >= 0 {
		textutil.Fprintf(out, "or one run at a time: %s\n", textutil.CommandLine([]string{r.prepared, "task", "--sweep", r.Dir, "--index", fmt.Sprint(r.Runs[i].Index)}))
	}
	return nil
}

// summary is the whole in a sentence.
func (r *statusReport) summary() string {
	text := fmt.Sprintf("%d of %d runs finished", r.Counts[rundir.StateDone]+r.Counts[rundir.StateDiverged], len(r.Runs))
	var parts []string
	for _, s := range []string{rundir.StateDiverged, rundir.StateRunning, rundir.StateInterrupted, rundir.StateFailed, sweepdir.Dead, sweepdir.Missing} {
		if n := r.Counts[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	if len(r.Absent) > 0 {
		text += "; parts not started: " + strings.Join(r.Absent, ", ")
	}
	return text
}
