package gsm8k

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"grpo/pkg/rl"
	"grpo/pkg/rng"
)

// RewardInput is the input of a reward function.
type RewardInput struct {
	// Completion is the sampled text, without <eos> and without the prompt. A tag at
	// the end of the prompt ("<think>" in the r1_zero template) is not part of it:
	// see [Template.Opening].
	Completion string
	// Tokens is the completion's length in tokens, <eos> included; MaxTokens is
	// the sampling limit. Rewards that shape length use them.
	Tokens    int
	MaxTokens int
	// TokenIDs are the completion's tokens, <eos> included. If nil, the characters
	// of Completion replace them, followed by an end mark if Ended; for a character
	// tokenizer that is the same.
	TokenIDs []int
	Ended    bool // by <eos>, not by the token limit
	Problem  Problem
	// Answers say what is right, and Verdict is the result of [Answers.Grade]; nil makes the rewards that need it grade
	// the completion.
	Answers Answers
	Verdict *Verdict
	// Noise is uniform in [0, 1); see [RewardNoise]. Only the random control
	// reward uses it.
	Noise float64
	// VerdictDraw is uniform in (0, 1]; see [VerdictDraw]. At 0 the verifier does not err.
	VerdictDraw float64
}

// grade returns the completion's verdict.
func (in RewardInput) grade() Verdict {
	if in.Verdict != nil {
		return *in.Verdict
	}
	return in.Answers.Grade(in.Completion, in.Ended, in.Problem)
}

// tokenIDs returns the tokens, or their replacement.
func (in RewardInput) tokenIDs() []int {
	if in.TokenIDs != nil {
		return in.TokenIDs
	}
	ids := make([]int, 0, len(in.Completion)+1)
	for _, r := range in.Completion {
		ids = append(ids, int(r))
	}
	if in.Ended {
		ids = append(ids, -1)
	}
	return ids
}

// RewardParams are the parameters of reward functions; each function checks its own. The tags make them keys of the
// section reward of the configuration (see the package comment of pkg/config). Lengths are in tokens.
type RewardParams struct {
	// The defaults, in configs/default.yaml, are TRL's for repetition and open-r1's for cosine (but over the sampling
	// limit instead of 1000 characters).

	// OverlongCache is the width of soft_overlong's ramp, up to the sampling limit; 0 means a fifth of the limit,
	// DAPO's ratio (4096 of 20480), and at least 1. It is TRL's soft_punish_cache.
	OverlongCache int `yaml:"overlong_cache" neutral:"0" in:"tokensOrNone" needs:"reward.soft_overlong rollouts"`
	// RepetitionNGrams is the width of repetition's n-grams; RepetitionMaxPenalty is its value for a text that only
	// repeats.
	RepetitionNGrams int `yaml:"repetition_n_grams" neutral:"3" in:"[1,100]" needs:"reward.repetition rollouts"`

	RepetitionMaxPenalty float64 `yaml:"repetition_max_penalty" neutral:"-1" in:"[-1e6,0]" needs:"reward.repetition rollouts"`
	// CosineCorrect names the reward that decides whether the answer is right: one of [Verifiers], answer if empty.
	// CosineMaxLen is the length at which the cosine ends; 0 means the sampling limit. See [CosineRange].
	CosineCorrect    string  `yaml:"cosine_correct" neutral:"" of:"verifiers|" needs:"reward.cosine rollouts"`
	CosineMaxLen     int     `yaml:"cosine_max_len" neutral:"0" in:"tokensOrNone" needs:"reward.cosine rollouts"`
	CosineMinCorrect float64 `yaml:"cosine_min_value_correct" neutral:"0.5" in:"moderate" needs:"reward.cosine rollouts"`
	CosineMaxCorrect float64 `yaml:"cosine_max_value_correct" neutral:"1" in:"moderate" needs:"reward.cosine rollouts"`
	CosineMinWrong   float64 `yaml:"cosine_min_value_wrong" neutral:"-1" in:"moderate" needs:"reward.cosine rollouts"`
	CosineMaxWrong   float64 `yaml:"cosine_max_value_wrong" neutral:"-0.5" in:"moderate" needs:"reward.cosine rollouts"`

	// Noise flips the verdicts of the functions that decide right or wrong, and of cosine.
	Noise rl.VerifierNoise `yaml:"noise,omitempty"`
}

