package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/report"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
	"grpo/pkg/sweep/launch"
	"grpo/pkg/train"
)

// clusterKeys are the keys of every cluster with flags of their own, for sweep, ablate and assignment.
// A launcher has more ([launch.Kind.Flags]).
var clusterKeys = []keyFlag{
	{"launcher", "launcher.type", "TYPE", "where runs are trained: " + strings.Join(config.LauncherTypes(), ", ")},
	{"cpus", "launcher.cpus", "int", "cluster: cores of one run"},
	{"memory", "launcher.memory", "AMOUNT", "cluster: memory of one run, such as 4G"},
	{"parallelism", "launcher.parallelism", "int", "cluster: maximum number of runs at a time"},
}

// launcherFlags are the flags of sweep, ablate and assignment about where runs are trained.
type launcherFlags struct {
	given    []string // those that need a cluster
	wait     bool
	manifest string // file for Kubernetes; empty = standard output
}

// launcherKeys are the flags with one value, and those of lists of lines, which are repeatable. Help
// takes the name of a value of these from the backquotes.
func launcherKeys() (keys, lines []keyFlag) {
	keys = slices.Clone(clusterKeys)
	for _, k := range launch.Kinds {
		for _, f := range k.Flags {
			if key := (keyFlag{f.Name, f.Key, f.Type, f.Usage}); f.Type == "" {
				lines = append(lines, key)
			} else {
				keys = append(keys, key)
			}
		}
	}
	return keys, lines
}

func (f *launcherFlags) add(c *cobra.Command) {
	keys, lines := launcherKeys()
	addKeyFlags(c, keys)
	for _, k := range lines {
		c.Flags().StringArray(k.flag, nil, k.usage+" ("+k.key+")")
	}
	c.Flags().BoolVar(&f.wait, "wait", false, "Slurm: stay, show progress, and report at the end")
	c.Flags().StringVar(&f.manifest, "manifest", "",
		"Kubernetes: write the manifest to this `FILE` (default standard output)")
	complete(c, "launcher", config.LauncherTypes, cobra.ShellCompDirectiveNoFileComp)
}

// options returns the flags that set keys.
func (f *launcherFlags) options(c *cobra.Command) (out []config.Flag) {
	keys, lines := launcherKeys()
	out = givenKeys(c, keys)
	for _, k := range lines {
		// An error would mean a flag of another type.
		if text, err := c.Flags().GetStringArray(k.flag); err == nil && len(text) > 0 {
			out = append(out, config.Flag{Key: k.key, Name: "--" + k.flag, Lines: text})
		}
	}
	f.given = nil
	for _, o := range out {
		if o.Key != "launcher.type" {
			f.given = append(f.given, o.Name)
		}
	}
	if f.wait {
		f.given = append(f.given, "--wait")
	}
	if f.manifest != "" {
		f.given = append(f.given, "--manifest")
	}
	return out
}

// check refuses flags that the launcher ignores. The same settings in a file are no error,
// because a file may be shared.
func (f *launcherFlags) check(k launch.Kind, jobs int, failFast bool) error {
	only := func(has func(launch.Kind) bool) string {
		var names []string
		for _, k := range launch.Kinds {
			if has(k) {
				names = append(names, k.Name)
			}
		}
		return strings.Join(names, " or ")
	}
	isCluster := func(k launch.Kind) bool { return k.Stays != launch.Always }
	withWait := func(k launch.Kind) bool { return k.Stays == launch.WithWait }
	problem := ""
	for _, other := range launch.Kinds {
		for _, own := range other.Flags {
			if name := "--" + own.Name; other.Name != k.Name && slices.Contains(f.given, name) {
				problem = fmt.Sprintf("%s is for --launcher %s", name, other.Name)
			}
		}
	}
	switch {
	case problem != "":
	case !isCluster(k) && len(f.given) > 0:
		problem = fmt.Sprintf("%s has no effect on this machine (add --launcher %s, or leave it out)",
			f.given[0], only(isCluster))
	case isCluster(k) && jobs > 0:
		problem = "--jobs is for this machine (--parallelism limits the runs at a time on a cluster)"
	case failFast && withWait(k):
		problem = fmt.Sprintf("--fail-fast has no effect with --launcher %s, where runs do not end one another (leave it out)",
			k.Name)
	case f.wait && !withWait(k):
		problem = "--wait is for --launcher " + only(withWait)
	case f.manifest != "" && !k.Manifest:
		problem = "--manifest is for --launcher " + only(func(k launch.Kind) bool { return k.Manifest })
	default:
		return nil
	}
	return fmt.Errorf("%w: %s", config.ErrConfig, problem)
}

