package sweep

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
	"grpo/pkg/train"
)

// Successive halving: all runs are trained to a rung, a step with an evaluation, and wait there. Arms
// are ranked by their sampled validation answer reward, the mean over all seeds; the better half,
// rounded up, continues. The decision is made once, and written into the manifest: it depends on
// nothing but evaluations, which are reproducible to the bit. All seeds of an arm stop at the same rung,
// so the differences between the arms that remain stay paired.

// halvingOf plans the rungs: a quarter and a half of the steps, rounded up to an evaluation.
func (p *planner) halvingOf(m sweepdir.Manifest) (*sweepdir.Halving, error) {
	first := p.configs[0]
	steps, every := first.Train.NGRPOSteps, first.Eval.EveryNSteps
	for i, c := range p.configs {
		if c.Train.NGRPOSteps != steps || c.Eval.EveryNSteps != every {
			return nil, planErrorf("--halving compares arms at the same steps, but the arms %q and %q differ in "+
				"train.n_grpo_steps or eval.every_n_steps", p.arms[0].Name, p.arms[i].Name)
		}
	}
	switch n := len(ranked(m)); {
	case p.base.Config.Launcher.Type != "local":
		return nil, planErrorf("--halving needs the launcher local, not %s: on a cluster no process compares the arms "+
			"while they are trained", p.base.Config.Launcher.Type)
	case p.bestOver != "":
		return nil, planErrorf("--halving stops arms, but with best_over each arm is tuned over all its points")
	case n < 3:
		return nil, planErrorf("--halving needs three arms or more besides the reference and controls, which it never "+
			"stops; this sweep has %d", n)
	}
	h := &sweepdir.Halving{}
	for _, part := range []int{4, 2} {
		step := (steps + part*every - 1) / (part * every) * every
		isNew := len(h.Rungs) == 0 || h.Rungs[len(h.Rungs)-1].Step < step
		if isNew && step < steps {
			h.Rungs = append(h.Rungs, sweepdir.Rung{Step: step})
		}
	}
	if len(h.Rungs) == 0 {
		return nil, planErrorf("--halving needs an evaluation before the last step: set eval.every_n_steps (%d) "+
			"to at most half of train.n_grpo_steps (%d)", every, steps)
	}
	return h, nil
}

// ranked are the arms that halving can still stop: not the reference, without which nothing is
// compared, and not controls, which are expected to be the worst.
func ranked(m sweepdir.Manifest) (out []int) {
	for i, a := range m.Arms {
		if a.Name != m.Reference && !a.Control && m.StoppedAt(i) == 0 {
			out = append(out, i)
		}
	}
	return out
}

// toggled is the manifest old of a folder with the halving that is asked for now. Decisions are kept;
// without halving, the arms that were stopped are trained to the end.
func toggled(old, now sweepdir.Manifest) (m sweepdir.Manifest, same bool) {
	if (old.Halving == nil) == (now.Halving == nil) {
		return old, true
	}
	m = old
	m.Halving, m.Argv = now.Halving, now.Argv
	return m, false
}

// isAtRung says whether a run has been trained to the next rung.
func (r *runner) isAtRung(s sweepdir.RunState) bool {
	step := r.manifest.NextRung()
	return step > 0 && hasReached(s, step)
}

// hasReached says whether a run has saved a step, or a later one.
func hasReached(s sweepdir.RunState, step int) bool {
	return s.Run != nil && s.Run.Status != nil && s.Run.Status.Step >= step
}

// decide ranks the arms at the next rung if all their runs have reached it, and returns whether runs
// can be continued. A run that failed prevents the decision.
func (r *runner) decide() bool {
	if r.halted != nil {
		return false
	}
	if len(r.manifest.Looks) > 0 {
		more, err := r.takeLook()
		r.undecided = err
		return more
	}
	if r.manifest.NextRung() == 0 || len(r.in(paused)) == 0 {
		return false
	}
	for _, j := range r.jobs {
		if j.phase != paused && j.phase != finished && r.manifest.StoppedAt(j.entry.Arm) == 0 {
			return false
		}
	}
	m, err := decideRung(r.dir, r.manifest.NextRung())
	if err != nil {
		r.undecided = fmt.Errorf("--halving after step %d: %w", r.manifest.NextRung(), err)
		return false
	}
	r.noteRung(m)
	r.manifest = m
	for _, j := range r.in(paused) {
		if j.phase = waiting; m.StoppedAt(j.entry.Arm) > 0 {
			j.phase = halved
			r.emit(Event{Kind: Found, State: m.Settle(sweepdir.StateOf(r.dir, j.entry))}, j)
		}
	}
	return true
}

