package launch

import (
	"context"
	"errors"
	"fmt"

	"grpo/internal/process"
	"grpo/pkg/rundir"
	"grpo/pkg/sweep"
)

var localKind = Kind{Launcher: local{}, Name: "local", Stays: Always}

// local trains the runs as child processes on this machine.
type local struct{ noJobs }

// Check implements [Launcher].
func (local) Check(_ context.Context, j *Job) error {
	_, err := j.Located()
	return err
}

// Submit implements [Launcher]. The processes of runs end with this one, so Wait starts them.
func (local) Submit(_ context.Context, j *Job) (*Receipt, error) {
	if j.Study != nil {
		if err := j.Study.Prepare(); err != nil {
			return nil, err
		}
	}
	return &Receipt{Pending: true}, nil
}

// Wait implements [Launcher]. Failed runs of one part of a study don't stop the others, unless these
// need its results.
func (local) Wait(ctx context.Context, j *Job) (ended bool, err error) {
	program, err := process.Self()
	if err != nil {
		return false, fmt.Errorf("find this program to start its runs: %w", err)
	}
	opts := j.Options.Options
	opts.Observer, opts.Queued = j.Observer, Busy
	opts.Launcher = sweep.Local{Path: program, Name: j.Args[0], Env: j.Env, Now: j.Now}
	var errs []error
	for i := range j.parts() {
		at := ""
		if j.Study != nil {
			at = fmt.Sprintf("part %d of %d, %s", i+1, j.parts(), j.Study.Manifest.Parts[i].Name)
			if ctx.Err() != nil {
				return false, fmt.Errorf("%w before %s; the same command continues", rundir.ErrInterrupted, at)
			}
			if i == 1 {
				if err := j.chooseRate(j.Observer.Note); err != nil {
					errs = append(errs, err)
				}
			}
			if j.Study.PartWaits(i) {
				continue
			}
			at += ": "
			j.Observer.Part(i, j.Study.About(i))
		}
		part, err := j.part(i)
		if err != nil {
			return false, err
		}
		sw, err := part.Run(ctx, opts)
		if err != nil && at != "" {
			err = fmt.Errorf("%s%w", at, err)
		}
		if sw == nil || errors.Is(err, rundir.ErrInterrupted) {
			return false, err // the user does not want to wait for figures; grpo report draws them
		}
		if rerr := j.report(i, sw); rerr != nil {
			return true, errors.Join(append(errs, err, rerr)...)
		}
		opts.StudySweeps = append(opts.StudySweeps, part.Dir)
		if err != nil {
			errs = append(errs, err)
			var early *sweep.EarlyDeathsError
			if opts.FailFast || errors.As(err, &early) {
				break
			}
		}
	}
	return true, errors.Join(errs...)
}
