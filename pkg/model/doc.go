// Package model defines what a policy is: a language model that samples, scores and learns.
// Training, evaluation and the commands see a network only through [Policy] and the interfaces
// around it; the networks are below this package: tinylm and decoder.
//
// The package also has what all networks share: named parameters ([Params]), the optimizer
// ([AdamW]), checkpoints ([Checkpoint]), and the batches and matrices that networks and losses
// exchange.
package model