// noteTo returns a function that prints notes on standard error.
func noteTo(s *State) func(string) {
	return func(text string) { textutil.Fprintf(s.Err, "note: %s\n", text) }
}

// start checks the flags of a sweep or a study, and previews it, or trains and reports it.
func (f *sweepFlags) start(ctx context.Context, s *State, j *launch.Job, prepare bool) error {
	kind := rundir.KindSweep
	if j.Study != nil {
		kind = rundir.KindStudy
	}
	if err := f.launcher.check(j.Kind(), f.jobs, f.failFast); err != nil {
		return err
	}
	if err := f.checkGate(j.Kind(), prepare, kind); err != nil {
		return err
	}
	j.Options = launch.Options{
		Options: sweep.Options{
			Jobs: f.jobs, FailFast: f.failFast, Version: version, Revision: build(s).Revision,
			Memory: s.available(), Disk: s.checkDisk, Now: s.Now,
		},
		Note: noteTo(s), Wait: f.launcher.wait && !f.continued, Manifest: f.launcher.manifest, Continued: f.continued,
		Args: s.Args, Env: s.Env,
	}
	switch {
	case f.dryRun:
		return f.preview(ctx, s, j)
	case prepare:
		return f.prepareSweep(s, j.Sweep)
	}
	t := newJobTable(s, f, j)
	j.Observer, j.Print = t, func(text string) { t.line("%s", text) }
	out, err := launch.Run(ctx, j)
	isReported := out.Sweep != nil || out.Study != nil
	if out.Stayed && (isReported || errors.Is(err, rundir.ErrInterrupted)) {
		t.done()
	} else {
		t.screen.Erase()
	}
	switch r := out.Receipt; {
	case r != nil:
		return errors.Join(err, f.showReceipt(s, r))
	case !isReported:
		return err
	}
	return errors.Join(err, f.showReport(s, out, j.Dir))
}

// showReceipt prints what was handed over to a cluster.
func (f *sweepFlags) showReceipt(s *State, r *launch.Receipt) error {
	show := func() error { return printJSON(s.Out, r.JSON) }
	if !f.out.json {
		show = func() error { _, err := io.WriteString(s.Out, r.Text); return err }
	}
	if err := show(); err != nil || f.out.quiet {
		return err
	}
	_, err := io.WriteString(s.Err, textutil.Text(r.Aside))
	return err
}

// showReport prints the summary of the report in dir, with the checks of the gate.
func (f *sweepFlags) showReport(s *State, out *launch.Outcome, dir string) error {
	if out.Study != nil {
		checks := f.gate.Study(out.Study)
		what := studyOutput{dir, out.Files, out.Study.Results, checks}
		return showStudy(s, f.out.json, out.Study, what, dir, checks)
	}
	checks := f.gate.Sweep("", out.Sweep)
	what := sweepOutput{dir, out.Files, out.Sweep, checks}
	return showSweep(s, f.out.json, out.Sweep, what, dir, checks)
}

// sweepOutput is what --json prints of a sweep.
type sweepOutput struct {
	Dir      string         `json:"dir"`
	Files    []string       `json:"files"`
	Analysis *report.Report `json:"analysis"`
	Checks   []report.Check `json:"checks"`
}

// studyOutput is what --json prints of a study.
type studyOutput struct {
	Dir     string              `json:"dir"`
	Files   []string            `json:"files"`
	Results report.StudyResults `json:"results"`
	Checks  []report.Check      `json:"checks"`
}

// newJobTable has the runs of all parts.
func newJobTable(s *State, f *sweepFlags, j *launch.Job) *sweepTable {
	if j.Study == nil {
		return newSweepTable(s, f.out.quiet, j.Sweep.Manifest, f.jobs)
	}
	t := newStudyTable(s, f.out.quiet, f.jobs)
	for i, copied := range j.Study.Copied() {
		t.add(j.Study.Parts[i].Manifest, copied)
	}
	return t
}