// RewardFunc maps one completion to one reward. It is a pure function: equal
// inputs give equal rewards, in any order, on any worker. NaN means that the
// function cannot score the completion, which the weighted sum then leaves out.
type RewardFunc func(RewardInput) float64

// rewardKind is a row of the table of reward functions.
type rewardKind struct {
	name string
	// decides: it is 1 for a right answer and 0 for a wrong one. negative: it may be below 0.
	decides, negative bool
	// kinds are those of the answers that it can score; nil = all.
	kinds []Kind
	// make returns the function; opening is the tag at the end of the prompt ([Template.Opening]).
	make func(p RewardParams, opening string) (RewardFunc, error)
}

// rewardTable lists the reward functions, in the order of [Rewards]. It is no variable because cosine looks up another
// reward.
func rewardTable() []rewardKind {
	type maker = func(RewardParams, string) (RewardFunc, error)
	plain := func(f RewardFunc) maker {
		return func(RewardParams, string) (RewardFunc, error) { return f, nil }
	}
	with := func(f func(RewardParams) (RewardFunc, error)) maker {
		return func(p RewardParams, _ string) (RewardFunc, error) { return f(p) }
	}
	return []rewardKind{
		{name: "answer", decides: true, kinds: withAnswer,
			make: plain(func(in RewardInput) float64 { return indicator(in.grade().Right) })},
		{name: "format", make: plain(func(in RewardInput) float64 { return indicator(in.grade().Formatted) })},
		{name: "random", make: plain(func(in RewardInput) float64 { return indicator(in.Noise < 0.5) })},
		{name: "r1_zero", decides: true, kinds: spelled, make: plain(assignmentReward(gradeR1Zero))},
		{name: "question_only", decides: true, kinds: spelled, make: plain(assignmentReward(gradeQuestionOnly))},
		{name: "think_format", make: func(_ RewardParams, opening string) (RewardFunc, error) {
			return func(in RewardInput) float64 { return indicator(ThinkFormat(opening + in.Completion)) }, nil
		}},
		{name: "soft_overlong", negative: true, make: with(newSoftOverlong)},
		{name: "repetition", negative: true, make: with(newRepetition)},
		{name: "cosine", negative: true, kinds: withAnswer, make: with(newCosine)},
		{name: "last_number", decides: true, kinds: numeric, make: plain(lastNumberReward)},
		{name: "countdown", kinds: []Kind{KindCountdown}, make: plain(countdownReward)},
	}
}

// Kinds of answers that reward functions score.
var (
	numeric    = []Kind{KindNumber, KindMath}
	spelled    = append([]Kind{KindText, KindChoice}, numeric...)
	withAnswer = append([]Kind{KindCountdown}, spelled...)
)

// Scores reports whether a reward function can score answers of a kind.
func Scores(reward string, k Kind) bool { return slices.Contains(ScoresKind(k), reward) }

// ScoresKind lists the reward functions that can score answers of a kind.
func ScoresKind(k Kind) []string {
	k = cmp.Or(k, KindNumber)
	return rewardsWith(func(r rewardKind) bool { return r.kinds == nil || slices.Contains(r.kinds, k) })
}

// Rewards lists the names of the reward functions.
func Rewards() []string { return rewardsWith(func(rewardKind) bool { return true }) }

// Verifiers lists the rewards that are 1 for a right answer and 0 for a wrong one: the values of
// [RewardParams].CosineCorrect, and those that [RewardParams].Noise flips.
func Verifiers() []string { return rewardsWith(func(r rewardKind) bool { return r.decides }) }

