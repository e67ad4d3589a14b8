// Package explain works through the math of pkg/rl on a few numbers and explains the results. `grpo
// explain` uses it.
//
// All numbers are computed by pkg/rl (rewards by pkg/gsm8k, log-probabilities by pkg/model, tests by
// pkg/stats) from inputs that the caller can change; none are constants. The subjects:
//
//	lengthnorm.go    masked_mean and masked_normalize
//	advantages.go    local, global and hybrid normalization; a nearly equal group
//	clip.go          the clipped objective for both signs of the advantage
//	aggregation.go   the weight of completions of different lengths
//	overlong.go      the effect of filtering truncated completions
//	walkthrough.go   from rewards to the scalar loss, matrix by matrix
//	dpo.go           the losses of preference pairs
//	rewardmodel.go   the loss of a reward model
//	verdict.go       the tests behind a verdict
//	logprobs.go      the log-probability of each token of a completion
//
// A subject is a function from options to a result. The result can be written as JSON and as text,
// and may have a figure for pkg/plots. The text is a template of the subject's name in pages/, which
// page.go renders.
//
// The batch files compute a user's own cases, in the formats of the reference data of TRL, verl and
// the assignment (verdicts in one of their own): batch.go reads them into structs, and the others
// compute losses, advantages, rewards and tests. A file of calls (batch_calls.go) has a student's
// results of the assignment's functions; batch_calls_mistakes.go names the mistake in them. An error
// names the file, the line, the case and the field.
package explain
