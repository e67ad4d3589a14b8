package train

import (
	"fmt"

	"grpo/pkg/gsm8k"
	"grpo/pkg/infer"
	"grpo/pkg/rundir"
)

// evaluate measures the policy on the validation and unseen splits, writes the
// lines, and keeps the best weights.
func (t *trainer) evaluate(step int) error {
	preference, err := t.evaluatePairs()
	if err != nil {
		return fmt.Errorf("score the held-out pairs: %w", err)
	}
	val, err := t.evaluateSplit(rundir.SplitVal, t.data.problems.Val, step, preference)
	if err != nil {
		return err
	}
	if len(t.data.problems.Unseen) > 0 {
		unseen, err := t.evaluateSplit(rundir.SplitUnseen, t.data.problems.Unseen, step, nil)
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
	}
	t.state.Final = val
	if step == 0 || val.Sampled.AnswerReward > t.state.Best.Sampled.AnswerReward {
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
		e, err := t.evaluateSplit(set.Name, set.Problems, step, nil)
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

// evaluateSplit evaluates a split and writes the line, with the metrics of held-out pairs if there are
// any.
func (t *trainer) evaluateSplit(split string, problems []gsm8k.Problem, step int,
	preference map[string]float64) (rundir.Eval, error) {
	settings := infer.EvaluationOf(t.cfg, t.data.template)
	settings.Progress = t.opts.Progress
	e, samples, err := infer.Evaluate(t.Policy, t.sampler, settings, split, problems, step)
	if err != nil {
		return e, fmt.Errorf("evaluate %s after step %d: %w", split, step, err)
	}
	if err := t.checkEval(e); err != nil {
		return e, err
	}
	e.Preference = preference
	if err := t.append(rundir.EvalFile, e); err != nil {
		return e, err
	}
	for _, s := range samples {
		if err := t.logs[rundir.SamplesFile].Append(s.Sample); err != nil {
			return e, err
		}
	}
	return e, nil
}
