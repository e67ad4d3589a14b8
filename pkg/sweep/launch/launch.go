// Package launch trains the missing runs of a sweep or a study on this machine or on a cluster. Each
// launcher is one file that implements [Launcher]; [Kinds] lists them.
package launch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/config"
	"grpo/pkg/report"
	"grpo/pkg/sweep"
	"grpo/pkg/sweepdir"
)

// Launcher is a place where runs are trained.
type Launcher interface {
	// Check refuses what can't be trained there, before anything is written.
	Check(ctx context.Context, j *Job) error
	// Preview returns what Submit would hand over now, as commands for a shell, of the first part of a
	// study; empty if the list of runs is all there is to show. It writes nothing.
	Preview(ctx context.Context, j *Job) (string, error)
	// Submit freezes the runs in their folder and hands over those that are missing. With an error, the
	// receipt is about what was handed over before it; nil = nothing.
	Submit(ctx context.Context, j *Job) (*Receipt, error)
	// Wait returns when all runs have ended, with their errors. The report on each sweep is written as
	// it ends. ended is false if there is nothing to report: it was interrupted, or could not start.
	Wait(ctx context.Context, j *Job) (ended bool, err error)
	// Busy returns the runs in the folder of a sweep that are queued or running there, by their index.
	Busy(ctx context.Context, dir string) (map[int]bool, error)
	// Status adds to the status of a sweep or a study what is known of its jobs.
	Status(ctx context.Context, s *sweep.Status) error
	// Cancel cancels the jobs of a sweep or a study, and returns their ids. submitted counts all jobs
	// that there ever were.
	Cancel(ctx context.Context, dir string) (ids []string, submitted int, err error)
}

// noJobs is embedded in launchers whose jobs leave no record in the folder.
type noJobs struct{}

func (noJobs) Preview(context.Context, *Job) (string, error)                 { return "", nil }
func (noJobs) Busy(context.Context, string) (map[int]bool, error)            { return nil, nil }
func (noJobs) Status(context.Context, *sweep.Status) error                   { return nil }
func (noJobs) Cancel(context.Context, string) (ids []string, n int, e error) { return nil, 0, nil }

// Kind is a launcher with what commands offer for it.
type Kind struct {
	Launcher
	Name     string // value of launcher.type
	Stays    Stays
	Manifest bool   // it writes a manifest (--manifest)
	Flags    []Flag // for its keys
	Receipt  any    // zero value of [Receipt.JSON]; nil = there is none
}

// Kinds are all launchers.
var Kinds = []Kind{localKind, slurmKind, kubernetesKind}

// Stays is when a command stays until the runs have ended.
type Stays int

// When a command stays.
const (
	Never Stays = iota
	WithWait
	Always
)

// Flag is a flag for a key of the section launcher. A list of lines has a repeatable flag and no Type.
type Flag struct{ Name, Key, Type, Usage string }

// Options say how a command trains its runs.
type Options struct {
	sweep.Options // of runs on this machine; Version, Disk and Now count everywhere
	Observer      Observer
	Note          func(string) // of a submission
	Print         func(string) // a line about the progress
	Wait          bool         // stay, where that has to be asked for
	Manifest      string       // file; empty = standard output
	Continued     bool         // a job of a study calls it: submit no run again that was submitted
	Args, Env     []string     // of this process
}

// Observer shows the progress of runs. Part is called before the runs of part i of a study.
type Observer interface {
	sweep.Observer
	Part(i int, about string)
}

// Job is what a command trains: a sweep, or a study of several. Both were found in their folder
// ([sweep.Locate], [sweep.Study.Find]).
type Job struct {
	Dir   string
	Sweep *sweep.Located // or
	Study *sweep.Study
	Options
	reports []*report.Report // of each part; nil if it has not started
	files   []string         // of these reports
}

// Receipt is what a launcher has handed over.
type Receipt struct {
	Pending bool   // there are runs to wait for
	Short   string // one line, for a command that stays; or empty
	Text    string // for standard output
	Aside   string // for standard error
	JSON    any    // in place of Text
}

// Outcome is what a command shows at its end: the receipt, or the report on a sweep or a study.
type Outcome struct {
	Receipt *Receipt
	Sweep   *report.Report
	Study   *report.StudyReport
	Files   []string // written
	Stayed  bool     // until the runs had ended
}

// Run trains what is missing, or hands it over, and reports if the runs have ended.
func Run(ctx context.Context, j *Job) (*Outcome, error) {
	out := &Outcome{}
	k := j.Kind()
	if err := k.Check(ctx, j); err != nil {
		return out, err
	}
	j.reports = make([]*report.Report, j.parts())
	if j.Study != nil {
		j.Print("study folder " + j.Dir)
	} else {
		j.Print("sweep folder " + j.Dir)
		if text := j.Sweep.AddedText(); text != "" {
			j.Print("note: " + text)
		}
	}
	receipt, err := k.Submit(ctx, j)
	if err != nil {
		out.Receipt = receipt
		return out, err
	}
	ended := true
	switch {
	case !receipt.Pending:
		err = j.reportAll()
	case k.Stays == Always || j.Wait:
		if receipt.Short != "" {
			j.Print(receipt.Short)
		}
		out.Stayed = true
		ended, err = k.Wait(ctx, j)
	default:
		ended, out.Receipt = false, receipt
	}
	if !ended {
		return out, err
	}
	return out, errors.Join(err, j.finish(out))
}