// decideRung writes the decision at the rung of a step into the manifest, unless another process has done so.
func decideRung(dir string, step int) (m sweepdir.Manifest, err error) {
	unlock, err := claim(dir, rundir.KindSweep, nil)
	if err != nil {
		return m, err
	}
	defer unlock()
	s, err := sweepdir.Open(dir)
	if err != nil {
		return m, err
	}
	m = s.Manifest
	if m.Halving == nil {
		return m, fmt.Errorf("another command continues %s without --halving: leave it out here too", dir)
	}
	if m.NextRung() != step {
		return m, nil
	}
	rungs := slices.Clone(m.Halving.Rungs)
	i := slices.IndexFunc(rungs, func(r sweepdir.Rung) bool { return r.Step == step })
	rungs[i].Ranking, err = rank(s, step)
	if err != nil {
		return m, err
	}
	n := len(rungs[i].Ranking)
	others := len(m.Arms) - n // the reference, controls, and arms that were stopped before
	for arm := range m.Arms {
		if m.StoppedAt(arm) > 0 {
			others--
		}
	}
	for _, a := range rungs[i].Ranking[max((n+1)/2, 2-others):] {
		rungs[i].Stopped = append(rungs[i].Stopped, a.Arm)
	}
	m.Halving = &sweepdir.Halving{Rungs: rungs}
	return m, sweepdir.WriteManifest(dir, m)
}

// rank orders the arms by the mean over the seeds of the last validation up to a step, which every run must have
// reached. Arms with a run that had diverged by then come last. Equal arms keep the order of the manifest.
func rank(s *sweepdir.Sweep, step int) ([]sweepdir.Ranked, error) {
	var out []sweepdir.Ranked
	for _, arm := range ranked(s.Manifest) {
		a := sweepdir.Ranked{Arm: arm}
		runs := s.OfArm(arm)
		for _, run := range runs {
			// Another command may have added seeds, which this process does not train.
			if !run.Finished() && !hasReached(run, step) {
				return nil, fmt.Errorf("%s has not been trained to it: the same command goes on when it has", run.Path(s.Dir))
			}
			reward, found := 0.0, false
			for _, e := range run.Run.Evals {
				if e.Split == rundir.SplitVal && e.Step <= step {
					reward, found = e.Sampled.AnswerReward, true
				}
			}
			if !found {
				return nil, fmt.Errorf("%s has no evaluation up to step %d", run.Path(s.Dir), step)
			}
			a.Reward += reward / float64(len(runs))
			if res := run.Run.Result; res != nil && res.DivergedAt != nil && *res.DivergedAt <= step {
				a.Diverged++
			}
		}
		out = append(out, a)
	}
	slices.SortStableFunc(out, func(a, b sweepdir.Ranked) int {
		return cmp.Or(cmp.Compare(min(a.Diverged, 1), min(b.Diverged, 1)), cmp.Compare(b.Reward, a.Reward))
	})
	return out, nil
}

// noteRung reports the decision that now has in addition.
func (r *runner) noteRung(now sweepdir.Manifest) {
	for i, rung := range now.Halving.Rungs {
		if len(rung.Ranking) == 0 || len(r.manifest.Halving.Rungs[i].Ranking) > 0 {
			continue
		}
		var on, off []string
		for _, a := range rung.Ranking {
			text := fmt.Sprintf("%s (%.3f)", now.NameOf(a.Arm), a.Reward)
			if slices.Contains(rung.Stopped, a.Arm) {
				off = append(off, text)
			} else {
				on = append(on, text)
			}
		}
		r.note("halving after step %d: %s continue; stopped: %s", rung.Step, strings.Join(on, ", "),
			cmp.Or(strings.Join(off, ", "), "none"))
	}
}

// untilStep ends a context after a step of a run, which then saves and stops.
type untilStep struct {
	train.Observer
	step int
	end  context.CancelFunc
}

func (u untilStep) Begin(resumedAt, steps int) {
	u.Observer.Begin(resumedAt, steps)
	if resumedAt >= u.step {
		u.end()
	}
}

func (u untilStep) Step(m rundir.Metrics) {
	u.Observer.Step(m)
	if m.Step >= u.step {
		u.end()
	}
}
