package config

// Reward names the reward functions of training, their weights and their parameters. Lengths are in
// tokens including <eos>; the maximum is rollout.sampling_max_tokens.
type Reward struct {
	// Functions are of [gsm8k.Rewards], or names in Custom.
	Functions     []string  `yaml:"functions"`
	RewardWeights []float64 `yaml:"reward_weights"` // one for each function
	// Custom are the functions that the user defines. [Resolve] leaves out those that Functions does
	// not name.
	Custom []CustomReward `yaml:"custom"`
	// MultiObjectiveAggregation is how several functions become advantages: "sum_then_normalize"
	// (the weighted sum is one reward) or "normalize_then_sum" (GDPO: each is normalized in its
	// groups, then summed with the weights, then whitened over the batch).
	MultiObjectiveAggregation string `yaml:"multi_objective_aggregation" neutral:"sum_then_normalize"`

	// OverlongCache is the length of soft_overlong's slope, in tokens: DAPO's
	// L_cache, TRL's soft_punish_cache. 0 means a fifth of the limit, as in DAPO.
	OverlongCache int `yaml:"overlong_cache" neutral:"0"`
	// RepetitionNGrams and RepetitionMaxPenalty are n, in tokens, and the most
	// negative reward of repetition.
	RepetitionNGrams     int     `yaml:"repetition_n_grams" neutral:"3"`
	RepetitionMaxPenalty float64 `yaml:"repetition_max_penalty" neutral:"-1"`
	// CosineCorrect is the function, of [gsm8k.CosineBases], by which cosine decides whether a completion
	// is right; empty means the first of them in Functions, or else answer ([Resolve] fills it in
	// if cosine is used). CosineMaxLen is the length in tokens at which the curve ends (0 = the
	// limit).
	CosineCorrect string `yaml:"cosine_correct" neutral:""`
	CosineMaxLen  int    `yaml:"cosine_max_len" neutral:"0"`
	// The range of cosine: from length 0 to the maximum length, the reward of right
	// completions falls from CosineMaxCorrect to CosineMinCorrect, and that of wrong
	// ones rises from CosineMinWrong to CosineMaxWrong.
	CosineMinCorrect float64 `yaml:"cosine_min_value_correct" neutral:"0.5"`
	CosineMaxCorrect float64 `yaml:"cosine_max_value_correct" neutral:"1"`
	CosineMinWrong   float64 `yaml:"cosine_min_value_wrong" neutral:"-1"`
	CosineMaxWrong   float64 `yaml:"cosine_max_value_wrong" neutral:"-0.5"`
}