// finish adds the reports to the outcome, and writes the study's over those of its parts.
func (j *Job) finish(out *Outcome) error {
	out.Sweep, out.Files = j.reports[0], j.files
	if j.Study == nil {
		return nil
	}
	st, err := sweepdir.ReadStudy(j.Dir)
	if err != nil {
		return err
	}
	if out.Study, err = report.WriteStudyReport(j.Dir, st, j.reports); err != nil {
		return err
	}
	out.Files = append(out.Files, out.Study.Files...)
	return nil
}

// reportAll reports every part whose folder exists, when there is nothing to wait for. A run without a
// result has failed then.
func (j *Job) reportAll() error {
	unfinished := 0
	for i := range j.parts() {
		sw, err := j.open(i)
		if err != nil {
			return err
		}
		if sw == nil {
			continue
		}
		if err := j.report(i, sw); err != nil {
			return err
		}
		unfinished += sw.Unfinished()
	}
	if unfinished == 0 {
		return nil
	}
	return fmt.Errorf("%s failed (grpo status shows why)", textutil.Count(unfinished, "run"))
}

// Settings returns the section launcher of the configuration.
func (j *Job) Settings() config.Launcher {
	if j.Study != nil {
		return j.Study.Parts[0].Launcher
	}
	return j.Sweep.Launcher
}

// Kind is the launcher of the job.
func (j *Job) Kind() Kind {
	i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == j.Settings().Type })
	return Kinds[i] // a test compares the names with the types of the configuration
}

// parts is the number of sweeps.
func (j *Job) parts() int {
	if j.Study != nil {
		return len(j.Study.Parts)
	}
	return 1
}

// part locates sweep i. Parts of a study that wait for a learning rate need [Job.chooseRate] before.
func (j *Job) part(i int) (*sweep.Located, error) {
	if j.Study != nil {
		return j.Study.Part(i)
	}
	return j.Sweep, nil
}

// Located returns all sweeps, as they would be in their folders, and refuses those without room for
// their runs on this machine.
func (j *Job) Located() (parts []*sweep.Located, err error) {
	parts = []*sweep.Located{j.Sweep}
	if j.Study != nil {
		if parts, err = j.Study.Located(); err != nil {
			return nil, err
		}
	}
	return parts, sweep.CheckRoom(j.Dir, parts, j.Options.Options)
}

// open reads sweep i; nil if it has not started.
func (j *Job) open(i int) (*sweepdir.Sweep, error) {
	if j.Study != nil {
		return sweepdir.OpenPart(j.Dir, j.Study.Manifest.Parts[i])
	}
	return sweepdir.Open(j.Dir)
}

// report writes the report on sweep i.
func (j *Job) report(i int, sw *sweepdir.Sweep) error {
	a, paths, err := report.WriteSweep(sw.Dir, sw, report.Output{})
	j.reports[i] = a
	for _, p := range paths {
		if !slices.Contains(j.files, p) { // a report may be written again
			j.files = append(j.files, p)
		}
	}
	return err
}

// chooseRate plans the parts of a study with the best learning rate of the first part, which has a
// report.
func (j *Job) chooseRate(note func(string)) error {
	best := func() (rate, why string, err error) { return j.reports[0].BestValue(analysis.RateKey) }
	return j.Study.ChooseRate(best, note)
}

// chooseRateOfFolder is [Job.chooseRate] after a report on the first part, whose runs have ended.
func (j *Job) chooseRateOfFolder() error {
	sw, err := j.open(0)
	if err != nil {
		return err
	}
	if err := j.report(0, sw); err != nil {
		return err
	}
	return j.chooseRate(j.Note)
}

// elsewhere are the options of a scan for runs that this process does not train.
func (j *Job) elsewhere(queued func(context.Context, string) (map[int]bool, error)) sweep.Options {
	return sweep.Options{
		Version: j.Version, Revision: j.Revision, Observer: sweep.Notes(j.Note), Now: j.Now, Queued: queued,
	}
}

// Busy returns the runs in the folder of a sweep that any launcher has queued or runs, by their index.
func Busy(ctx context.Context, dir string) (map[int]bool, error) {
	out := map[int]bool{}
	for _, k := range Kinds {
		busy, err := k.Busy(ctx, dir)
		if err != nil {
			return nil, err
		}
		maps.Copy(out, busy)
	}
	return out, nil
}

// ReadStatus is [sweep.ReadStatus] with what the launchers know of jobs.
func ReadStatus(ctx context.Context, dir string, now time.Time) (*sweep.Status, error) {
	return sweep.ReadStatus(dir, now, func(s *sweep.Status) error {
		for _, k := range Kinds {
			if err := k.Status(ctx, s); err != nil {
				return err
			}
		}
		return nil
	})
}

// Cancel cancels the jobs of a sweep or a study that are still in a queue, and returns their ids.
// submitted counts all jobs that there ever were.
func Cancel(ctx context.Context, dir string) (ids []string, submitted int, err error) {
	if !sweepdir.IsSweep(dir) && !sweepdir.IsStudy(dir) {
		return nil, 0, fmt.Errorf("%w: cancel jobs: %s is not the folder of a sweep or a study", config.ErrConfig, dir)
	}
	for _, k := range Kinds {
		of, n, err := k.Cancel(ctx, dir)
		if err != nil {
			return ids, submitted, fmt.Errorf("cancel the jobs of %s: %w", dir, err)
		}
		ids, submitted = append(ids, of...), submitted+n
	}
	return ids, submitted, nil
}
