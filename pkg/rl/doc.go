// Package rl is the mathematics of group-relative policy optimization (GRPO)
// and its relatives, on plain slices of float64, without tensors, graphs, files or
// configuration. The same input always gives the same bits.
//
// # The method
//
// A policy completes the same prompt several times. The completions of one prompt are
// a group. Each completion gets a reward, which is compared with its own group: a
// completion above the group's mean gets a positive advantage, one below it a negative
// one. No value network is needed, because the group is the baseline. The update then
// makes the tokens of good completions more likely and those of bad ones less likely,
// weighted by the advantage. A zero-variance group, whose completions all got the same
// reward, carries no signal: its advantages are exactly 0.
//
// # From rewards to a gradient
//
//	rewards (N)          one number for each completion, from [CombineRewards]
//	  -> advantages (N)  [GroupAdvantages]: minus a baseline, over a scale
//	  -> token losses    a formula of advantage, log-probability and ratio: [LossType]
//	  -> one number      a weighted sum over tokens: [Aggregation]
//	  -> gradient        with respect to each log-probability, by hand: [Loss]
//
// The caller continues the backward pass, from log-probabilities to weights.
//
// # Shapes
//
// Completions are rows. N = groups x group_size completions are ordered by group:
// completions 0..G-1 answer the first prompt, G..2G-1 the second.
// Matrices over tokens are flat slices of length B*T in row-major order: token
// t of sequence b is at b*T + t (see [Shape]). A mask is true on completion
// tokens only, not on the prompt or on padding. Entries where the mask is false are
// never read; gradients are 0 there.
// Log-probabilities and entropies are in nats, of the distribution that was
// sampled from (logits / temperature).
//
// # The ratio
//
// Let logp be the policy's log-probability of a sampled token and old the one
// at sampling time. The importance ratio is r = exp(logp - old). On the first
// update after sampling, policy and old policy are the same: r is 1, and only its
// gradient matters. In that case pass no old log-probabilities ([Batch].OldLogProbs
// nil): the ratio is exactly 1, and no clip fraction is reported, because nothing can
// be clipped. The displayed value of the ratio losses is then about 0. That is correct:
// the gradient is not 0.
//
// # Aggregation, and why micro-batches are exact
//
// Every aggregation here is a weighted sum of token losses, with weights that
// depend on the sequence's own length and on totals of the whole optimizer
// batch. Pass those totals with each micro-batch ([Batch].Totals), and every entry of
// the micro-batches' gradients has the same bits as in the whole batch; only the order
// in which the scalar loss is summed differs. For the same reason it is exact to leave
// out sequences of advantage 0.
//
// "Divide by a constant" differs by a factor of the batch size between sources,
// and that factor acts as a learning rate. [MaskedNormalizeSeq] is the 2025
// assignment's form (sum over tokens / Z, then the mean over sequences),
// [Constant] the 2026 one (the sum over all tokens / Z).
//
// # Pairs
//
// [MakePairs] pairs better with worse completions of a group, and [Preference] computes the losses
// of such pairs (DPO and its relatives): with a reference policy and no sampling, rewards or
// advantages. [BradleyTerry] is the loss of a reward model on pairs, [Supervised] that of given
// completions.
//
// # Numbers that are easy to get wrong
//
// The group's standard deviation is that of a sample (divisor n-1) and eps is
// added to it, not to the variance: for the rewards 1, 0, 0.5 it is 0.5 and the
// advantages are 1, -1, 0. Some texts print 0.408 and 1.225 for this group; they use
// the population standard deviation. The division does not explode for a group that is
// all right, whose numerator is 0 as well, but for one that is nearly so: see the
// example of [GroupAdvantages].
//
// # Errors
//
// Functions return an error for an invalid call: lengths that don't fit, unknown names,
// constants out of range. Numbers that are not finite are not an error: they propagate
// (except where the mask is false), so that the trainer can name the step at which a
// run diverged.
//
// # Sources
//
// The names are those of the sources: Stanford CS336 assignment 5 first (2025
// and 2026), TRL second, then verl and OpenRLHF. Each comment names the source of its
// formula.
package rl
