package gsm8k

import (
	"fmt"
	"math"
	"slices"
)

// RewardParams are the parameters of the reward functions that have some; each
// function reads, and checks, its own.
type RewardParams struct {
	// Opening is the tag at the end of the prompt that think_format counts as the
	// beginning of the completion ([Template.Opening]); empty where the policy
	// writes the tag itself.
	Opening string
	// OverlongMax is the length limit of soft_overlong in tokens; 0 means the
	// sampling limit. OverlongCache is the width of its ramp; 0 means a fifth of
	// the limit, DAPO's ratio (4096 of 20480), and at least 1.
	OverlongMax, OverlongCache int
	// RepetitionNGram is the width of repetition's n-grams in tokens, at least 1;
	// RepetitionMaxPenalty its value, at most 0, for a text that only repeats.
	RepetitionNGram      int
	RepetitionMaxPenalty float64
	// CosineCorrect names the reward that tells cosine whether the answer is
	// right: one of [CosineBases]. CosineMaxLen is the length at which the cosine
	// ends; 0 means the sampling limit.
	CosineCorrect string
	CosineMaxLen  int
	Cosine        CosineRange
}

// DefaultRewardParams returns TRL's defaults of the repetition penalty (3-grams,
// -1), open-r1's of the cosine (wrong -1 to -0.5, right 1 to 0.5; but over the
// sampling limit instead of 1000 characters), and "answer" to tell right from
// wrong.
func DefaultRewardParams() RewardParams {
	return RewardParams{
		RepetitionNGram: 3, RepetitionMaxPenalty: -1,
		CosineCorrect: "answer",
		Cosine:        CosineRange{MinValueWrong: -1, MaxValueWrong: -0.5, MinValueCorrect: 0.5, MaxValueCorrect: 1},
	}
}

// CosineBases lists the rewards that can stand in [RewardParams].CosineCorrect:
// those that are 1 for a right answer and 0 for a wrong one.
func CosineBases() []string { return []string{"answer", "r1_zero", "question_only", "last_number"} }

func newThinkFormat(p RewardParams) (RewardFunc, error) {
	return func(in RewardInput) float64 { return indicator(ThinkFormat(p.Opening + in.Completion)) }, nil
}

// newSoftOverlong makes the reward of [SoftOverlong]; a completion is not
// scorable where neither the parameters nor the input know a limit.
func newSoftOverlong(p RewardParams) (RewardFunc, error) {
	if p.OverlongMax < 0 || p.OverlongCache < 0 {
		return nil, fmt.Errorf("limit %d and cache %d must not be negative (0 means the sampling limit, and a fifth of the limit)", p.OverlongMax, p.OverlongCache)
	}
	if p.OverlongMax > 0 && p.OverlongCache > p.OverlongMax {
		return nil, fmt.Errorf("the cache of %d tokens is longer than the limit of %d", p.OverlongCache, p.OverlongMax)
	}
	return func(in RewardInput) float64 {
		limit, cache := p.OverlongMax, p.OverlongCache
		if limit == 0 {
			limit = in.MaxTokens
		}
		if limit <= 0 {
			return math.NaN()
		}
		if cache == 0 {
			cache = max(limit/5, 1)
		}
		return SoftOverlong(in.Tokens, limit, cache)
	}, nil
}

func newRepetition(p RewardParams) (RewardFunc, error) {
	if p.RepetitionNGram < 1 {
		return nil, fmt.Errorf("n-grams of %d tokens: the width must be at least 1", p.RepetitionNGram)
	}
	if !(p.RepetitionMaxPenalty <= 0) || math.IsInf(p.RepetitionMaxPenalty, 0) {
		return nil, fmt.Errorf("the maximal penalty is %v, but must be finite and at most 0", p.RepetitionMaxPenalty)
	}
	return func(in RewardInput) float64 {
		return RepetitionPenalty(in.tokenIDs(), p.RepetitionNGram, p.RepetitionMaxPenalty)
	}, nil
}

// newCosine makes the reward of [CosineScaled]; a completion is not scorable
// where its answer is not, or where no limit is known.
func newCosine(p RewardParams) (RewardFunc, error) {
	if !slices.Contains(CosineBases(), p.CosineCorrect) {
		return nil, fmt.Errorf("the reward that tells right from wrong: %w", unknownName(p.CosineCorrect, CosineBases()))
	}
	if p.CosineMaxLen < 0 {
		return nil, fmt.Errorf("the length limit is %d, but must not be negative (0 means the sampling limit)", p.CosineMaxLen)
	}
	c := p.Cosine
	for _, x := range []float64{c.MinValueWrong, c.MaxValueWrong, c.MinValueCorrect, c.MaxValueCorrect} {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("the values %+v must be finite", c)
		}
	}
	if c.MinValueWrong > c.MaxValueWrong || c.MinValueCorrect > c.MaxValueCorrect {
		return nil, fmt.Errorf("the values %+v hold a minimum above its maximum", c)
	}
	base, err := NewReward(p.CosineCorrect, p)
	if err != nil {
		return nil, err
	}
	return func(in RewardInput) float64 {
		limit := p.CosineMaxLen
		if limit == 0 {
			limit = in.MaxTokens
		}
		right := base(in)
		if limit <= 0 || math.IsNaN(right) {
			return math.NaN()
		}
		return CosineScaled(in.Tokens, limit, right == 1, c)
	}, nil
}
