package launch

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
	"grpo/pkg/sweep/slurm"
	"grpo/pkg/sweepdir"
)

var slurmKind = Kind{
	Launcher: slurmLauncher{slurm.Commands}, Name: "slurm", Stays: WithWait, Receipt: submission{},
	Flags: []Flag{
		{"time", "launcher.time", "TIME", "Slurm: time limit of one run, such as 2:30:00"},
		{"partition", "launcher.partition", "NAME", "Slurm: partition"},
		{"account", "launcher.account", "NAME", "Slurm: account to charge"},
		{"qos", "launcher.qos", "NAME", "Slurm: quality of service"},
		{"gres", "launcher.gres", "LIST", "Slurm: generic resources of one run, such as gpu:1"},
		{"exclude", "launcher.exclude", "NODES", "Slurm: nodes to avoid"},
		{"setup", "launcher.setup", "", "Slurm: shell `LINE` before the program (repeatable)"},
		{"directive", "launcher.directives", "", "Slurm: `OPTION` of sbatch, such as --constraint=avx512 (repeatable)"},
	},
}

// slurmLauncher submits array jobs.
//
// A study is submitted in stages: first the runs that need nothing, then, by a job that repeats the
// command when these have ended, those that need the learning rate or copy a run of an earlier
// stage. Each stage continues from what is in the folder, so any of them can be repeated.
type slurmLauncher struct{ run slurm.Exec }

