package config

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"grpo/pkg/gsm8k"
	"grpo/pkg/reward"
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
		v.reject("%s must name the function that judges evaluations, because of %s: open prompts have no right answer "+
			"(for example %s)", judge, &d.Answer, judgeFor(r))
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

// WriteJudge writes what decides what is right in evaluations; nothing for numbers after "####".
func (c *Config) WriteJudge(w io.Writer) error {
	r := Resolve(*c)
	for _, k := range keysOf(&r) {
		judge := strings.HasPrefix(k.path, "reward.custom.") && r.Eval.Reward != "" && !k.outsideHash
		if slices.Contains([]string{"data.answer", "data.ignore_case", "reward.extract", "eval.reward"}, k.path) || judge {
			if !k.isNeutral() {
				_, _ = fmt.Fprintf(w, "%s: %s\n", k.path, k.format()) // to a hash
			}
		}
	}
	if r.Eval.Reward == "" {
		return nil
	}
	for _, custom := range r.Reward.Custom {
		files, err := reward.HashFiles(custom.Command)
		if err != nil {
			return err
		}
		for _, path := range slices.Sorted(maps.Keys(files)) {
			_, _ = fmt.Fprintf(w, "%s: %s\n", path, files[path])
		}
	}
	return nil
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