// NegativeRewards lists the rewards that may be below 0.
func NegativeRewards() []string { return rewardsWith(func(r rewardKind) bool { return r.negative }) }

func rewardsWith(has func(rewardKind) bool) (names []string) {
	for _, r := range rewardTable() {
		if has(r) {
			names = append(names, r.name)
		}
	}
	return names
}

// NewReward returns the reward function of a name:
//
//	answer         1 iff ended, with the right answer, by default after the last "####" ([Answers.Grade])
//	format         1 iff ended, with any answer there
//	random         a fair coin, a control that must not help
//	r1_zero        the assignment's grader for <think> and <answer> ([GradeR1Zero])
//	question_only  the assignment's grader for \boxed ([GradeQuestionOnly])
//	think_format   TRL's think format, 0 or 1 ([ThinkFormat])
//	soft_overlong  DAPO's length punishment, -1 to 0 ([SoftOverlong])
//	repetition     TRL's repetition penalty, RepetitionMaxPenalty to 0 ([RepetitionPenalty])
//	cosine         cosine length scaling of right and wrong answers ([CosineScaled])
//	last_number    1 iff the last number is the gold one ([LastNumber])
//	countdown      1 for a right expression of a [Countdown], 0.1 for a wrong one, else 0
//
// opening is the tag at the end of the prompt that think_format counts as the start of the completion
// ([Template.Opening]); empty if the policy writes the tag itself. An unknown name and a parameter out of range are
// errors.
func NewReward(name string, p RewardParams, opening string) (RewardFunc, error) {
	for _, r := range rewardTable() {
		if r.name != name {
			continue
		}
		f, err := r.make(p, opening)
		if err != nil {
			return nil, fmt.Errorf("make reward function %s: %w", name, err)
		}
		if r.decides && p.Noise.On() {
			return noisy(f, p.Noise), nil
		}
		return f, nil
	}
	return nil, fmt.Errorf("look up reward function: %w", unknownName(name, Rewards()))
}

