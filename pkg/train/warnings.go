package train

import (
	"fmt"
	"math"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/infer"
	"grpo/pkg/rundir"
)

// divergence ends a run whose numbers are no longer finite. It is a result.
type divergence struct{ reason string }

func (d *divergence) Error() string { return d.reason }

// collapse updates whether the validation reward has collapsed: it is below half of the best so
// far, and the gap exceeds four standard errors of the difference of two such shares of its problems. A
// run can recover; the recorded step is the first of the last collapse.
func (s *state) collapse(e rundir.Eval) {
	best, now, n := s.Best.Sampled.AnswerReward, e.Sampled.AnswerReward, float64(e.Problems())
	se := math.Sqrt((float64(best*(1-best)) + float64(now*(1-now))) / n)
	if now >= best/2 || best-now <= 4*se {
		s.DivergedAt, s.DivergedReason = nil, ""
		return
	}
	if s.DivergedAt == nil {
		step := e.Step
		s.DivergedAt = &step
		s.DivergedReason = fmt.Sprintf("validation reward fell to %.3f from %.3f at step %d", now, best, s.Best.Step)
	}
}

// detectCollapse updates the run's divergence after an evaluation and notes changes.
func (t *trainer) detectCollapse(e rundir.Eval) {
	was := t.state.DivergedAt
	t.state.collapse(e)
	switch now := t.state.DivergedAt; {
	case was == nil && now != nil:
		what := "the run continues (--stop-on-divergence would end it)"
		if t.cfg.Train.StopOnDivergence {
			what = "the run ends here (--stop-on-divergence, train.stop_on_divergence)"
		}
		t.note("diverged at step %d: %s; %s", *now, t.state.DivergedReason, what)
	case was != nil && now == nil:
		t.note("step %d: the validation reward has recovered to %.3f", e.Step, e.Sampled.AnswerReward)
	}
}

// diverge ends the run because its numbers are no longer finite. The step may have made some of its updates.
func (t *trainer) diverge(step int, d *divergence) {
	t.sampler.Refresh()
	t.state.DivergedAt, t.state.DivergedReason, t.state.Stopped = &step, d.reason, true
	t.note("diverged at step %d: %s", step, d.reason)
}

// stopped reports whether the run has ended early.
func (t *trainer) stopped() bool {
	return t.state.Stopped || t.cfg.Train.StopOnDivergence && t.state.DivergedAt != nil
}

func (t *trainer) note(format string, args ...any) {
	t.opts.Observer.Note(fmt.Sprintf(format, args...))
}

// noteObstacles notes, before the first step, settings without effect and anything that will
// prevent learning.
func (t *trainer) noteObstacles() {
	p := t.data.problems
	for _, s := range config.InertSettings(t.cfg) {
		if t.opts.Chosen == nil || t.opts.Chosen(s.Key) {
			t.note("%s", s.Text)
		}
	}
	if rate, usual := t.cfg.Train.LearningRate, usualLoRARate(t.cfg); rate > 0 && rate < usual/5 {
		t.note("train.learning_rate %s is far below what LoRA needs, about ten times the rate of full fine-tuning: "+
			"for adapters of this model %.1g is usual", textutil.Number(rate), usual)
	}
	if note := cutNote(t.cfg); note != "" {
		t.note("%s", note)
	}
	t.noteExamples()
	outside := 0
	for _, x := range p.Train {
		if !t.Policy.Knows(x.Question) {
			outside++
		}
	}
	if outside > 0 {
		t.note("%d of %d training questions hold characters outside the vocabulary; they are read as "+
			"<unk>", outside, len(p.Train))
	}
	if n := len(t.data.pairs.list); n > 0 {
		step := t.cfg.Rollout.RolloutBatchSize / 2
		t.note("%s: %d pairs, %d in each step: %.3g passes over the file", t.data.pairs.path, n, step,
			float64(t.cfg.Train.NGRPOSteps)*float64(step)/float64(n))
	}
	for _, f := range []filePairs{t.data.pairs, t.data.evalPairs} {
		if left := f.report.String(); left != "" {
			t.note("%s: %s", f.path, left)
		}
	}
	for _, note := range p.Notes {
		t.note("%s", note)
	}
	// The recipe of the embedded base model avoids only the evaluation problems of its own
	// generator seed.
	if t.cfg.Model.Init != "base" || t.cfg.Data.Source != "generated" {
		return
	}
	recipe, err := config.LoadSFT(config.LoadOptions{Path: "base"})
	if err != nil {
		return // the embedded recipe is tested; do not stop for it
	}
	if base, seed := recipe.Config.Data.GeneratorSeed, t.cfg.Data.GeneratorSeed; base != seed {
		t.note("the base model was made from the problems of data.generator_seed %d: with %d, the validation, "+
			"test and unseen problems include questions that it was trained on", base, seed)
	}
}

