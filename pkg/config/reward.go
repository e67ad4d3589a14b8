package config

import (
	"cmp"
	"slices"
	"strings"

	"grpo/internal/pattern"
	"grpo/pkg/gsm8k"
	"grpo/pkg/reward"
	"grpo/pkg/rl"
)

// Reward names the reward functions of training, their weights and their parameters. Lengths are in
// tokens including <eos>; the maximum is rollout.sampling_max_tokens.
type Reward struct {
	// Functions are of [gsm8k.Rewards], or names in Custom.
	Functions     []string  `yaml:"functions" of:"rewards" needs:"rollouts"`
	RewardWeights []float64 `yaml:"reward_weights" in:"moderate" needs:"rollouts comparison"` // one for each function
	// Custom are the functions that the user defines. [Resolve] leaves out those that Functions does
	// not name.
	Custom []CustomReward `yaml:"custom"`
	// Extract is where the answer is in a completion: see [gsm8k.Extractions].
	Extract string `yaml:"extract,omitempty" neutral:"auto"`
	// MultiObjectiveAggregation is how several functions become advantages. Its second value is GDPO's.
	MultiObjectiveAggregation string `yaml:"multi_objective_aggregation" of:"reward-aggregations" neutral:"sum_then_normalize" needs:"rollouts"`
	// The parameters of the built-in functions. An empty CosineCorrect is filled in by [Resolve] if cosine is used.
	gsm8k.RewardParams
}

// CustomReward is a reward function that the user defines. It has one of Command, Pattern, Expr and Model.
// In a file it is written in reward.functions, where its name stands otherwise:
//
//	functions: [answer, {name: brevity, command: [python3, my_reward.py], weight: 0.5}]
type CustomReward struct {
	// Name is that of the function in reward.functions and in metrics.
	Name    string   `yaml:"name"`
	Command []string `yaml:"command" neutral:"[]"` // program and arguments, started without a shell
	Pattern string   `yaml:"pattern" neutral:""`   // an RE2 pattern: 1 if it matches
	Expr    string   `yaml:"expr" neutral:""`      // an expression
	// Model is the path of a reward model: the folder of `grpo reward-model`, a Hugging Face folder of a
	// network for sequence classification, or a safetensors file.
	Model string `yaml:"model" neutral:""`
	// OnError: "fail" ends the run, "null" trains the completions concerned without this reward.
	OnError string `yaml:"on_error" of:"fail|null" neutral:"fail"`

	// For commands: seconds for the answer to one batch, the number of processes, and how often a
	// process that ended or did not answer is started again for one batch. Equal completions get equal rewards
	// whatever their values.
	Timeout  float64 `yaml:"timeout" in:"[0.001,1e6]" neutral:"60" hash:"-"`
	Workers  int     `yaml:"workers" in:"[1,256]" neutral:"1" hash:"-"`
	Restarts int     `yaml:"restarts" in:"[0,100]" neutral:"1" hash:"-"`
	// Reuse: the user says that the reward of a completion depends on this completion alone, so that equal ones are
	// scored once in a run. It is in the hash because a command of which this is not true gives other rewards.
	Reuse bool `yaml:"reuse,omitempty" neutral:"false"`
}

// LearnedReward is the name of a reward model that is given none.
const LearnedReward = "learned"

// SetDefaults sets the keys that a function need not give.
func (r *CustomReward) SetDefaults() {
	*r = CustomReward{Command: []string{}, OnError: "fail", Timeout: 60, Workers: 1, Restarts: 1}
}

// cosineBase is the function that cosine scales.
func (r *Reward) cosineBase() string {
	if i := slices.IndexFunc(r.Functions, isVerifier); i >= 0 && r.CosineCorrect == "" {
		return r.Functions[i]
	}
	return cmp.Or(r.CosineCorrect, "answer")
}

func isVerifier(function string) bool { return slices.Contains(gsm8k.Verifiers(), function) }

// Verifiers are the functions in use that decide right or wrong: by themselves, and for cosine.
func (r *Reward) Verifiers() []string {
	out := slices.DeleteFunc(slices.Clone(r.Functions), func(f string) bool { return !isVerifier(f) })
	if base := r.cosineBase(); slices.Contains(r.Functions, "cosine") && !slices.Contains(out, base) {
		out = append(out, base)
	}
	return out
}