func indicator(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// RewardNoise returns the uniform number in [0, 1) of one completion, a pure
// function of the run's seed, the step, the index of the prompt in the rollout batch
// and the index of the sample in its group.
func RewardNoise(seed uint64, step, prompt, sample int) float64 {
	return rng.New(seed, rng.Noise).Float64(uint32(step), uint32(prompt), uint32(sample), 0)
}

// VerdictDraw returns the number in (0, 1] that decides whether the verifier errs about a completion, like
// [RewardNoise].
func VerdictDraw(seed uint64, step, prompt, sample int) float64 {
	return 1 - rng.New(seed, rng.Verdict).Float64(uint32(step), uint32(prompt), uint32(sample), 0)
}

// noisy is a function that decides right or wrong, with errors. NaN stays NaN.
func noisy(decides RewardFunc, n rl.VerifierNoise) RewardFunc {
	return func(in RewardInput) float64 {
		r := decides(in)
		if math.IsNaN(r) {
			return r
		}
		return n.Reward(n.Verdict(r == 1, in.VerdictDraw))
	}
}

// assignmentReward is the reward of one of the assignment's graders; NaN for a problem without a
// gold answer. Texts and choices are compared as [Answers] does: by the algebra of the graders "5 km" equals "5 miles"
// and ba equals ab.
func assignmentReward(grade func(response string, right func(answer string) bool) R1Verdict) RewardFunc {
	return func(in RewardInput) float64 {
		gold := in.Problem.Gold
		if gold == "" {
			return math.NaN()
		}
		right := equalToAny([]string{gold})
		if kind := in.Answers.Kind(); kind == KindText || kind == KindChoice {
			right = func(answer string) bool { return in.Answers.judge(answer, gold).Right }
		}
		return grade(in.Completion, right).Reward
	}
}

// lastNumberReward is 1 iff the last number of the completion is the gold one, whether or not the
// completion ended. It is NaN if gold is not a number.
func lastNumberReward(in RewardInput) float64 {
	if !SameNumber(in.Problem.Gold, in.Problem.Gold) {
		return math.NaN()
	}
	value, ok := LastNumber(in.Completion)
	return indicator(ok && SameNumber(value, in.Problem.Gold))
}

const thinkOpen, thinkClose = "<think>", "</think>"

// ThinkFormat reports whether a completion has the form of TRL's think_format_reward, the pattern
// ^<think>(?!.*<think>)(.*?)</think>.*$ over all lines: it starts with "<think>", which occurs
// once, and a "</think>" follows. Anything may follow, even a second "</think>".
//
// The text includes the opening tag. A prompt of the r1_zero template ends in "<think>", so there
// the tag is put before the completion: see [Template.Opening].
func ThinkFormat(text string) bool {
	rest, ok := strings.CutPrefix(text, thinkOpen)
	return ok && strings.Contains(rest, thinkClose) && !strings.Contains(rest, thinkOpen)
}

// newSoftOverlong returns the reward of [SoftOverlong], NaN without a sampling limit.
func newSoftOverlong(p RewardParams) (RewardFunc, error) {
	if p.OverlongCache < 0 {
		return nil, fmt.Errorf("the cache is %d; it must not be negative (0 means a fifth of the limit)", p.OverlongCache)
	}
	return func(in RewardInput) float64 {
		if in.MaxTokens <= 0 {
			return math.NaN()
		}
		return SoftOverlong(in.Tokens, in.MaxTokens, cmp.Or(p.OverlongCache, max(in.MaxTokens/5, 1)))
	}, nil
}

func newRepetition(p RewardParams) (RewardFunc, error) {
	if p.RepetitionNGrams < 1 {
		return nil, fmt.Errorf("n-grams of %d tokens: the width must be at least 1", p.RepetitionNGrams)
	}
	if !(p.RepetitionMaxPenalty <= 0) || math.IsInf(p.RepetitionMaxPenalty, 0) {
		return nil, fmt.Errorf("the maximum penalty is %v; it must be finite and at most 0", p.RepetitionMaxPenalty)
	}
	return func(in RewardInput) float64 {
		return RepetitionPenalty(in.tokenIDs(), p.RepetitionNGrams, p.RepetitionMaxPenalty)
	}, nil
}

// newCosine returns the reward of [CosineScaled], NaN if the answer's reward is, or without a
// limit.
func newCosine(p RewardParams) (RewardFunc, error) {
	decides := cmp.Or(p.CosineCorrect, "answer")
	if !slices.Contains(Verifiers(), decides) {
		return nil, fmt.Errorf("the correctness reward: %w", unknownName(decides, Verifiers()))
	}
	if p.CosineMaxLen < 0 {
		return nil, fmt.Errorf("the length limit is %d; it must not be negative (0 means the sampling limit)",
			p.CosineMaxLen)
	}
	c := CosineRange{p.CosineMinWrong, p.CosineMaxWrong, p.CosineMinCorrect, p.CosineMaxCorrect}
	for _, x := range []float64{c.MinValueWrong, c.MaxValueWrong, c.MinValueCorrect, c.MaxValueCorrect} {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("the values %+v must be finite", c)
		}
	}
	if c.MinValueWrong > c.MaxValueWrong || c.MinValueCorrect > c.MaxValueCorrect {
		return nil, fmt.Errorf("the values %+v have a minimum above its maximum", c)
	}
	base, err := NewReward(decides, p, "")
	if err != nil {
		return nil, err
	}
	return func(in RewardInput) float64 {
		limit, right := cmp.Or(p.CosineMaxLen, in.MaxTokens), base(in)
		if limit <= 0 || math.IsNaN(right) {
			return math.NaN()
		}
		return CosineScaled(in.Tokens, limit, right == 1, c)
	}, nil
}