// Check implements [Launcher].
func (l slurmLauncher) Check(ctx context.Context, j *Job) error {
	if strings.Contains(j.Dir, `\`) {
		return fmt.Errorf("%w: %s: Slurm takes no backslash in the path of a log; give another --out",
			config.ErrConfig, j.Dir)
	}
	if _, err := l.run(ctx, "", "sbatch", "--version"); err != nil {
		return fmt.Errorf("submit the runs: %w", err)
	}
	return nil
}

// submission is what a submission prints.
type submission struct {
	Dir      string   `json:"dir"`
	Jobs     []string `json:"jobs"`   // new arrays
	Report   string   `json:"report"` // the job that reports, or continues a study
	Runs     int      `json:"submitted"`
	Finished int      `json:"finished"`
	Busy     int      `json:"queued_or_running"` // before
	Failed   int      `json:"failed"`            // not submitted
}

// submitted is a submission while it is made.
type submitted struct {
	submission
	program  program
	inFlight map[string]bool // hashes of the runs that are queued or running now
	after    []string        // jobs of the runs in flight
	stages   bool            // a job submits more runs later
}

// interrupted returns an error if ctx has ended, between two commands of Slurm.
func (s *submitted) interrupted(ctx context.Context) error {
	switch {
	case ctx.Err() == nil:
		return nil
	case s.Runs == 0:
		return fmt.Errorf("submit the runs: %w", rundir.ErrNothingSaved)
	}
	return fmt.Errorf("%w: %s submitted; the same command submits the rest", rundir.ErrInterrupted,
		textutil.Count(s.Runs, "run"))
}

// program is the running program as the jobs call it.
type program struct {
	path, dir string // dir is the working directory
	sweepdir.Program
}

func findProgram(version string) (p program, err error) {
	p.path, err = os.Executable()
	if err == nil {
		_, err = os.Stat(p.path) // it may have been replaced while it runs
	}
	if err == nil {
		p.Program, err = slurm.ThisProgram(version)
	}
	if err == nil {
		p.dir, err = os.Getwd()
	}
	if err != nil {
		err = fmt.Errorf("find this program for the jobs: %w", err)
	}
	return p, err
}

// Submit implements [Launcher]: it submits those runs that are not finished, not queued and not
// running, one array for each sweep, or several where the indices exceed the cluster's MaxArraySize,
// and a job that reports afterwards or continues the study.
//
// Errors: those of [sweep.Prepare]; [*slurm.Error] if a command of Slurm is missing or fails. What
// was submitted before the error is recorded.
func (l slurmLauncher) Submit(ctx context.Context, j *Job) (*Receipt, error) {
	s := &submitted{submission: submission{Dir: j.Dir, Jobs: []string{}}, inFlight: map[string]bool{}}
	var err error
	if s.program, err = findProgram(j.Version); err != nil {
		return nil, err
	}
	if j.Study == nil {
		err = l.submitPart(ctx, j, j.Sweep, s, nil)
	} else {
		err = l.submitStudy(ctx, j, s)
	}
	if err != nil && s.Runs == 0 {
		return nil, err
	}
	return s.receipt(), err
}

func (l slurmLauncher) submitStudy(ctx context.Context, j *Job, s *submitted) error {
	if err := j.Study.Prepare(); err != nil {
		return err
	}
	var earlier []string // sweeps of the study
	var noRate error
	for i, about := range j.Study.Manifest.Parts {
		if i == 1 && j.Study.Waits() {
			if len(s.inFlight) > 0 {
				s.stages = true
				break
			}
			noRate = j.chooseRateOfFolder()
		}
		if j.Study.PartWaits(i) {
			continue
		}
		part, err := j.part(i)
		if err != nil {
			return err
		}
		if err := l.submitPart(ctx, j, part, s, earlier); err != nil {
			return fmt.Errorf("part %s: %w", about.Name, err)
		}
		earlier = append(earlier, part.Dir)
	}
	if len(s.inFlight) == 0 {
		return noRate
	}
	if noRate != nil {
		j.Note(noRate.Error())
	}
	return sweep.Claimed(j.Dir, rundir.KindStudy, func() error { return l.follow(ctx, j, s) })
}

// submitPart submits the runs of a sweep, whose folder is claimed meanwhile, so that two submissions
// never submit the same run.
func (l slurmLauncher) submitPart(ctx context.Context, j *Job, p *sweep.Located, s *submitted, earlier []string) error {
	room := sweep.Options{Jobs: p.Launcher.Parallelism, Disk: j.Disk} // the memory is another machine's
	if err := sweep.CheckRoom(p.Dir, []*sweep.Located{p}, room); err != nil {
		return err
	}
	opts := j.elsewhere(nil)
	opts.StudySweeps = earlier
	for {
		found, err := p.Scan(ctx, opts)
		if err != nil {
			return err
		}
		task, err := l.script(ctx, j, p, found.Waiting, s.program)
		if err = cmp.Or(err, s.interrupted(ctx)); err != nil {
			return err
		}
		before := *s
		s.Finished, s.Failed = s.Finished+found.Finished, s.Failed+found.Failed
		gaveUp := map[int]bool{}
		err = sweep.Claimed(p.Dir, rundir.KindSweep, func() error {
			q, err := slurm.PatientQueue(ctx, p.Dir, l.run)
			if err != nil {
				return fmt.Errorf("find out which runs are queued: %w; nothing was submitted", err)
			}
			return l.submitMissing(ctx, j, p, found.Waiting, q, task, s, gaveUp)
		})
		if err != nil || p.Manifest.NextLook() < 0 {
			return err
		}
		// The runs up to the next look may have ended: then those of the look after it are submitted.
		taken, err := p.TakeLook(gaveUp, j.Note)
		if err != nil {
			return err
		}
		if !taken {
			s.stages = true
			return nil
		}
		s.Finished, s.Failed = before.Finished, before.Failed
	}
}

// script is the job of these runs, not yet an array. It proposes their time and memory.
func (l slurmLauncher) script(
	ctx context.Context, j *Job, p *sweep.Located, entries []sweepdir.Entry, program program,
) (slurm.Script, error) {
	need := p.Needs(entries)
	if need.Time == 0 && len(entries) > 0 {
		var err error
		if need.Time, err = p.ProposedTime(ctx, entries, need.CPUs, j.Memory, j.Now); err != nil {
			j.Note(fmt.Sprintf("no time limit is set, because the first steps could not be measured here (%v); "+
				"--time sets one", err))
		}
	}
	dir, err := filepath.Abs(p.Dir)
	if err != nil {
		return slurm.Script{}, fmt.Errorf("submit the runs: %w", err)
	}
	return slurm.Script{
		Name: "grpo-" + p.Manifest.Hash, Comment: p.Manifest.Hash, Dir: program.dir, Settings: p.Launcher,
		Log: filepath.Join(slurm.LogFolder(dir), "%A_%a.log"), Signal: true,
		CPUs: need.CPUs, Memory: need.Memory, Time: need.Time,
		Command: []string{program.path, "task", "--sweep", dir},
	}, nil
}

// submitMissing submits the runs of these entries that are still missing. It notes those that have failed, and
// are not submitted again, in gaveUp.
func (l slurmLauncher) submitMissing(
	ctx context.Context, j *Job, p *sweep.Located, entries []sweepdir.Entry, q *slurm.Queue, task slurm.Script,
	s *submitted, gaveUp map[int]bool,
) error {
	busy := q.Busy()
	var todo []int
	var stuck []string // jobs that the new ones replace
	inFlight := func(e sweepdir.Entry) { s.inFlight[e.Hash] = true }
	for _, e := range entries {
		switch state := sweepdir.StateOf(p.Dir, e); {
		case state.Finished():
			s.Finished++
		case busy[e.Index] || state.State == rundir.StateRunning:
			s.Busy++
			inFlight(e)
		case s.inFlight[e.Hash]: // of an earlier part: the next stage copies it
			s.stages = true
		case j.Continued && q.Last(e.Index) != nil:
			s.Failed++
			gaveUp[e.Index] = true
		default:
			todo = append(todo, e.Index)
			if t := q.Task(e.Index); t != nil && t.LaunchFailed() {
				stuck = append(stuck, t.ID)
			}
		}
	}
	alive, continuing := aliveOf(j, q)
	s.after = append(s.after, alive...)
	if len(todo) == 0 {
		if j.Study == nil && len(busy) > 0 && len(continuing) == 0 && p.Manifest.NextLook() >= 0 {
			return l.submitLast(ctx, j, p, task, s, nil) // in place of a job that was refused, or is lost
		}
		return nil
	}
	if err := l.recordProgram(p.Dir, s.program, j.Note); err != nil {
		return err
	}
	if failed := q.FailedNodes(); len(failed) > 0 {
		list := strings.Join(failed, ",")
		j.Note(fmt.Sprintf("node %s failed and is left out (--exclude)", list))
		task.Settings.Exclude = strings.TrimPrefix(task.Settings.Exclude+","+list, ",")
	}
	if _, err := rundir.Subfolder(p.Dir, slurm.Dir); err != nil { // for the logs: Slurm makes no folder
		return fmt.Errorf("make the folder of the logs: %w", err)
	}
	var record slurm.Submission
	var jobs []string
	left := len(todo)
	for _, a := range task.Arrays(todo, slurm.MaxArraySize(ctx, l.run), p.Launcher.Parallelism) {
		if p.Launcher.Parallelism > 0 && len(jobs) > 0 { // each array has the limit, so they run one after the other
			a.After = jobs[len(jobs)-1:]
		}
		if err := s.interrupted(ctx); err != nil {
			return err
		}
		id, err := slurm.Submit(ctx, l.run, a.Script)
		if err != nil {
			return fmt.Errorf("submit %s: %w; %s", textutil.Count(left, "run"), err, slurm.Hint(err))
		}
		record = l.record(id, a.Script, s.program, j.Now())
		record.Indices, record.Offset = a.Indices, a.Offset
		if err := record.Write(p.Dir); err != nil {
			return fmt.Errorf("%w (job %s was submitted: scancel %s)", err, id, id)
		}
		jobs, s.Jobs, s.after = append(jobs, id), append(s.Jobs, id), append(s.after, id)
		s.Runs, left = s.Runs+len(a.Indices), left-len(a.Indices)
		for _, i := range a.Indices {
			inFlight(p.Manifest.Runs[i])
		}
	}
	l.replaceStuck(ctx, stuck, j.Note)
	if j.Study != nil {
		return nil // [slurmLauncher.follow] submits one report of all parts
	}
	return l.submitLast(ctx, j, p, task, s, &record)
}

// submitLast submits the job that reports a sweep, or takes the look, after its jobs. arrays is the record of the
// last array, which gets the report's id.
func (l slurmLauncher) submitLast(
	ctx context.Context, j *Job, p *sweep.Located, task slurm.Script, s *submitted, arrays *slurm.Submission,
) error {
	last, continues := l.last(j, p, task, s.program)
	last.After = slices.Compact(slices.Sorted(slices.Values(s.after)))
	id, err := slurm.Submit(ctx, l.run, last)
	switch {
	case err != nil && continues:
		j.Note(fmt.Sprintf("the job that takes the look and submits the runs after it was not submitted (%v): the same "+
			"command submits it, or takes the look when these runs have ended", err))
		return nil
	case err != nil:
		j.Note(fmt.Sprintf("the report was not submitted (%v): run grpo report %s at the end", err,
			textutil.CommandLine([]string{p.Dir})))
		return nil
	}
	s.Report = id
	if !continues {
		arrays.Report = id
		return arrays.Write(p.Dir)
	}
	s.stages = true
	record := l.record(id, last, s.program, j.Now())
	record.Continues = true
	return record.Write(p.Dir)
}

// aliveOf are the jobs of a folder that are in the queue, and those of them that continue it, without the job that
// this command is.
func aliveOf(j *Job, q *slurm.Queue) (ids, continuing []string) {
	ids, continuing = q.Alive()
	if self := slurm.JobOf(j.Env); self != nil {
		isSelf := func(id string) bool { return id == self.ID }
		ids, continuing = slices.DeleteFunc(ids, isSelf), slices.DeleteFunc(continuing, isSelf)
	}
	return ids, continuing
}

// last is the job that reports a sweep after its runs, or takes the look and continues it. It repeats the command of
// now: the one that made the folder may have trained on another machine.
func (slurmLauncher) last(j *Job, p *sweep.Located, task slurm.Script, program program) (s slurm.Script, continues bool) {
	dir := task.Command[3]
	args := []string{"report", dir}
	if continues = j.Study == nil && p.Manifest.NextLook() >= 0; continues {
		args = append(sweep.ContinueArgs("sweep", j.Args, dir)[1:], "--continued")
	}
	return task.Report(slurm.LogFolder(dir), program.path, args...), continues
}

// follow submits the job that continues or reports the study after its jobs, in place of an earlier
// one.
func (l slurmLauncher) follow(ctx context.Context, j *Job, s *submitted) error {
	q, err := slurm.PatientQueue(ctx, j.Dir, l.run)
	if err != nil {
		return fmt.Errorf("find out which jobs are queued: %w", err)
	}
	old, _ := aliveOf(j, q)
	if len(old) > 0 {
		if s.Runs == 0 {
			return nil
		}
		if err := slurm.Cancel(ctx, l.run, old); err != nil {
			return fmt.Errorf("replace the job that continues the study: %w", err)
		}
	}
	dir, err := filepath.Abs(j.Dir)
	if err != nil {
		return err
	}
	if _, err := rundir.Subfolder(j.Dir, slurm.Dir); err != nil {
		return fmt.Errorf("make the folder of the logs: %w", err)
	}
	args := []string{"report", dir}
	if s.stages {
		args = append(sweep.ContinueArgs("study", j.Study.Argv(), j.Dir)[1:], "--continued")
	}
	hash := j.Study.Manifest.Hash
	base := slurm.Script{Name: "grpo-" + hash, Comment: hash, Dir: s.program.dir, Settings: j.Settings()}
	script := base.Report(slurm.LogFolder(dir), s.program.path, args...)
	slices.Sort(s.after)
	script.After = slices.Compact(s.after)
	if s.Report, err = slurm.Submit(ctx, l.run, script); err != nil {
		return fmt.Errorf("submit the job that continues the study: %w; the same command does it later", err)
	}
	record := l.record(s.Report, script, s.program, j.Now())
	record.Continues = s.stages
	return record.Write(j.Dir)
}

// record is about a script that was submitted as this job.
func (slurmLauncher) record(job string, s slurm.Script, p program, now time.Time) slurm.Submission {
	return slurm.Submission{
		Job: job, Comment: s.Comment, Indices: []int{}, Time: now.UTC().Format(time.RFC3339), Program: p.path,
		Version: p.Version, SHA256: p.SHA256, Exclude: s.Settings.Exclude, Command: append([]string{"sbatch"}, s.Args()...),
	}
}

// recordProgram writes into the manifest with which program the runs are trained, for [slurm.Job.Task].
func (slurmLauncher) recordProgram(dir string, now program, note func(string)) error {
	m, err := sweepdir.ReadManifest(dir)
	if err != nil {
		return err
	}
	if m.Program != nil {
		if *m.Program == now.Program {
			return nil
		}
		note(fmt.Sprintf("the earlier runs were submitted with another build of grpo (%s, SHA-256 %.8s; now %s, %.8s)",
			m.Program.Version, m.Program.SHA256, now.Version, now.SHA256))
	}
	m.Program = &now.Program
	return sweepdir.WriteManifest(dir, m)
}

// replaceStuck cancels jobs that their nodes could not start, after their runs were submitted again.
func (l slurmLauncher) replaceStuck(ctx context.Context, ids []string, note func(string)) {
	if len(ids) == 0 {
		return
	}
	text := fmt.Sprintf("a node could not start %s of these runs, which Slurm holds: new ones replace them",
		textutil.Count(len(ids), "job"))
	if err := slurm.Cancel(ctx, l.run, ids); err != nil {
		text += fmt.Sprintf(", but they could not be cancelled (%v): %s", err,
			textutil.CommandLine(append([]string{"scancel"}, ids...)))
	}
	note(text)
}

// receipt describes the submission, and what to type next.
func (s *submitted) receipt() *Receipt {
	out := &Receipt{Pending: len(s.inFlight) > 0, JSON: s.submission}
	text := "nothing to submit"
	if s.Runs > 0 {
		out.Short = fmt.Sprintf("submitted %s as job %s", textutil.Count(s.Runs, "run"), strings.Join(s.Jobs, ", "))
		text = out.Short
	}
	for _, c := range []struct {
		n    int
		what string
	}{{s.Finished, "finished"}, {s.Busy, "already queued or running"}, {s.Failed, "failed"}} {
		if c.n > 0 {
			text += fmt.Sprintf("; %d %s", c.n, c.what)
		}
	}
	switch {
	case s.Report != "" && s.stages:
		text += fmt.Sprintf("; job %s submits the next runs after these", s.Report)
	case s.Report != "":
		text += fmt.Sprintf("; job %s reports after them", s.Report)
	}
	dir := textutil.CommandLine([]string{s.Dir})
	out.Text = textutil.Text(text + fmt.Sprintf(`
grpo status %[1]s     progress of each run
grpo report %[1]s     tables and figures, finished or not
grpo cancel %[1]s     cancel the jobs
squeue --me%[2]s     all your jobs
`, dir, strings.Repeat(" ", len(dir)+1)))
	return out
}