// validateNoise checks for what a noisy verifier and its correction exclude.
func (r *Reward) validateNoise(v *validator, a *Algorithm) {
	n := &r.Noise
	rate := &n.FalsePositive
	if *rate == 0 {
		rate = &n.FalseNegative
	}
	if n.On() && len(r.Verifiers()) > 1 {
		v.reject("%s needs one verifier, but %s has several: %s (leave all but one out)", rate, &r.Functions,
			strings.Join(r.Verifiers(), ", "))
	}
	if n.Correction == rl.NoCorrection || !n.On() {
		return
	}
	if n.FalsePositive+n.FalseNegative >= 1 {
		v.reject("%s and %s must add up to less than 1, because of %s: a verifier that errs so often says nothing "+
			"about the answer, or the opposite", &n.FalsePositive, &n.FalseNegative, &n.Correction)
	}
	v.compatible(!slices.Contains(r.Functions, "cosine"), &n.Correction, &r.Functions,
		"it is derived for rewards of 0 and 1, and cosine has others")
	v.compatible(a.Normalizer != rl.NormalizerGroupMean && a.Normalizer != rl.NormalizerGPG, &n.Correction, &a.Normalizer,
		"it makes the rewards of wrong answers negative, and this normalizer is for rewards from 0 on")
}

// customReward returns the custom function of a name, or nil.
func (r *Reward) customReward(name string) *CustomReward {
	if i := slices.IndexFunc(r.Custom, func(c CustomReward) bool { return c.Name == name }); i >= 0 {
		return &r.Custom[i]
	}
	return nil
}

// usedCustom lists the custom functions in use, in the order of reward.functions, and last the judge, eval.reward.
func (r *Reward) usedCustom(judge string) (out []CustomReward) {
	names := r.Functions
	if judge != "" && !slices.Contains(names, judge) {
		names = append(slices.Clip(names), judge)
	}
	for _, name := range names {
		if c := r.customReward(name); c != nil {
			out = append(out, *c)
		}
	}
	return out
}

// customName is the form of names, which are part of metrics' names.
var customName = pattern.Of(`^[A-Za-z][A-Za-z0-9_-]{0,39}$`)

func (r *Reward) validateCustom(v *validator) {
	for i := range r.Custom {
		c := &r.Custom[i]
		switch {
		case !customName().MatchString(c.Name):
			v.reject("%s must be a letter and up to 39 letters, digits, underscores and hyphens", &c.Name)
		case slices.Contains(gsm8k.Rewards(), c.Name):
			v.reject("%s is the name of a built-in reward function (choose another)", &c.Name)
		case r.customReward(c.Name) != c:
			v.reject("%s: two reward functions have this name", &c.Name)
		}
		c.validate(v)
	}
}

func (c *CustomReward) validate(v *validator) {
	given := 0
	for _, has := range []bool{len(c.Command) > 0, c.Pattern != "", c.Expr != "", c.Model != ""} {
		if has {
			given++
		}
	}
	if given != 1 {
		v.reject("%s must have one of command, pattern, expr and model, not %d of them", &c.Name, given)
		return
	}
	var err error
	switch {
	case len(c.Command) > 0:
		if slices.Contains(c.Command, "") {
			v.reject("%s: a word is empty", &c.Command)
		}
		return
	case c.Pattern != "":
		if err = reward.CheckPattern(c.Pattern); err != nil {
			v.reject("%s: %s", &c.Pattern, err.Error())
		}
		v.noEffect(&c.Pattern, "a pattern cannot fail", &c.OnError)
	case c.Model != "":
	default:
		if err = reward.CheckExpr(c.Expr); err != nil {
			v.reject("%s: %s", &c.Expr, err.Error())
		}
	}
	v.noEffect(&c.Name, "it is for a command", &c.Timeout, &c.Workers, &c.Restarts, &c.Reuse)
}

// names lists the built-in reward functions and the custom ones.
func (r *Reward) names() []string {
	out := gsm8k.Rewards()
	for _, c := range r.Custom {
		out = append(out, c.Name)
	}
	return out
}
