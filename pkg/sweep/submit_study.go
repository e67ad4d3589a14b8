package sweep

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"grpo/pkg/rundir"
	"grpo/pkg/sweep/slurm"
	"grpo/pkg/sweepdir"
)

// A study is submitted in stages: first the runs that need nothing, then, by a job that repeats the
// command when these have ended, those that need the learning rate or copy a run of an earlier
// stage. Each stage continues from what is in the folder, so any of them can be repeated.

// StudySubmitOptions are the options of every part, with Report and Best as in [StudyOptions].
type StudySubmitOptions struct {
	SubmitOptions
	Report func(i int, s *sweepdir.Sweep) error
	Best   func() (rate, why string, err error)
	Self   string   // the job that this command runs in, if it continues the study; or empty
	Again  []string // arguments that mark a command that continues the study
}

// StudySubmitted is what [AssignmentPlan.Submit] did.
type StudySubmitted struct {
	Parts  []*Submitted // of the parts that could be submitted
	Follow string       // the job that follows: the next stage, or the report; empty if it was there
	Stages bool         // a job submits more runs later
}

// InFlight is the number of runs that are queued or running.
func (s *StudySubmitted) InFlight() (n int) {
	for _, p := range s.Parts {
		n += len(p.inFlight)
	}
	return n
}

// Submit submits what can be submitted now of the prepared study in dir, and a job that continues or
// reports. See [Located.Submit].
func (p *AssignmentPlan) Submit(ctx context.Context, dir string, opts StudySubmitOptions) (*StudySubmitted, error) {
	out := &StudySubmitted{}
	part := opts.SubmitOptions
	part.NoReport, part.Later = true, map[string]bool{}
	var after []string // jobs
	for i, about := range p.Study.Parts {
		if i == 1 && !p.ask.PerArm {
			if p.waits() && out.InFlight() > 0 {
				out.Stages = true
				break
			}
			if err := p.chooseSubmitted(dir, opts); err != nil {
				return out, err
			}
		}
		l, err := Locate(filepath.Join(dir, about.Name), p.Parts[i])
		if err != nil {
			return out, fmt.Errorf("part %s: %w", about.Name, err)
		}
		sub, err := l.Submit(ctx, part)
		if sub != nil {
			out.Parts = append(out.Parts, sub)
		}
		if err != nil {
			return out, fmt.Errorf("part %s: %w", about.Name, err)
		}
		alive, _ := sub.queue.alive()
		after = append(after, slices.Concat(alive, sub.Jobs)...)
		out.Stages = out.Stages || sub.Later > 0
		for _, index := range sub.inFlight {
			part.Later[l.Manifest.Runs[index].Hash] = true
		}
		part.StudySweeps = append(part.StudySweeps, l.Dir)
	}
	if out.InFlight() == 0 {
		return out, nil
	}
	return out, p.follow(ctx, dir, out, after, opts)
}

// chooseSubmitted chooses the learning rate from the runs of part lr, unless it was chosen.
func (p *AssignmentPlan) chooseSubmitted(dir string, opts StudySubmitOptions) error {
	if !p.waits() {
		return nil
	}
	s, err := sweepdir.Open(filepath.Join(dir, p.Study.Parts[0].Name))
	if err != nil {
		return err
	}
	if err := opts.Report(0, s); err != nil {
		return err
	}
	return p.chooseBest(dir, StudyOptions{Options: Options{Observer: Notes(opts.Note)}, Best: opts.Best})
}

// follow submits the job that continues or reports after these jobs, in place of an earlier one.
func (p *AssignmentPlan) follow(
	ctx context.Context, dir string, out *StudySubmitted, after []string, opts StudySubmitOptions,
) error {
	unlock, err := claimFor(time.Minute, dir, rundir.KindStudy, nil)
	if err != nil {
		return err
	}
	defer unlock()
	q, err := patientQueue(ctx, dir, opts.Exec)
	if err != nil {
		return fmt.Errorf("find out which jobs are queued: %w", err)
	}
	old, _ := q.alive()
	old = slices.DeleteFunc(old, func(id string) bool { return id == opts.Self })
	fresh := slices.ContainsFunc(out.Parts, func(s *Submitted) bool { return s.Runs > 0 })
	if len(old) > 0 {
		if !fresh {
			return nil
		}
		if err := slurm.Cancel(ctx, opts.Exec, old); err != nil {
			return fmt.Errorf("replace the job that continues the study: %w", err)
		}
	}
	full, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if _, err := rundir.Subfolder(dir, SlurmDir); err != nil {
		return fmt.Errorf("make the folder of the logs: %w", err)
	}
	base := slurm.Script{
		Name: "grpo-" + p.Study.Hash, Comment: p.Study.Hash, Dir: opts.Dir, Settings: p.Parts[0].Launcher,
	}
	log := strings.ReplaceAll(filepath.Join(full, SlurmDir), "%", "%%")
	args := []string{"report", full}
	if out.Stages {
		args = append(continueArgs("study", p.ask.Options.Argv, dir)[1:], opts.Again...)
	}
	s := reportScript(base, log, opts.Path, args...)
	slices.Sort(after)
	s.After = slices.Compact(after)
	if out.Follow, err = slurm.Submit(ctx, opts.Exec, s); err != nil {
		return fmt.Errorf("submit the job that continues the study: %w; the same command does it later", err)
	}
	record := opts.submission(out.Follow, s)
	record.Continues = out.Stages
	return record.write(dir)
}

// WaitStudy follows the parts of a submitted study, one after the other, with the functions of
// opts. See [Wait]. Failed runs of a part don't end it.
func (p *AssignmentPlan) WaitStudy(
	ctx context.Context, dir string, opts WaitOptions, begin func(i int, about string), ended func(i int, s *sweepdir.Sweep) error,
) (errs []error, err error) {
	opts.Study = dir
	for i, part := range p.Study.Parts {
		opts.Ready = func() error {
			_, err := p.find(dir) // the learning rate that a job has chosen
			if err == nil {
				begin(i, p.about(i))
			}
			return err
		}
		s, err := Wait(ctx, filepath.Join(dir, part.Name), opts)
		if s == nil {
			return errs, err
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("part %s: %w", part.Name, err))
		}
		if err := ended(i, s); err != nil {
			return errs, err
		}
	}
	return errs, nil
}
