package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
	"grpo/pkg/sweep/slurm"
	"grpo/pkg/sweepdir"
)

// Preview implements [Launcher]. Job ids that only Slurm can give are JOBID.
func (l slurmLauncher) Preview(ctx context.Context, j *Job) (string, error) {
	p, err := j.part(0)
	if err != nil {
		return "", err
	}
	program, err := findProgram(j.Version)
	if err != nil {
		return "", err
	}
	busy, err := l.Busy(ctx, p.Dir)
	if err != nil {
		j.Note(fmt.Sprintf("runs that are queued are not known: %v", err))
	}
	var todo []int
	var entries []sweepdir.Entry
	for i, row := range p.Rows(j.Options.Options) {
		notSubmitted := []string{sweep.StateCopy, rundir.StateRunning, sweepdir.Planned}
		if slices.Contains(notSubmitted, row.State) || sweepdir.Ended(row.State) || busy[row.Index] {
			continue
		}
		todo, entries = append(todo, row.Index), append(entries, p.Manifest.Runs[i])
	}
	if len(todo) == 0 {
		dir := textutil.Printable(p.Dir, 0)
		return fmt.Sprintf("nothing to submit: every run of %s is finished, queued or running\n", dir), nil
	}
	task, err := l.script(ctx, j, p, entries, program)
	if err = cmp.Or(err, new(submitted).interrupted(ctx)); err != nil {
		return "", err
	}
	var text strings.Builder
	last, _ := l.last(j, p, task, program)
	for i, a := range task.Arrays(todo, slurm.MaxArraySize(ctx, l.run), p.Launcher.Parallelism) {
		if p.Launcher.Parallelism > 0 && i > 0 {
			a.After = []string{"JOBID"}
		}
		text.WriteString(a.CommandLine())
		last.After = append(last.After, "JOBID")
	}
	text.WriteString(last.CommandLine())
	return textutil.Text(text.String()), nil
}

// Wait implements [Launcher]: it follows the sweeps one after the other. Failed runs of one don't end
// it.
func (l slurmLauncher) Wait(ctx context.Context, j *Job) (ended bool, err error) {
	var errs []error
	for i := range j.parts() {
		dir, at := j.Dir, ""
		opts := sweep.WaitOptions{Queue: slurm.NewFollower(l.run, dir), Observer: j.Observer, Now: j.Now}
		if j.Study != nil {
			name := j.Study.Manifest.Parts[i].Name
			dir, at = filepath.Join(dir, name), "part "+name+": "
			opts.Queue = slurm.NewFollower(l.run, dir, j.Dir)
			opts.Ready = func() error {
				_, err := j.Study.Find() // the learning rate that a job has chosen
				if err == nil {
					j.Observer.Part(i, j.Study.About(i))
				}
				return err
			}
		}
		sw, err := sweep.Wait(ctx, dir, opts)
		if sw == nil && (j.Study == nil || errors.Is(err, rundir.ErrInterrupted)) {
			return false, errors.Join(append(errs, err)...)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s%w", at, err))
		}
		if sw == nil { // a part without a learning rate
			continue
		}
		if err := j.report(i, sw); err != nil {
			return false, errors.Join(append(errs, err)...)
		}
	}
	return true, errors.Join(errs...)
}

// Busy implements [Launcher].
func (l slurmLauncher) Busy(ctx context.Context, dir string) (map[int]bool, error) {
	q, err := slurm.ReadQueue(ctx, dir, l.run)
	if q == nil {
		return nil, err
	}
	return q.Busy(), err
}

// Cancel implements [Launcher].
func (l slurmLauncher) Cancel(ctx context.Context, dir string) (ids []string, submitted int, err error) {
	return slurm.CancelAll(ctx, dir, l.run)
}

// Status implements [Launcher]: it asks with one call for all jobs. Without an answer the files alone
// count.
func (l slurmLauncher) Status(ctx context.Context, s *sweep.Status) error {
	all, err := slurm.Folders(s.Dir)
	if err != nil {
		return err
	}
	var dirs []string
	for _, dir := range all {
		if _, err := os.Lstat(filepath.Join(dir, slurm.Dir)); err == nil {
			dirs = append(dirs, dir)
		}
	}
	if len(dirs) == 0 {
		return nil
	}
	queues, err := slurm.ReadQueues(ctx, dirs, l.run)
	if queues == nil {
		return err
	}
	if err != nil {
		s.SlurmError = err.Error()
	}
	byFolder := map[string]*slurm.Queue{}
	for _, q := range queues {
		byFolder[q.Dir] = q
		s.Submitted = s.Submitted || len(q.Submissions) > 0
	}
	for i := range s.Runs {
		r := &s.Runs[i]
		if q := byFolder[filepath.Join(s.Dir, r.Part)]; q != nil && !r.Finished() {
			addJob(r, q, s.SlurmError == "")
		}
	}
	return nil
}

// addJob adds the job of an unfinished run to its status.
func addJob(r *sweep.RunStatus, q *slurm.Queue, answered bool) {
	t := q.Task(r.Index)
	if t != nil {
		r.Slurm = &sweep.SlurmRun{Job: t.ID, State: t.State, Reason: t.Reason, Node: t.Node}
	}
	switch {
	case t != nil && t.Waiting():
		switch r.State {
		case rundir.StateRunning: // by another process: the job will find it finished
		case rundir.StateInterrupted, sweepdir.Dead:
			r.State, r.Error = sweep.StateRequeued, ""
		default:
			r.State, r.Error = sweep.StateQueued, ""
		}
		if t.Held() {
			r.Error = t.HeldText()
		}
	case t != nil && !t.Ended():
		r.State, r.Error = rundir.StateRunning, ""
	case !answered || r.State == rundir.StateRunning:
	default:
		text, _ := q.Ended(r.Index)
		if text == "" {
			return
		}
		if r.State == sweepdir.Missing && (t == nil || t.State != "CANCELLED") {
			r.State = rundir.StateFailed
		}
		if r.State == sweepdir.Dead || r.Error == "" {
			r.Error = strings.TrimPrefix(fmt.Sprintf("%s; %s", r.Error, text), "; ")
		}
	}
}