// noteExamples notes a worked example of the prompt whose answer the verifier does not find: completions follow it.
func (t *trainer) noteExamples() {
	a := t.cfg.Answers()
	if a.Kind() == gsm8k.KindNone || t.cfg.Eval.Reward != "" {
		return
	}
	for i, x := range t.data.template.Examples {
		if !a.Grade(x.Answer, true, gsm8k.Problem{}).Formatted {
			where, _ := a.ExtractedFrom()
			t.note("worked example %d of the prompt has no answer where reward.extract (%s) looks, and completions "+
				"will follow it: name a data.few_shot_file whose answers have the form, or another reward.extract", i+1, where)
			return
		}
	}
}

// usualLoRARate is ten times the learning rate of full fine-tuning, which is 2e-5 for SmolLM2 and
// falls with the width of the network (Schulman and Thinking Machines Lab, "LoRA without regret",
// 2025). It is 0 without LoRA.
func usualLoRARate(c config.Config) float64 {
	if c.Train.LoRA.Rank == 0 {
		return 0
	}
	return 10 * 2e-5 * 576 / float64(c.Model.HiddenSize)
}

// warnings explains, with numbers, what kept a finished run from learning.
// weights is the checksum of its weights.
func (t *trainer) warnings(weights string) []string {
	s := &t.state
	out := append([]string{}, s.Moves...)
	warn := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if s.DivergedAt != nil {
		warn("the run diverged at step %d: %s", *s.DivergedAt, s.DivergedReason)
	}
	if s.Groups > 0 && s.Signal == 0 {
		warn("the run learned nothing: none of %d groups had a learning signal, such as rewards that differ; "+
			"%d of %d training completions were right", s.Groups, s.Right, s.Completions)
	}
	if s.WithoutPairs > 0 {
		warn("%d of %d steps had no pair (algorithm.dpo.pairs %s) and made no update",
			s.WithoutPairs, s.Step, t.cfg.Algorithm.DPO.Pairs)
	}
	if t.opt.T > 0 && strings.HasSuffix(t.inputs.Init, weights) {
		warn("the weights did not move in %d updates (learning rate %s)", t.opt.T,
			textutil.Number(t.cfg.Train.LearningRate))
	}
	if c := s.Final.Sampled; c.Score != nil && c.CorrectNum == 0 && s.Initial.Sampled.CorrectNum == 0 {
		warn("no completion was right: eval.reward %s gave none the value 1, so the share of right answers says nothing; "+
			"its mean went from %.4g to %.4g (use a function that is 1 where a completion is good enough)", t.cfg.Eval.Reward,
			*s.Initial.Sampled.Score, *c.Score)
	}
	if e := s.Final; e.MajorityAnswer != "" && e.Sampled.AnswerReward <= e.MajorityBaseline {
		warn("%d correct of %s, sampled: no better than always answering %s (%.3f)",
			e.Sampled.CorrectNum, e.OutOf("validation problem"), e.MajorityAnswer, e.MajorityBaseline)
	}
	for _, e := range []*rundir.Eval{&s.Final, s.Unseen, s.Test} {
		if e != nil {
			out = append(out, infer.CutWarnings(*e, t.cfg.Eval.MaxTokens)...)
		}
	}
	return out
}

// Top-k, top-p and the minimum length cut tokens off the distribution that completions are sampled
// from. docs/algorithms.md ("Cut sampling") explains what that means for the gradient.

// cutNote says what a run with cut sampling trains on; "" if nothing is cut off or rollout.logprobs is
// sampled, and for dpo, whose loss is about the full distribution.
func cutNote(c config.Config) string {
	r := c.Rollout
	var by []string
	if r.SamplingTopP < 1 {
		by = append(by, "rollout.sampling_top_p "+textutil.Number(r.SamplingTopP))
	}
	if r.SamplingTopK > 0 {
		by = append(by, fmt.Sprint("rollout.sampling_top_k ", r.SamplingTopK))
	}
	if r.SamplingMinTokens > 0 {
		by = append(by, fmt.Sprint("rollout.sampling_min_tokens ", r.SamplingMinTokens))
	}
	if len(by) == 0 || c.Algorithm.Type == "dpo" || r.LogProbs == "sampled" {
		return ""
	}
	return fmt.Sprintf("completions are sampled from a part of the vocabulary (%s), but log-probabilities and their "+
		"gradient are those of all of it, so the gradient is biased: kept_mass in metrics.jsonl is the probability of "+
		"the part; set rollout.logprobs to sampled, on the CPU, or leave the setting out", strings.Join(by, ", "))
}

// keptMass is the mean over tokens of the probability of those that could be sampled at its place; nil
// if none was cut off.
func (r *rollout) keptMass() *float64 {
	var sum float64
	for _, c := range r.completions {
		sum += c.KeptMass
	}
	if sum == 0 {
		return nil
	}
	sum /= float64(r.tokens)
	return &sum
}
