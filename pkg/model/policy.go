// Package model defines what a policy is: a language model that samples, scores and learns.
// Training, evaluation and the commands see a network only through [Policy] and the interfaces
// around it; the networks are below this package: tinylm and decoder.
//
// The package also has what all networks share: named parameters ([Params]), the optimizer
// ([AdamW]), checkpoints ([Checkpoint]), and the batches and matrices that networks and losses
// exchange.
package model

import (
	"errors"
	"slices"
)

// Policy is a language model on a device. Samplers, learners and scorers read its
// parameters; only an [AdamW] writes them.
//
// For the same parameters a sampler, a learner and a scorer of the same
// temperature compute the same log-probabilities, bit for bit on a CPU.
type Policy interface {
	Tokenizer
	// Params are the trainable parameters.
	Params() *Params
	// Copy returns the same network with its own parameters, initialized with the current ones: a
	// reference model.
	Copy() Policy

	// NewSampler returns a sampler; call its Refresh after the parameters change.
	NewSampler() Sampler
	// NewLearner and NewScorer divide the logits by temperature, as sampling does. With
	// checkpointing, the backward pass computes activations again, with the same bits, and
	// far less memory is needed; [ErrCheckpointing] if the network can't.
	NewLearner(temperature float64, checkpointing bool) (Learner, error)
	NewScorer(temperature float64) (Scorer, error)
	// NewCritic returns a critic with a copy of the policy's network and a value head of zeros, so
	// every value is 0 before the first update.
	NewCritic(o AdamWOptions, checkpointing bool) (Critic, error)

	// Size is the network's cost in operations and memory.
	Size() Size
	// Context is the number of tokens that a sequence may have; 0 for no limit.
	Context() int
}

// ErrCheckpointing reports a network that keeps all activations.
var ErrCheckpointing = errors.New("the network can't compute activations again")

// Size is the cost of a network, known before it is built.
type Size interface {
	// String is the network and its size in a few words.
	String() string
	// Forward counts the floating-point operations for a number of input tokens and of predictions.
	Forward(inputs, predictions int) Work

	// The memory on the CPU in bytes, for batches of up to a size; float64, so that no size
	// overflows. ParamBytes is one set of parameters, gradients or moments.
	ParamBytes() float64
	// WorkBytes bounds the memory of a use, apart from the parameters: gradients, activations and
	// scratch, and the parameters and moments of the critic.
	WorkBytes(u Use, threads int) float64
	// SampledBytes is the result of one call of [Sampler.Sample] with the prompts' states.
	SampledBytes(prompts, group, maxTokens float64) float64
	// Vocabulary is the number of tokens that can be predicted.
	Vocabulary() int
}

// Use is what a program does with a network, in batches of up to these sizes.
type Use struct {
	Learn BatchSize // by the learner and the critic
	Score BatchSize // by each scorer and the critic
	// Sample are prompts that a sampler completes, one batch at a time.
	Sample []BatchSize

	Learner, Critic   bool
	Scorers, Samplers int
}

// ReadTogether is the largest number of prompts that a sampler reads together.
const ReadTogether = 256

// BatchSize bounds the batches that a network will receive.
type BatchSize struct {
	Prompts, PromptTokens, LongestPrompt float64
	// LongPrompts is the tokens of the [ReadTogether] longest prompts; 0: unknown.
	LongPrompts                  float64
	Completions, Tokens, Longest float64 // tokens of completions, their end tokens included
	// Shared is the tokens that all prompts begin with; they are part of PromptTokens once for each.
	Shared float64
	// Checkpointing: see [Policy.NewLearner].
	Checkpointing bool
}

// Tokenizer converts text to the tokens of a policy and back.
type Tokenizer interface {
	// Start returns the tokens before any text, such as <bos>.
	Start() []int
	// Encode returns the tokens of text, without those of Start and without an
	// end token.
	Encode(text string) []int
	// EncodeAround is Encode of before + text + after, except that special tokens,
	// such as <|im_end|>, count in before and after only: in text they are plain text.
	EncodeAround(before, text, after string) []int
	// EncodeAfter returns the tokens of template + text, which follow other tokens, as a completion does: a
	// tokenizer that puts a space before every text puts none before this one. Special tokens count in
	// template only.
	EncodeAfter(before []int, template, text string) []int
	// Token returns the text of one token, which of a special token is its name, and
	// whether it is special.
	Token(id int) (text string, special bool)
	// Decode returns the text of tokens, without start and end tokens.
	Decode(tokens []int) string
	// End returns the tokens that end a completion.
	End() []int
	// Special returns the tokens of Start and End with their names, and the one that ends an answer
	// to train on.
	Special() SpecialTokens
	// Knows reports whether text can be encoded without loss.
	Knows(text string) bool
}

