package train

import (
	"fmt"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/config"
)

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