// taskOptions are the inputs of `grpo task`.
type taskOptions struct {
	sweep      string
	prepared   string
	runs       string
	index      int
	threads    int
	supervised bool
}

// newTask is the command that trains one run of a sweep. "grpo sweep" starts it as its child
// processes, jobs of Slurm and Kubernetes start it on their nodes, and users do on other schedulers.
func newTask(s *State) *cobra.Command {
	o := &taskOptions{}
	c := &cobra.Command{
		Use:   "task",
		Short: "Train one run of a prepared sweep, for schedulers without a --launcher",
		Long: `Task trains or continues one run of a prepared sweep. "grpo sweep" starts it for
every run, and so do the jobs of --launcher slurm and kubernetes. Call it yourself
where another scheduler starts the jobs (PBS, LSF, HTCondor, GNU parallel):

  1. "grpo sweep ... --out DIR --prepare" writes the list of runs and starts none.
  2. Each job runs "grpo task --sweep DIR --index N", N from 0. The jobs need the
     folder, but not one another, and run in any order.
  3. "grpo status DIR" shows the progress, "grpo report DIR" combines the results.

The exit code is 0 if the run is done, now or before; 1 if it failed; 2 if its
configuration can't be used; 75 if it was interrupted and saved: the same command
continues it.`,
		Example: `  grpo sweep lr --values 1e-3,3e-3 --seeds 2 -c smoke --out array --prepare
  grpo task --sweep array --index 0                  the first of 4 runs
  seq 0 3 | xargs -P 2 -I N grpo task --sweep array --index N --threads 1
  grpo report array`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.sweep == "" || o.index < 0 {
				return usagef(cmd, "task needs --sweep DIR and --index N, the run's place in the manifest from 0")
			}
			return run(cmd, s, o, runTask)
		},
		Annotations: saves,
	}
	c.Flags().StringVar(&o.sweep, "sweep", "", "`folder` of the sweep")
	c.Flags().StringVar(&o.prepared, "prepared", "",
		"`folder` of a Kubernetes ConfigMap with the frozen sweep, which is written to --sweep if that is new")
	c.Flags().IntVar(&o.index, "index", -1, "index of the run in the manifest, or in --runs, from 0")
	c.Flags().StringVar(&o.runs, "runs", "", "`list` of runs in the manifest, e.g. 0,3,5-9; --index counts in it")
	addThreads(c.Flags(), &o.threads, "; does not affect the results")
	c.Flags().BoolVar(&o.supervised, "supervised", false, "save and stop when standard input ends")
	return c
}

// observed is the observer of a task. Test scripts wrap it in one that stops the run
// at a step, so that they interrupt it at the same step on every machine.
var observed = func(_ context.Context, o train.Observer) train.Observer { return o }

func runTask(ctx context.Context, s *State, o *taskOptions) error {
	if o.supervised {
		var stop func()
		ctx, stop = untilEnd(ctx, s.In)
		defer stop()
	}
	p := newProgress(s, false)
	defer p.done()
	host, _ := s.Host() // for messages
	res, err := launch.Task(ctx, launch.TaskOptions{
		TaskOptions: sweep.TaskOptions{
			Threads: o.threads, Now: s.Now, Observer: observed(ctx, p), Meta: build(s), Memory: s.checkMemory, Disk: s.checkDisk,
			Progress: p.Doing, Wait: !o.supervised,
		},
		Dir: o.sweep, Index: o.index, Runs: o.runs, Prepared: o.prepared, Env: s.Env, Host: host,
	})
	if err != nil {
		return err
	}
	text := res.Status
	if res.Status == rundir.StateDiverged && res.DivergedAt != nil {
		text = fmt.Sprintf("%s at step %d: %s", text, *res.DivergedAt, res.DivergedReason)
	}
	p.line("%s", text)
	return nil
}

// untilEnd ends the context when r ends: when the launcher at the other end closes
// it, or is killed.
func untilEnd(parent context.Context, r io.Reader) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	go func() {
		_, _ = io.Copy(io.Discard, r) // an error is an end too
		cancel()
	}()
	return ctx, cancel
}
