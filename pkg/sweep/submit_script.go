package sweep

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep/slurm"
	"grpo/pkg/sweepdir"
	"grpo/pkg/train"
)

// scripts are the job of the runs and the one that reports, without arrays and dependencies.
type scripts struct{ task, report slurm.Script }

// scripts proposes time and memory of these runs.
func (p *Located) scripts(ctx context.Context, entries []sweepdir.Entry, opts SubmitOptions) (scripts, error) {
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

// Scripts returns the jobs that [Located.Submit] would submit now. It writes nothing; job ids that
// only Slurm knows are JOBID.
func (p *Located) Scripts(ctx context.Context, opts SubmitOptions) ([]slurm.Script, error) {
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
	var entries []sweepdir.Entry
	for _, e := range p.Manifest.Runs {
		state := sweepdir.StateOf(p.Dir, e).State
		if sweepdir.Ended(state) || state == rundir.StateRunning || busy[e.Index] || copies[e.Hash].path != "" {
			continue
		}
		todo, entries = append(todo, e.Index), append(entries, e)
	}
	if len(todo) == 0 {
		return nil, nil
	}
	sc, err := p.scripts(ctx, entries, opts)
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
