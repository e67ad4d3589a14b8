package gsm8k

import (
	"fmt"

	"grpo/pkg/rng"
)

// RewardInput is all that a reward function may look at.
type RewardInput struct {
	// Completion is the sampled text, without <eos> and without the prompt. A tag
	// that the prompt ends in ("<think>" in the r1_zero template) is not part of
	// it: see [Template.Opening].
	Completion string
	// Tokens is the completion's length in tokens, <eos> included; MaxTokens is
	// the sampling limit. Rewards that shape length use them.
	Tokens    int
	MaxTokens int
	// TokenIDs are the completion's tokens, <eos> included. Where they are nil,
	// the characters of Completion and an end mark after what ended stand in for
	// them; for a tokenizer of characters that is the same.
	TokenIDs []int
	Ended    bool // by <eos>, not by the token limit
	Problem  Problem
	// Verdict is what [Grade] says of the completion, where it has been graded
	// already; nil makes the rewards that need it grade the completion.
	Verdict *Verdict
	// Noise is uniform in [0, 1); see [RewardNoise]. Only the random control
	// reward uses it.
	Noise float64
}

// grade returns the completion's verdict.
func (in RewardInput) grade() Verdict {
	if in.Verdict != nil {
		return *in.Verdict
	}
	return Grade(in.Completion, in.Ended, in.Problem.Gold)
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

// RewardFunc maps one completion to one reward. It is a pure function: equal
// inputs give equal rewards, in any order, on any worker. NaN says that the
// function cannot score the completion; it is then left out of the weighted sum.
type RewardFunc func(RewardInput) float64

type rewardMaker struct {
	name string
	make func(RewardParams) (RewardFunc, error)
}

// rewardTable lists the reward functions, in the order of [Rewards]. It is a
// function because cosine looks another reward up.
func rewardTable() []rewardMaker {
	plain := func(f RewardFunc) func(RewardParams) (RewardFunc, error) {
		return func(RewardParams) (RewardFunc, error) { return f, nil }
	}
	return []rewardMaker{
		{"answer", plain(answerReward)},
		{"format", plain(formatReward)},
		{"random", plain(randomReward)},
		{"r1_zero", plain(r1ZeroReward)},
		{"question_only", plain(questionOnlyReward)},
		{"think_format", newThinkFormat},
		{"soft_overlong", newSoftOverlong},
		{"repetition", newRepetition},
		{"cosine", newCosine},
		{"last_number", plain(lastNumberReward)},
	}
}

// Rewards lists the names of the reward functions.
func Rewards() []string {
	var names []string
	for _, r := range rewardTable() {
		names = append(names, r.name)
	}
	return names
}

// NewReward returns the reward function of a name:
//
//	answer         1 iff ended, with the gold number after the last "####" ([Grade])
//	format         1 iff ended, with any number there
//	random         a fair coin, the control that must not teach
//	r1_zero        the assignment's grader for <think> and <answer> ([GradeR1Zero])
//	question_only  the assignment's grader for \boxed ([GradeQuestionOnly])
//	think_format   TRL's think format, 0 or 1 ([ThinkFormat])
//	soft_overlong  DAPO's length punishment, -1 to 0 ([SoftOverlong])
//	repetition     TRL's repetition penalty, RepetitionMaxPenalty to 0 ([RepetitionPenalty])
//	cosine         cosine length scaling of right and wrong answers ([CosineScaled])
//	last_number    1 iff the last number is the gold one ([LastNumber])
//
// An unknown name and a parameter out of range are errors. Start p from
// [DefaultRewardParams].
func NewReward(name string, p RewardParams) (RewardFunc, error) {
	for _, r := range rewardTable() {
		if r.name != name {
			continue
		}
		f, err := r.make(p)
		if err != nil {
			return nil, fmt.Errorf("make reward function %s: %w", name, err)
		}
		return f, nil
	}
	return nil, fmt.Errorf("look up reward function: %w", unknownName(name, Rewards()))
}

// answerReward is 1 iff the completion ended by itself with the right number.
func answerReward(in RewardInput) float64 {
	return indicator(in.grade().Right)
}

// formatReward is 1 iff the completion ended by itself with any number after
// its last "####".
func formatReward(in RewardInput) float64 {
	return indicator(in.grade().Formatted)
}

// randomReward is a fair coin that looks at nothing: the control that must not
// teach. It is 1 iff the noise is below one half.
func randomReward(in RewardInput) float64 { return indicator(in.Noise < 0.5) }

func indicator(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// RewardNoise returns the uniform number in [0, 1) of one completion, a pure
// function of the run's seed, the step, the prompt's place in the rollout batch
// and the sample's place in its group.
func RewardNoise(seed uint64, step, prompt, sample int) float64 {
	return rng.New(seed, rng.Noise).Float64(uint32(step), uint32(prompt), uint32(sample), 0)
}
