package train

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"grpo/internal/regular"
	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/infer"
	"grpo/pkg/model"
	"grpo/pkg/policy"
	"grpo/pkg/rundir"
)

// evaluate measures the policy on the validation and unseen splits, writes the
// lines, and keeps the best weights.
func (t *trainer) evaluate(step int) error {
	preference, err := t.evaluatePairs()
	if err != nil {
		return fmt.Errorf("score the held-out pairs: %w", err)
	}
	val, err := t.evaluateSplit(rundir.SplitVal, t.data.problems.Val, step, t.cfg.Eval.Samples, preference)
	if err != nil {
		return err
	}
	if len(t.data.problems.Unseen) > 0 {
		unseen, err := t.evaluateSplit(rundir.SplitUnseen, t.data.problems.Unseen, step, t.cfg.Eval.Samples, nil)
		if err != nil {
			return err
		}
		t.state.Unseen = &unseen
	}
	if every := t.cfg.Eval.SetsEveryNSteps; step == 0 || every > 0 && step%every == 0 {
		if err := t.evaluateSets(step); err != nil {
			return err
		}
	}
	if step == 0 {
		t.state.Initial = val
		if final := t.data.problems.Final; len(final) > 0 {
			if t.state.Initial, err = t.evaluateSplit(rundir.SplitFinal, final, 0, t.cfg.Eval.Samples, nil); err != nil {
				return err
			}
		}
	}
	t.state.Final = val
	if step == 0 || val.Sampled.Better(t.state.Best.Sampled) {
		t.state.Best = val
		if err := t.saveBest(step); err != nil {
			return err
		}
	}
	t.opts.Observer.Eval(val)
	t.detectCollapse(val)
	return nil
}

// evaluateSets measures the policy on the sets of files (eval.sets), unless it has done so
// after this step.
func (t *trainer) evaluateSets(step int) error {
	for i, set := range t.data.problems.Sets {
		if i < len(t.state.Sets) && t.state.Sets[i].Final.Step == step {
			continue
		}
		e, err := t.evaluateSplit(set.Name, set.Problems, step, t.cfg.Eval.Samples, nil)
		if err != nil {
			return err
		}
		if step == 0 {
			t.state.Sets = append(t.state.Sets, rundir.SetResult{Name: set.Name, Initial: e})
		}
		t.state.Sets[i].Final = e
	}
	return nil
}

// evaluateFinal evaluates the validation problems of the last evaluation, if they are more than those of
// the curve or sampled more often: their rewards become the run's final one.
func (t *trainer) evaluateFinal() error {
	s, samples := &t.state, t.cfg.Eval.LastSamples()
	switch {
	case s.Final.Split == rundir.SplitFinal || len(t.data.problems.Final) == 0 && samples == t.cfg.Eval.Samples:
		return nil
	case s.Step == 0 && s.Initial.Split == rundir.SplitFinal: // the run diverged in its first step
		s.Final = s.Initial
		return nil
	}
	var err error
	s.Final, err = t.evaluateSplit(rundir.SplitFinal, t.data.problems.LastVal(), s.Step, samples, nil)
	return err
}

// evaluateSplit evaluates a split with this many samples of a problem and writes the line, with the metrics
// of held-out pairs if there are any.
func (t *trainer) evaluateSplit(split string, problems []gsm8k.Problem, step, samples int,
	preference map[string]float64) (rundir.Eval, error) {
	settings := infer.EvaluationOf(t.cfg, t.data.template, samples)
	settings.Progress, settings.Judge = t.opts.Progress, t.judge
	settings.Right = split == rundir.SplitVal || split == rundir.SplitFinal || split == rundir.SplitTest
	sampler, err := t.evaluationSampler(step)
	if err != nil {
		return rundir.Eval{}, fmt.Errorf("evaluate %s after step %d: %w", split, step, err)
	}
	// An evaluation can end at once if nothing would be lost but its last completions.
	if sampler != t.sampler && (step == 0 || step == t.saved) {
		settings.Stop = t.ctx.Err
	}
	e, kept, err := infer.Evaluate(t.Policy, sampler, settings, split, problems, step)
	switch {
	case settings.Stop != nil && errors.Is(err, context.Canceled):
		return e, fmt.Errorf("%w in the evaluation of %s after step %d; the same command continues it",
			rundir.ErrInterrupted, split, step)
	case err != nil:
		return e, fmt.Errorf("evaluate %s after step %d: %w", split, step, err)
	}
	if err := t.checkEval(e); err != nil {
		return e, err
	}
	e.Preference = preference
	if err := t.append(rundir.EvalFile, e); err != nil {
		return e, err
	}
	for _, s := range kept {
		if err := t.logs[rundir.SamplesFile].Append(s.Sample); err != nil {
			return e, err
		}
	}
	return e, nil
}

// keepBest removes the checkpoints of a finished run except the best weights, if output.keep is
// "best". Without valid best weights it keeps the others.
func (t *trainer) keepBest() error {
	if t.cfg.Output.Keep != "best" || t.verifyBest() != nil {
		return nil
	}
	names, err := t.checkpoints()
	for _, name := range append(names, referenceFile) {
		err := os.Remove(t.path(rundir.CheckpointDir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // another process may show the run too
			return fmt.Errorf("keep the best weights only (output.keep): %w", err)
		}
	}
	return err
}

// saveBest keeps the weights of the best evaluation so far.
func (t *trainer) saveBest(step int) error {
	t.opts.Progress.Do("writing the best weights")
	if err := t.hold.Check(); err != nil {
		return err
	}
	metadata := map[string]string{hashKey: config.Hash(t.cfg), stepKey: strconv.Itoa(step)}
	if t.folder == nil {
		c := &model.Checkpoint{Params: t.Params, Metadata: metadata}
		return rundir.WriteAtomic(t.path(rundir.CheckpointDir, rundir.BestFile), func(f *os.File) error {
			return c.WriteChecksummed(f)
		})
	}
	commit, err := rundir.PrepareFolder(t.path(rundir.CheckpointDir, rundir.BestFolder), func(dir string) error {
		return t.folder.Write(dir, t.Params, metadata)
	}, t.hold.Check)
	if err != nil {
		return err
	}
	return t.disk.do(commit)
}

// verifyBest compares the best weights with their checksums and with the run.
func (t *trainer) verifyBest() error {
	var metadata map[string]string
	path := t.path(rundir.CheckpointDir, rundir.BestFolder)
	// A finished run is shown without its model, so t.folder is nil then.
	if _, err := os.Lstat(path); t.folder != nil || err == nil {
		if err := regular.Folder(path); err != nil {
			return err
		}
		if metadata, err = policy.VerifyFolder(path); err != nil {
			return err
		}
	} else {
		path = t.path(rundir.CheckpointDir, rundir.BestFile)
		c, err := policy.ReadOwn(path)
		if err != nil {
			return err
		}
		if !c.Checksummed {
			return fmt.Errorf("%s: it has lost its checksum", path)
		}
		metadata = c.Metadata
	}
	if hash := config.Hash(t.cfg); metadata[hashKey] != hash {
		return fmt.Errorf("%s: it is of another run: its configuration has the hash %s, this one %s",
			path, textutil.Quote(metadata[hashKey]), hash)
	}
	return nil
}
