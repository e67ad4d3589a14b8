package gsm8k

import (
	"fmt"

	"grpo/pkg/rng"
)

// RewardInput is all that a reward function may look at.
type RewardInput struct {
	Completion string // the sampled text, without <eos>
	// Tokens is the completion's length in tokens, <eos> included; MaxTokens is
	// the sampling limit. Rewards that shape length use them.
	Tokens    int
	MaxTokens int
	Ended     bool // by <eos>, not by the token limit
	Problem   Problem
	// Noise is uniform in [0, 1); see [RewardNoise]. Only the random control
	// reward uses it.
	Noise float64
}

// RewardFunc maps one completion to one reward. It is a pure function: equal
// inputs give equal rewards, in any order, on any worker.
type RewardFunc func(RewardInput) float64

// rewards is the table of reward functions, in the order of [Rewards].
var rewards = []struct {
	name string
	fn   RewardFunc
}{
	{"answer", answerReward},
	{"format", formatReward},
	{"random", randomReward},
}

// Rewards lists the names of the reward functions.
func Rewards() []string {
	names := make([]string, len(rewards))
	for i, r := range rewards {
		names[i] = r.name
	}
	return names
}

// LookupReward returns the reward function of a name.
func LookupReward(name string) (RewardFunc, error) {
	for _, r := range rewards {
		if r.name == name {
			return r.fn, nil
		}
	}
	return nil, fmt.Errorf("look up reward function: %w", unknownName(name, Rewards()))
}

// answerReward is 1 iff the completion ended by itself with the right number.
func answerReward(in RewardInput) float64 {
	return indicator(Grade(in.Completion, in.Ended, in.Problem.Gold).Right)
}

// formatReward is 1 iff the completion ended by itself with any number after
// its last "####".
func formatReward(in RewardInput) float64 {
	return indicator(Grade(in.Completion, in.Ended, in.Problem.Gold).Formatted)
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
