package sweep

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
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
	Failed   int      // have no valid configuration, or were tried (with Untried)
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
	if err := Prepare(p.Dir, p.Plan); err != nil {
		return nil, err
	}
	s, err := sweepdir.Open(p.Dir)
	if err != nil {
		return nil, err
	}
	r := &runner{dir: p.Dir, arms: s.Manifest.Arms, opts: Options{
		Observer: notes(opts.Note), StudySweeps: opts.StudySweeps, Siblings: p.Siblings, Version: opts.Program.Version,
	}}
	r.scan(s)
	r.reuseRuns()
	scripts, err := p.scripts(ctx, r, opts)
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

// notes is the observer of a submission.
type notes func(string)

// Event implements [Observer].
func (notes) Event(Event) {}

// Note implements [Observer].
func (n notes) Note(text string) { n(text) }

// scripts are the job of the runs and the one that reports, without arrays and dependencies.
type scripts struct{ task, report slurm.Script }

// scripts proposes time and memory of the waiting runs.
func (p *Located) scripts(ctx context.Context, r *runner, opts SubmitOptions) (scripts, error) {
	var entries []sweepdir.Entry
	for _, j := range r.in(waiting) {
		entries = append(entries, j.entry)
	}
	need := p.Resources(ctx, entries, opts.Now, opts.Note)
	if err := ctx.Err(); err != nil {
		return scripts{}, fmt.Errorf("submit the runs: %w", train.ErrNothingSaved)
	}
	dir, err := filepath.Abs(p.Dir)
	if err != nil {
		return scripts{}, fmt.Errorf("submit the runs: %w", err)
	}
	log := strings.ReplaceAll(filepath.Join(dir, SlurmDir), "%", "%%")
	base := slurm.Script{Name: "grpo-" + p.Manifest.Hash, Comment: p.Manifest.Hash, Dir: opts.Dir, Settings: p.Launcher}
	task := base
	task.Log, task.Signal = filepath.Join(log, "%A_%a.log"), true
	task.CPUs, task.Memory, task.Time = need.CPUs, need.Memory, need.Time
	task.Command = []string{opts.Path, "task", "--sweep", dir}
	return scripts{task, reportScript(base, log, opts.Path, "report", dir)}, nil
}

// reportScript is a short job of one core, without the generic resources of a run.
func reportScript(base slurm.Script, log, program string, args ...string) slurm.Script {
	const memory, limit = 2 << 30, 30 * time.Minute
	base.Name += "-report"
	base.Log, base.CPUs, base.Memory, base.Time = filepath.Join(log, "%j.log"), 1, memory, limit
	base.Settings.GRES, base.Settings.Exclude = "", ""
	base.Settings.Directives = slices.DeleteFunc(slices.Clone(base.Settings.Directives), isAmount)
	if given, err := config.ParseTime(base.Settings.Time); err == nil && given > 0 {
		base.Time = min(limit, given)
	}
	base.Command = append([]string{program}, args...)
	return base
}

// isAmount says whether a directive asks for more of something than a report needs.
func isAmount(directive string) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(directive, "-"), "=")
	name, _, _ = strings.Cut(name, " ")
	return strings.HasPrefix(name, "gpu") || slices.Contains([]string{
		"G", "N", "n", "c", "t", "gres", "mem", "mem-per-cpu", "mem-per-gpu", "cpus-per-task", "cpus-per-gpu", "nodes",
		"ntasks", "exclusive", "time", "time-min", "signal", "array", "a", "output", "o", "error", "e",
	}, name)
}

