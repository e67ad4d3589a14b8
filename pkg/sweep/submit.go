package sweep

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep/slurm"
	"grpo/pkg/sweepdir"
	"grpo/pkg/train"
)

// SubmitOptions say how runs are submitted to Slurm.
type SubmitOptions struct {
	Exec    slurm.Exec
	Path    string // of the program, as the nodes see it
	Program sweepdir.Program
	Dir     string // working directory of the jobs
	Note    func(string)
	Now     func() time.Time
	Disk    train.DiskCheck
	// Finished runs are copied as by [Options].
	StudySweeps []string
	// Untried submits only runs that were never submitted before.
	Untried bool
	// Later are runs (by the hash of their configuration) that are not submitted yet.
	Later map[string]bool
	// NoReport submits no job that reports afterwards.
	NoReport bool
}

// Submitted is what [Located.Submit] did.
type Submitted struct {
	Jobs     []string // ids of the new arrays
	Report   string   // id of the job that reports after them
	Runs     int      // submitted now
	Finished int      // have their result
	Busy     int      // were queued or running before
	Later    int      // left to a later submission
	Failed   int      // can't be trained, or were tried (with Untried)
	queue    *Queue   // before the submission
	inFlight []int    // runs that are queued or running now
}

// Submit freezes the plan in its folder, or finds it there, copies the finished runs of other
// folders, and submits those runs that are not finished, not queued and not running: one array, or
// several where the indices exceed the cluster's MaxArraySize, and a job that reports afterwards.
// The sweep's folder is claimed meanwhile, so that two submissions never submit the same run.
//
// Errors: those of [Prepare]; [*slurm.Error] if a command of Slurm is missing or fails. What was
// submitted before the error is recorded.
func (p *Located) Submit(ctx context.Context, opts SubmitOptions) (*Submitted, error) {
	if strings.Contains(p.Dir, `\`) {
		return nil, fmt.Errorf("%w: %s: Slurm takes no backslash in the path of a log; give another --out", config.ErrConfig, p.Dir)
	}
	if _, err := opts.Exec(ctx, "", "sbatch", "--version"); err != nil {
		return nil, fmt.Errorf("submit the runs: %w", err)
	}
	if err := checkDisk(p.Dir, p.Manifest, p.Launcher.Parallelism, opts.Disk); err != nil {
		return nil, err
	}
	if err := p.Prepare(opts.Note); err != nil {
		return nil, err
	}
	s, err := sweepdir.Open(p.Dir)
	if err != nil {
		return nil, err
	}
	r := &runner{dir: p.Dir, manifest: s.Manifest, opts: Options{
		Observer: Notes(opts.Note), StudySweeps: opts.StudySweeps, Siblings: p.Siblings, Version: opts.Program.Version,
	}}
	r.scan(s)
	r.reuseRuns()
	scripts, err := p.scripts(ctx, r.waitingEntries(), opts)
	if err != nil {
		return nil, err
	}
	unlock, err := claimFor(time.Minute, p.Dir, rundir.KindSweep, nil)
	if isLocked(err) {
		return nil, fmt.Errorf("submit the runs: %w (another command submits them now; run this one again later)", err)
	}
	if err != nil {
		return nil, err
	}
	out, err := p.submit(ctx, r, scripts, opts)
	return out, errors.Join(err, unlock())
}

// Notes is the observer of sweeps that are trained elsewhere: they have notes, and no events.
type Notes func(string)

// Event implements [Observer].
func (Notes) Event(Event) {}

// Note implements [Observer].
func (n Notes) Note(text string) { n(text) }

// submit runs under the claim of the sweep's folder.
func (p *Located) submit(ctx context.Context, r *runner, sc scripts, opts SubmitOptions) (*Submitted, error) {
	q, err := patientQueue(ctx, p.Dir, opts.Exec)
	if err != nil {
		return nil, fmt.Errorf("find out which runs are queued: %w; nothing was submitted", err)
	}
	out := &Submitted{queue: q, Finished: len(r.in(finished)), Failed: len(r.in(failed))}
	busy := q.Busy()
	var todo []int
	var stuck []string // jobs that the new ones replace
	for _, j := range r.in(waiting) {
		i := j.entry.Index
		switch state := sweepdir.StateOf(p.Dir, j.entry); {
		case state.Finished():
			out.Finished++
		case busy[i] || state.State == rundir.StateRunning:
			out.Busy++
			out.inFlight = append(out.inFlight, i)
		case opts.Later[j.entry.Hash]:
			out.Later++
		case opts.Untried && q.last(i) != nil:
			out.Failed++
		default:
			todo = append(todo, i)
			if t := q.Task(i); t != nil && t.LaunchFailed() {
				stuck = append(stuck, t.ID)
			}
		}
	}
	if len(todo) == 0 {
		return out, nil
	}
	if err := p.recordProgram(opts); err != nil {
		return out, err
	}
	sc.task.Settings.Exclude = p.exclude(q, opts.Note)
	if _, err := rundir.Subfolder(p.Dir, SlurmDir); err != nil { // for the logs: Slurm makes no folder
		return out, fmt.Errorf("make the folder of the logs: %w", err)
	}
	limit := p.Launcher.Parallelism
	var record Submission
	for _, c := range chunks(todo, slurm.MaxArraySize(ctx, opts.Exec)) {
		s := forRuns(sc.task, c, limit)
		if limit > 0 && len(out.Jobs) > 0 { // each array has the limit, so they run one after the other
			s.After = out.Jobs[len(out.Jobs)-1:]
		}
		id, err := slurm.Submit(ctx, opts.Exec, s)
		if err != nil {
			return out, refused(err, len(todo)-out.Runs)
		}
		record = opts.submission(id, s)
		record.Indices, record.Offset = c.indices, c.offset
		if err := record.write(p.Dir); err != nil {
			return out, fmt.Errorf("%w (job %s was submitted: scancel %s)", err, id, id)
		}
		out.Jobs = append(out.Jobs, id)
		out.Runs += len(c.indices)
		out.inFlight = append(out.inFlight, c.indices...)
	}
	replaceStuck(ctx, opts.Exec, stuck, opts.Note)
	if opts.NoReport {
		return out, nil
	}
	sc.report.After = out.Jobs
	if out.Report, err = slurm.Submit(ctx, opts.Exec, sc.report); err != nil {
		opts.Note(fmt.Sprintf("the report was not submitted (%v): run grpo report %s at the end", err,
			textutil.CommandLine([]string{p.Dir})))
		return out, nil
	}
	record.Report = out.Report
	return out, record.write(p.Dir)
}

// submission is the record of a script that was submitted as this job.
func (o SubmitOptions) submission(job string, s slurm.Script) Submission {
	return Submission{
		Job: job, Comment: s.Comment, Indices: []int{}, Time: o.Now().UTC().Format(time.RFC3339), Program: o.Path,
		Version: o.Program.Version, SHA256: o.Program.SHA256, Exclude: s.Settings.Exclude, Command: append([]string{"sbatch"}, s.Args()...),
	}
}

// refused explains the refusal of a job by the setting that it is about.
func refused(err error, runs int) error {
	hint := "see the settings of the section launcher"
	text := strings.ToLower(err.Error())
	for _, h := range []struct{ word, hint string }{
		{"partition", "set another partition: --partition, launcher.partition (sinfo lists them)"},
		{"account", "set your account: --account, launcher.account"},
		{"qos", "set another quality of service: --qos, launcher.qos"},
		{"memory", "ask for less memory: --memory, launcher.memory"},
		{"time limit", "ask for less time: --time, launcher.time"},
		{"gres", "set other resources: --gres, launcher.gres"},
		{"node configuration", "no node has so much: ask for less by --memory, --cpus or --gres"},
		{"cpu", "ask for fewer cores: --cpus, launcher.cpus"},
		{"node", "set other nodes: --exclude, launcher.exclude"},
		{"array", "the cluster limits the tasks of an array or of a user: submit again when some have ended"},
		{"limit", "the cluster limits your jobs: submit again when some have ended"},
	} {
		if strings.Contains(text, h.word) {
			hint = h.hint
			break
		}
	}
	return fmt.Errorf("submit %s: %w; %s", textutil.Count(runs, "run"), err, hint)
}

// exclude are the nodes to avoid: the user's, and those that failed.
func (p *Located) exclude(q *Queue, note func(string)) string {
	nodes := p.Launcher.Exclude
	if failed := q.failedNodes(); len(failed) > 0 {
		list := strings.Join(failed, ",")
		note(fmt.Sprintf("node %s failed and is left out (--exclude)", list))
		nodes = strings.TrimPrefix(nodes+","+list, ",")
	}
	return nodes
}

// recordProgram writes into the manifest with which program the runs are trained, for
// [SlurmJob.Check].
func (p *Located) recordProgram(opts SubmitOptions) error {
	m, err := sweepdir.ReadManifest(p.Dir)
	if err != nil {
		return err
	}
	if m.Program != nil {
		if *m.Program == opts.Program {
			return nil
		}
		opts.Note(fmt.Sprintf("the earlier runs were submitted with another build of grpo (%s, SHA-256 %.8s; now %s, %.8s)",
			m.Program.Version, m.Program.SHA256, opts.Program.Version, opts.Program.SHA256))
	}
	m.Program = &opts.Program
	return sweepdir.WriteManifest(p.Dir, m)
}

// patientQueue is [ReadQueue] that tries again: squeue fails now and then under load.
func patientQueue(ctx context.Context, dir string, run slurm.Exec) (q *Queue, err error) {
	for pause := 500 * time.Millisecond; ; pause *= 2 {
		if q, err = ReadQueue(ctx, dir, run); err == nil || slurm.IsMissing(err) || pause > 2*time.Second {
			return q, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return q, err
		}
	}
}
