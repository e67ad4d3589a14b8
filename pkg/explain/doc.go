// Package explain computes, on a few numbers, what the mathematics of pkg/rl
// does, and says in words what follows from it. It backs `grpo explain`.
//
// Every number comes out of pkg/rl (and of pkg/gsm8k and pkg/model for rewards
// and log-probabilities), on inputs that the caller may change: nothing here is
// a printed constant. The subjects:
//
//	lengthnorm.go    masked_mean against masked_normalize
//	advantages.go    local, global and hybrid normalization; the nearly equal group
//	clip.go          the clipped objective for both signs of the advantage
//	aggregation.go   how much each of two responses of unlike length weighs
//	overlong.go      what filtering truncated completions changes
//	walkthrough.go   from rewards to the scalar loss, every matrix on the way
//	logprobs.go      the log-probability of each token of a completion
//	figures.go       the data of the figures that pkg/report draws
//
// and, for a user's own numbers, batches in the forms that TRL's, verl's and the
// assignment's reference data have (batch*.go). These are read strictly: what has
// no meaning is an error that names the file, the case and the field.
//
// A subject is a function from options to a result. A result marshals to JSON
// and writes itself as text; some give the data of a figure.
package explain