// EncodeRaw returns the tokens of a text in which special tokens are parsed, after the start
// tokens unless it begins with them.
func EncodeRaw(t Tokenizer, text string) []int {
	ids, start := t.Encode(text), t.Start()
	if len(ids) >= len(start) && slices.Equal(ids[:len(start)], start) {
		return ids
	}
	return slices.Concat(start, ids)
}

// Sampler completes prompts. A token's log-probability depends on its own
// sequence only, never on the rest of the batch or on the number of threads.
type Sampler interface {
	// Sample returns group completions of each prompt: those of prompt i are at
	// i·group to (i+1)·group. Greedy decoding needs no draws. With an error of opt.Watch come the
	// completions so far, of which some may not be complete.
	Sample(prompts [][]int, group int, opt Sampling, draws Draws) ([]Completion, error)
	// Refresh reads the parameters again.
	Refresh()
	Close()
}

// SampleEach completes the same prompts once with each of the settings. The results are those of
// [Sampler.Sample]; a sampler with a method of this name saves the time to read the prompts again.
func SampleEach(s Sampler, prompts [][]int, group int, opts []Sampling, draws Draws) ([][]Completion, error) {
	type each interface {
		SampleEach(prompts [][]int, group int, opts []Sampling, draws Draws) ([][]Completion, error)
	}
	if e, ok := s.(each); ok {
		return e.SampleEach(prompts, group, opts, draws)
	}
	var out [][]Completion
	for _, opt := range opts {
		completions, err := s.Sample(prompts, group, opt, draws)
		out = append(out, completions)
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// Learner computes gradients of the policy's parameters.
type Learner interface {
	// Accumulate runs the batch forward, asks the objective for the loss and its
	// gradient, runs backward and adds the gradient of the parameters to Grads.
	// It returns the loss. Micro-batches add up exactly.
	Accumulate(batch *Batch, objective Objective) (loss float64, err error)
	Grads() *Params
	ZeroGrads()
	Close() error
}

// Scorer computes log-probabilities and entropies of given completions: those
// of a reference model, of a teacher, or of the policy itself.
type Scorer interface {
	// Score runs the batch forward. The matrix is valid until the next call; its gradients are nil.
	Score(batch *Batch) (*TokenMatrix, error)
	Close() error
}

// Critic estimates the value of the state before each completion token, for PPO. It is a separate
// network, as in TRL, OpenRLHF and verl: its loss does not affect the policy's parameters.
type Critic interface {
	// Values runs the batch forward. The matrix is valid until the next call of Values, through any
	// number of updates.
	Values(batch *Batch) (*ValueMatrix, error)
	// Accumulate is [Learner.Accumulate] for the critic's own parameters.
	Accumulate(batch *Batch, objective ValueObjective) (loss float64, err error)
	ZeroGrads()
	// Step updates the parameters with the accumulated gradient and returns its
	// norm before clipping.
	Step(lr, maxNorm float64) (norm float64, err error)
	// State is the critic's part of a checkpoint, in the critic's own memory.
	State() *CriticState
	// Restore copies a state back.
	Restore(*CriticState) error
	Close() error
}

// Device is where a policy's arithmetic runs: a *kernel.Pool, which is the CPU, or a GPU. It is
// chosen where the policy is made; elsewhere only the last bits of the numbers depend on it.
type Device interface{ Close() }

// Work counts floating-point operations of matmuls, two for each
// multiply-add, without the gates and softmax between them.
type Work struct {
	// Nominal is the usual count from the network's formulas.
	Nominal float64
	// Executed leaves out the operations that the implementation avoids.
	Executed float64
	// Frozen is the part of both by weights that are not trained.
	Frozen float64
}

// Update is the work of a forward and a backward pass, given the forward pass: the backward pass
// has two matmuls for each of the forward pass, one for the input and one for the weights, if they
// are trained.
func (w Work) Update() Work {
	return Work{Nominal: float64(3*w.Nominal) - w.Frozen, Executed: float64(3*w.Executed) - w.Frozen, Frozen: w.Frozen}
}

func (w Work) Plus(v Work) Work {
	return Work{w.Nominal + v.Nominal, w.Executed + v.Executed, w.Frozen + v.Frozen}
}

// Times is the work a number of times.
func (w Work) Times(n float64) Work {
	return Work{float64(n * w.Nominal), float64(n * w.Executed), float64(n * w.Frozen)}
}
