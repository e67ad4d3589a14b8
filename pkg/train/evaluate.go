package train

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"

	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/policy"
	"grpo/pkg/rng"
	"grpo/pkg/rundir"
)

// Evaluation has the settings of an evaluation.
type Evaluation struct {
	Seed     uint64
	Template gsm8k.Template
	Sampling model.Sampling // of the sampled decoding
	Greedy   bool           // decode greedily too
	Samples  int            // completions to keep as rundir.Sample, per decoding mode
	Finite   bool           // logits that are not finite are an error; a training run records them as a divergence
	Progress model.Progress
	Stop     func() error // its error ends the evaluation; nil = never
}

// evaluationOf returns the settings of a configuration's evaluations. They come from
// the section eval alone: rollout settings differ between the arms of a sweep, and
// the measurement must not depend on them.
func evaluationOf(c config.Config, template gsm8k.Template) Evaluation {
	e := c.Eval
	return Evaluation{Seed: c.Seed, Template: template, Greedy: e.Greedy, Samples: e.SaveSamples,
		Sampling: model.Sampling{
			Temperature: e.Temperature, TopP: e.TopP, TopK: e.TopK, MinTokens: e.MinTokens, MaxTokens: e.MaxTokens,
		}}
}

// splitStream gives each split its own random numbers. Those of a set depend on its
// name, not on the other sets.
func splitStream(split string) uint32 {
	own := []string{rundir.SplitVal, rundir.SplitUnseen, rundir.SplitTest, rundir.SplitTrain}
	if i := slices.Index(own, split); i >= 0 {
		return uint32(i)
	}
	h := fnv.New32a()
	_, _ = io.WriteString(h, split) // never fails
	return h.Sum32() | 1<<31
}

// Evaluate decodes every problem of a split, once sampled and, with e.Greedy,
// once greedily, and counts the outcomes. The random numbers depend on seed,
// split, step and the problem's index, not on the batch. With the error of e.Stop come the counts and samples of
// the completions that are complete.
func Evaluate(p model.Policy, s model.Sampler, e Evaluation, split string, problems []gsm8k.Problem,
	step int) (rundir.Eval, []EvalSample, error) {
	out := rundir.Eval{Step: step, Split: split}
	out.MajorityAnswer, out.MajorityBaseline = gsm8k.MajorityAnswer(problems)
	prompts := policy.EncodePrompts(p, e.Template, problems)
	draws := model.Draws{Stream: rng.New(e.Seed, rng.Evaluation), A: uint32(step), C: splitStream(split)}
	names, settings := []string{"sampled"}, []model.Sampling{e.Sampling}
	if e.Greedy {
		greedy := e.Sampling
		greedy.Greedy, greedy.TopK, greedy.TopP = true, 0, 1
		names, settings = append(names, "greedy"), append(settings, greedy)
	}
	watch := e.Progress.Watch("evaluating "+split, len(settings)*len(prompts), e.Sampling.MaxTokens, e.Stop)
	for i := range settings {
		settings[i].Watch = watch
	}
	completions, err := model.SampleEach(s, prompts, 1, settings, draws)
	stopped := err != nil && e.Stop != nil && errors.Is(err, e.Stop())
	if err != nil && !stopped {
		return out, nil, err
	}
	var kept []EvalSample
	for mode, name := range names[:len(completions)] {
		if e.Finite {
			if err := checkFinite(completions[mode]); err != nil {
				return out, nil, fmt.Errorf("evaluate %s, %s: %w", split, name, err)
			}
		}
		var tally counter
		for i, c := range completions[mode] {
			if !e.Sampling.Complete(c) {
				continue
			}
			text := p.Decode(c.Tokens)
			v := gsm8k.Grade(text, c.Ended, problems[i].Gold)
			tally.add(v, c)
			if tally.n <= e.Samples {
				sample := newSample(e.Template, problems[i], c, text, v)
				sample.Step, sample.Split, sample.Decoding, sample.Reward = step, split, name, one(v.Right)
				kept = append(kept, EvalSample{sample, problems[i].Question, cmp.Or(sample.Why(), "right")})
			}
		}
		counts := tally.counts()
		if name == "greedy" {
			out.Greedy = &counts
		} else {
			out.Sampled = counts
		}
	}
	return out, kept, err
}

// checkFinite returns an error if a token was chosen from logits that are not finite.
func checkFinite(completions []model.Completion) error {
	for i, c := range completions {
		for j, p := range c.LogProbs {
			if notFinite(float64(p)) {
				return fmt.Errorf("completion %d, token %d: the log-probability is %v, because the model's logits are not finite "+
					"(its weights are too large: are they damaged, or those of a run that diverged?)", i+1, j+1, p)
			}
		}
	}
	return nil
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// counter counts the outcomes of completions.
type counter struct {
	n, right, wrong, unformatted, truncated int
	length, lengthRight                     int // tokens
}

func (c *counter) add(v gsm8k.Verdict, x model.Completion) {
	c.n++
	c.length += len(x.Tokens)
	switch {
	case v.Right:
		c.right++
		c.lengthRight += len(x.Tokens)
	case v.Formatted:
		c.wrong++
	default:
		c.unformatted++
	}
	if !x.Ended {
		c.truncated++
	}
}

func (c *counter) counts() rundir.Counts {
	mean := func(sum, n int) *float64 {
		if n == 0 {
			return nil
		}
		v := float64(sum) / float64(n)
		return &v
	}
	n := float64(max(c.n, 1))
	return rundir.Counts{
		N: c.n, CorrectNum: c.right, ErrorNum: c.n - c.right,
		FormattedRight: c.right, FormattedWrong: c.wrong, Unformatted: c.unformatted, Truncated: c.truncated,
		AnswerReward: float64(c.right) / n, FormatReward: float64(c.right+c.wrong) / n, Length: float64(c.length) / n,
		LengthRight: mean(c.lengthRight, c.right), LengthWrong: mean(c.length-c.lengthRight, c.n-c.right),
	}
}

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
	settings := evaluationOf(t.cfg, t.data.template)
	settings.Progress = t.opts.Progress
	e, samples, err := Evaluate(t.Policy, t.sampler, settings, split, problems, step)
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
