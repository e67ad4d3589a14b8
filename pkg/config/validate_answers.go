package config

import (
	"slices"
	"strings"

	"grpo/pkg/gsm8k"
)

// extraction checks where the answer is in a completion.
func (v *validator) extraction(d *Data, extract *string) {
	if _, err := d.answers(*extract); err != nil && slices.Contains(gsm8k.Kinds(), d.Answer) {
		v.reject("%s: %s", extract, err.Error())
	}
}

// validateAnswers checks what answers are, and who decides what is right.
func (c *Config) validateAnswers(v *validator) {
	d, r, judge := &c.Data, &c.Reward, &c.Eval.Reward
	v.extraction(d, &r.Extract)
	if known := r.names(); *judge != "" && !slices.Contains(known, *judge) {
		v.reject("%s must be one of %s", judge, strings.Join(known, ", "))
	}
	if *judge == "random" {
		v.reject("%s decides nothing: it is a coin flip (name a function that checks the answer)", judge)
	}
	if d.Answer == string(gsm8k.KindNone) && *judge == "" && v.only != NoSplit {
		v.reject("%s has no right answer, so evaluations need a function that judges completions: set eval.reward, for "+
			"example to %s", &d.Answer, judgeFor(r))
	}
	for _, use := range []struct {
		field any
		names []string
	}{{&r.Functions, append(slices.Clip(r.Functions), r.Verifiers()...)}, {judge, []string{*judge}}} {
		for _, name := range use.names {
			if slices.Contains(gsm8k.Rewards(), name) && !gsm8k.Scores(name, gsm8k.Kind(d.Answer)) {
				v.reject("%s: %s can't score answers of %s (use %s)", use.field, name, &d.Answer,
					strings.Join(gsm8k.ScoresKind(gsm8k.Kind(d.Answer)), ", "))
				break
			}
		}
	}
}

// judgeFor is a function that could judge open prompts: the first that does not need a right answer.
func judgeFor(r *Reward) string {
	for _, name := range r.Functions {
		if r.customReward(name) != nil || gsm8k.Scores(name, gsm8k.KindNone) {
			return name
		}
	}
	return "one of your own (docs/rewards.md)"
}
