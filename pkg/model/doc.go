// Package model defines what a policy is: a language model that samples, scores
// and learns. [Policy] and the interfaces around it are all that training,
// evaluation and the commands know of a network; the networks are below this
// package (tinylm is the first).
//
// The package also holds what every network shares: named parameters
// ([Params]), the optimizer ([AdamW]), checkpoints ([Checkpoint]), and the
// batches and matrices that networks and losses exchange.
package model
