package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"grpo/internal/expect"
	"grpo/pkg/config"
	"grpo/pkg/report"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
	"grpo/pkg/sweep/slurm"
	"grpo/pkg/sweepdir"
)

// Every type of the configuration has a launcher, and every flag sets a key of the section.
func TestKinds(t *testing.T) {
	var names []string
	for _, k := range Kinds {
		names = append(names, k.Name)
		for _, f := range k.Flags {
			if key, err := config.FindKey(f.Key); err != nil || !config.OfLauncher(key.Path) {
				t.Errorf("--%s of %s: %v", f.Name, k.Name, err)
			}
		}
	}
	if !slices.Equal(names, config.LauncherTypes()) {
		t.Errorf("launchers %v, types %v", names, config.LauncherTypes())
	}
}

// cluster is a Slurm in which every job waits. refuse is part of the arguments of jobs that sbatch refuses.
type cluster struct {
	refuse string
	submit func()   // called by each sbatch; or nil
	jobs   []string // their arguments
	queue  string   // lines of squeue
}

func (c *cluster) run(ctx context.Context, _, name string, args ...string) (string, error) {
	switch line := strings.Join(args, " "); {
	case name == "scontrol":
		return "MaxArraySize = 2\n", nil
	case name != "sbatch":
		return c.queue, nil
	case c.refuse != "" && strings.Contains(line, c.refuse):
		return "", &slurm.Error{Program: name, Text: "refused"}
	default:
		if c.submit != nil {
			c.submit()
		}
		c.jobs = append(c.jobs, line)
		_, comment, _ := strings.Cut(line, "--comment=")
		comment, _, _ = strings.Cut(comment, " ")
		id := len(c.jobs)
		if strings.Contains(line, "--array=") {
			c.queue += fmt.Sprintf("%d_0|0|PENDING|Resources||%s\n%d_1|1|PENDING|Resources||%s\n", id, comment, id, comment)
		} else {
			c.queue += fmt.Sprintf("%d|N/A|PENDING|Dependency||%s\n", id, comment)
		}
		return fmt.Sprint(id), ctx.Err() // a command whose context has ended is killed
	}
}

// submitTo submits a sweep of two arms with looks at 2 and 3 seeds. Its runs are in arrays of two.
func submitTo(t *testing.T, ctx context.Context, c *cluster, dir string) (submission, []string, error) {
	t.Helper()
	req, err := sweep.AxesRequest([]sweep.AxisRequest{{Key: "lr", Values: []string{"1e-3", "3e-3"}}})
	expect.OK(t, err)
	seeds, looks, _, err := sweep.ParseLooks("2..3")
	expect.OK(t, err)
	plan, err := sweep.NewPlan(req, sweep.PlanOptions{
		Path: "smoke", Seeds: seeds, Looks: looks, Set: []string{"launcher.type=slurm", "launcher.time=20"},
	})
	expect.OK(t, err)
	found, err := sweep.Locate(dir, plan)
	expect.OK(t, err)
	return submit(ctx, c, &Job{Dir: dir, Sweep: found})
}

func submit(ctx context.Context, c *cluster, j *Job) (submission, []string, error) {
	var notes []string
	j.Note, j.Args, j.Now = func(text string) { notes = append(notes, text) }, []string{"grpo", "sweep", "lr"}, time.Now
	j.reports = make([]*report.Report, j.parts())
	r, err := slurmLauncher{c.run}.Submit(ctx, j)
	if r == nil {
		return submission{}, notes, err
	}
	return r.JSON.(submission), notes, err
}

// The job that takes a look is submitted again if it was refused, and only then.
func TestSlurmTakesLook(t *testing.T) {
	c, dir := &cluster{refuse: "afterany"}, t.TempDir()
	s, notes, err := submitTo(t, t.Context(), c, dir)
	if err != nil || s.Runs != 4 || s.Report != "" || len(notes) != 1 || !strings.Contains(notes[0], "takes the look") {
		t.Fatalf("refused: %+v, notes %q, %v", s, notes, err)
	}
	c.refuse = ""
	for range 2 {
		s, notes, err = submitTo(t, t.Context(), c, dir)
		if err != nil || s.Runs != 0 || s.Busy != 4 || len(notes) > 0 {
			t.Errorf("again: %+v, notes %q, %v", s, notes, err)
		}
	}
	if len(c.jobs) != 3 || !strings.Contains(c.jobs[2], "afterany:1:2") {
		t.Errorf("jobs %q", c.jobs)
	}
}

// An interrupt while sbatch runs leaves no job without a record, and the same command goes on after it.
func TestSlurmInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, dir := &cluster{submit: cancel}, t.TempDir()
	s, _, err := submitTo(t, ctx, c, dir)
	if !errors.Is(err, rundir.ErrInterrupted) || s.Runs != 2 || len(c.jobs) != 1 {
		t.Errorf("%+v, %v, jobs %q", s, err, c.jobs)
	}
	if _, err := os.Stat(filepath.Join(dir, slurm.Dir, "1.json")); err != nil {
		t.Error(err)
	}
	if s, _, err = submitTo(t, t.Context(), c, dir); err != nil || s.Runs != 2 || s.Busy != 2 {
		t.Errorf("again: %+v, %v", s, err)
	}
	if len(c.jobs) != 3 || !strings.Contains(c.jobs[2], "afterany:1:2") {
		t.Errorf("jobs %q", c.jobs)
	}
}

// When the first part of a study gives no learning rate, the parts with rates of their own are trained all the same.
func TestSlurmStudyWithoutRate(t *testing.T) {
	c, dir := &cluster{}, t.TempDir()
	again := func(continued bool) (submission, []string, error) {
		t.Helper()
		study, err := sweep.NewStudy(sweep.Assignment{Edition: "2026", PerArm: true, Rates: []string{"1e-3", "3e-3"}, Options: sweep.PlanOptions{
			Path: "smoke", Seeds: sweep.FirstSeeds(2), Set: []string{"launcher.type=slurm", "launcher.time=20"}, Argv: []string{"grpo", "assignment"},
		}})
		expect.OK(t, err)
		study.Dir = dir
		_, err = study.Find()
		expect.OK(t, err)
		return submit(t.Context(), c, &Job{Dir: dir, Study: study, Options: Options{Continued: continued}})
	}
	if s, _, err := again(false); err != nil || s.Runs != 4 {
		t.Fatalf("%+v, %v", s, err)
	}
	c.queue = "" // the jobs have ended without results
	s, notes, err := again(true)
	if err != nil || s.Failed != 4 || s.Runs == 0 || !strings.Contains(strings.Join(notes, "\n"), "part lr gives no learning rate") {
		t.Errorf("%+v, notes %q, %v", s, notes, err)
	}
	for name, want := range map[string]bool{"prompt": false, "variants": true, "offpolicy-loss": true} {
		if got := sweepdir.IsSweep(filepath.Join(dir, name)); got != want {
			t.Errorf("%s: submitted %v", name, got)
		}
	}
}
