package sweep

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"grpo/pkg/rundir"
	"grpo/pkg/sweep/slurm"
	"grpo/pkg/sweepdir"
)

// askSlurm adds what Slurm says to what the files say, with one call for all jobs. Without an answer
// the files alone count.
func (s *Status) askSlurm(ctx context.Context, run slurm.Exec) error {
	var dirs []string
	all, err := folders(s.Dir)
	if err != nil {
		return err
	}
	for _, dir := range all {
		if _, err := os.Lstat(filepath.Join(dir, SlurmDir)); err == nil {
			dirs = append(dirs, dir)
		}
	}
	if len(dirs) == 0 {
		return nil
	}
	queues, err := readQueues(ctx, dirs, run)
	if queues == nil {
		return err
	}
	if err != nil {
		s.SlurmError = err.Error()
	}
	byFolder := map[string]*Queue{}
	for _, q := range queues {
		byFolder[q.dir] = q
		s.Submitted = s.Submitted || len(q.subs) > 0
	}
	for i := range s.Runs {
		r := &s.Runs[i]
		if q := byFolder[filepath.Join(s.Dir, r.Part)]; q != nil && !r.Finished() {
			r.inSlurm(q, s.SlurmError == "")
		}
	}
	return nil
}

// inSlurm adds the job of an unfinished run.
func (r *RunStatus) inSlurm(q *Queue, answered bool) {
	t := q.Task(r.Index)
	if t != nil {
		r.Slurm = &SlurmRun{Job: t.ID, State: t.State, Reason: t.Reason, Node: t.Node}
	}
	switch {
	case t != nil && t.Waiting():
		switch r.State {
		case rundir.StateRunning: // by another process: the job will find it finished
		case rundir.StateInterrupted, sweepdir.Dead:
			r.State, r.Error = StateRequeued, ""
		default:
			r.State, r.Error = StateQueued, ""
		}
		if t.Held() {
			r.Error = heldText(t)
		}
	case t != nil && !t.Ended():
		r.State, r.Error = rundir.StateRunning, ""
	case !answered || r.State == rundir.StateRunning:
	default:
		text, _ := q.ended(r.Index)
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