// submit runs under the claim of the sweep's folder.
func (p *Located) submit(ctx context.Context, r *runner, sc scripts, opts SubmitOptions) (*Submitted, error) {
	q, err := patientQueue(ctx, p.Dir, opts.Exec)
	if err != nil {
		return nil, fmt.Errorf("find out which runs are queued: %w; nothing was submitted", err)
	}
	out := &Submitted{queue: q, Finished: len(r.in(finished)), Failed: len(r.in(failed))}
	busy := q.Busy()
	var todo []int
	for _, j := range r.in(waiting) {
		i := j.entry.Index
		switch state := sweepdir.StateOf(p.Dir, j.entry); {
		case isFinished(state):
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
	record := Submission{
		Comment: sc.task.Comment, Time: opts.Now().UTC().Format(time.RFC3339), Program: opts.Path, Version: opts.Program.Version,
		SHA256: opts.Program.SHA256, Exclude: sc.task.Settings.Exclude,
	}
	for _, c := range chunks(todo, slurm.MaxArraySize(ctx, opts.Exec)) {
		s := forRuns(sc.task, c, limit)
		if limit > 0 && len(out.Jobs) > 0 { // each array has the limit, so they run one after the other
			s.After = out.Jobs[len(out.Jobs)-1:]
		}
		id, err := slurm.Submit(ctx, opts.Exec, s)
		if err != nil {
			return out, refused(err, len(todo)-out.Runs)
		}
		record.Job, record.Indices, record.Offset = id, c.indices, c.offset
		record.Command = append([]string{"sbatch"}, s.Args()...)
		if err := record.write(p.Dir); err != nil {
			return out, fmt.Errorf("%w (job %s was submitted: scancel %s)", err, id, id)
		}
		out.Jobs = append(out.Jobs, id)
		out.Runs += len(c.indices)
		out.inFlight = append(out.inFlight, c.indices...)
	}
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

// chunk are runs of one array.
type chunk struct {
	indices []int
	offset  int
}

// chunks divides runs into arrays whose task numbers are below the cluster's limit.
func chunks(indices []int, limit int) (out []chunk) {
	for _, i := range slices.Sorted(slices.Values(indices)) {
		offset := i / limit * limit
		if len(out) == 0 || out[len(out)-1].offset != offset {
			out = append(out, chunk{offset: offset})
		}
		last := &out[len(out)-1]
		last.indices = append(last.indices, i)
	}
	return out
}

// forRuns completes the job of the runs of a chunk.
func forRuns(s slurm.Script, c chunk, limit int) slurm.Script {
	tasks := make([]int, len(c.indices))
	for i, index := range c.indices {
		tasks[i] = index - c.offset
	}
	s.Array = slurm.Indices(tasks, limit)
	index := `"$SLURM_ARRAY_TASK_ID"`
	if c.offset > 0 {
		index = `"$((SLURM_ARRAY_TASK_ID + ` + strconv.Itoa(c.offset) + `))"`
	}
	s.Rest = " --index " + index + ` --threads "$SLURM_CPUS_PER_TASK"`
	return s
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

// Scripts returns the jobs that [Located.Submit] would submit now. It writes nothing; job ids that
// only Slurm knows are JOBID.
func (p *Located) Scripts(ctx context.Context, opts SubmitOptions) ([]slurm.Script, error) {
	r := &runner{dir: p.Dir}
	busy := map[int]bool{}
	if q, err := ReadQueue(ctx, p.Dir, opts.Exec); q != nil {
		if err != nil {
			opts.Note(fmt.Sprintf("runs that are queued are not known: %v", err))
		}
		busy = q.Busy()
	}
	reuse := Options{Siblings: p.Siblings, Version: opts.Program.Version}
	copies := findReusable(p.Dir, p.Manifest.Runs, reuse, func(string, ...any) {})
	var todo []int
	for _, e := range p.Manifest.Runs {
		state := sweepdir.StateOf(p.Dir, e).State
		if e.Config == "" || isResult(state) || state == rundir.StateRunning || busy[e.Index] || copies[e.Hash].path != "" {
			continue
		}
		todo = append(todo, e.Index)
		r.jobs = append(r.jobs, &job{entry: e})
	}
	if len(todo) == 0 {
		return nil, nil
	}
	sc, err := p.scripts(ctx, r, opts)
	if err != nil {
		return nil, err
	}
	var out []slurm.Script
	for _, c := range chunks(todo, slurm.MaxArraySize(ctx, opts.Exec)) {
		s := forRuns(sc.task, c, p.Launcher.Parallelism)
		if p.Launcher.Parallelism > 0 && len(out) > 0 {
			s.After = []string{"JOBID"}
		}
		out = append(out, s)
		sc.report.After = append(sc.report.After, "JOBID")
	}
	return append(out, sc.report), nil
}
