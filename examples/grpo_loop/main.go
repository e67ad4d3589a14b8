// Command grpo_loop is GRPO in one file: data, rollout, rewards, advantages, loss, update and
// evaluation, with the packages that `grpo train` uses.
//
//	go run ./examples/grpo_loop            200 steps, about 10 seconds
//	go run ./examples/grpo_loop -steps 20
//
// It makes the default run of `grpo train`, and ends with the same weights to the bit. Left out are
// checkpoints and resume, the run folder, zero-variance statistics, other losses, KL terms, micro-
// batches, several updates for each rollout, and checkpoints of other models.
//
// Letters in comments are shapes: N completions in groups of G, T tokens of the longest.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"

	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
	"grpo/pkg/model/kernel"
	"grpo/pkg/model/tinylm"
	"grpo/pkg/model/tinylm/base"
	"grpo/pkg/rl"
	"grpo/pkg/rng"
)

// The settings of the default run; `grpo config show --docs` explains each.
const (
	seed         = 1
	groupSize    = 8   // completions of each prompt, which are compared with one another
	rolloutBatch = 256 // completions of a step
	maxTokens    = 64
	learningRate = 1e-3
	maxGradNorm  = 1
	advantageEps = 1e-6
	valSize      = 1024
	evalEvery    = 20
)

// answers says what is right: a number after the last "####".
var answers gsm8k.Answers

func main() {
	steps := flag.Int("steps", 200, "GRPO steps")
	flag.Parse()
	t, err := newTrainer()
	if err == nil {
		defer t.close()
		err = t.train(*steps)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "grpo_loop:", err)
		os.Exit(1)
	}
}

// trainer is the policy with what samples from it and what changes it.
type trainer struct {
	problems gsm8k.Splits
	template gsm8k.Template
	pool     *kernel.Pool
	policy   model.Policy
	sampler  model.Sampler
	learner  model.Learner
	adamW    *model.AdamW
	order    []int // of the training problems in this epoch
	drawn    int   // problems so far
}

func newTrainer() (*trainer, error) {
	t := &trainer{}
	var err error

	// Data: word problems of one step, such as "Tom has 7 pens and gets 5 more. How many?".
	t.problems, err = gsm8k.Generate(gsm8k.GenOptions{
		Seed: 1, WeightAdd: 1, WeightSub: 1, WeightMul: 1, ValSize: valSize, TestSize: 1024, UnseenSize: 512,
	})
	if err != nil {
		return nil, err
	}
	if t.template, err = gsm8k.LookupTemplate("plain"); err != nil {
		return nil, err
	}

	// Policy: a base model of 62,820 parameters that can solve the problems, but rarely does.
	weights, err := base.Weights()
	if err != nil {
		return nil, err
	}
	t.pool = kernel.NewPool(runtime.GOMAXPROCS(0))
	t.policy = tinylm.New(weights, t.pool)
	t.sampler = t.policy.NewSampler()
	if t.learner, err = t.policy.NewLearner(1, false); err != nil {
		return nil, err
	}
	t.adamW = model.NewAdamW(t.policy.Params(), model.AdamWOptions{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8})
	t.adamW.Pool = t.pool
	return t, nil
}

func (t *trainer) close() {
	t.sampler.Close()
	_ = t.learner.Close() // frees memory only
	t.pool.Close()
}

func (t *trainer) train(steps int) error {
	for step := 0; ; step++ {
		if step%evalEvery == 0 || step == steps {
			right, err := t.evaluate(step)
			if err != nil {
				return err
			}
			fmt.Printf("step %3d: %4d of %d validation problems right\n", step, right, valSize)
		}
		if step == steps {
			fmt.Println("weights", t.policy.Params().Hash())
			return nil
		}
		if err := t.step(step + 1); err != nil {
			return fmt.Errorf("step %d: %w", step+1, err)
		}
	}
}

// step is one GRPO step.
func (t *trainer) step(step int) error {
	// Rollout: sample a group of completions for each prompt.
	problems := make([]gsm8k.Problem, rolloutBatch/groupSize) // (N/G)
	for i := range problems {
		problems[i] = t.nextProblem()
	}
	prompts := t.encode(problems)
	opt := model.Sampling{Temperature: 1, TopP: 1, MaxTokens: maxTokens}
	draws := model.Draws{Stream: rng.New(seed, rng.Rollout), A: uint32(step)}
	completions, err := t.sampler.Sample(prompts, groupSize, opt, draws) // (N)
	if err != nil {
		return err
	}

	// Rewards: 1 for a completion that ends by itself with the right answer, else 0.
	rewards := make([]float64, len(completions)) // (N)
	for i, c := range completions {
		if answers.Grade(t.policy.Decode(c.Tokens), c.Ended, problems[i/groupSize]).Right {
			rewards[i] = 1
		}
	}

	// Advantages: (reward - mean of the group) / (standard deviation of the group + eps).
	advantages, _, err := rl.GroupAdvantages(rewards, groupSize, rl.AdvantageOptions{
		Baseline: rl.BaselineGroupMean, Normalizer: rl.NormalizerGroupStd, Eps: advantageEps,
	})
	if err != nil {
		return err
	}

	// Loss: the policy gradient -A·log p of each token, averaged over the tokens of a completion and
	// then over completions. With one update for each rollout the importance ratio is 1, so there is
	// nothing to clip. The learner runs the network forward, asks for the loss and its gradient with
	// respect to the log-probabilities, and runs backward.
	batch := &model.Batch{Prompts: prompts}
	for i, c := range completions {
		batch.Rows = append(batch.Rows, model.Row{Prompt: i / groupSize, Tokens: c.Tokens})
	}
	loss := rl.LossConfig{Loss: rl.ReinforceWithBaseline, Aggregation: rl.MaskedMeanSeq}
	t.learner.ZeroGrads()
	_, err = t.learner.Accumulate(batch, func(m *model.TokenMatrix) (float64, error) {
		out, err := rl.Loss(loss, rl.Batch{
			Shape: rl.Shape{B: m.B, T: m.T}, LogProbs: m.LogProbs, Mask: m.Mask, Advantages: advantages,
		})
		copy(m.DLogProbs, out.Grad) // (N,T)
		return out.Loss, err
	})
	if err != nil {
		return err
	}

	// Update: AdamW with clipped gradients. The sampler reads the new weights.
	if _, err := t.adamW.Step(t.policy.Params(), t.learner.Grads(), learningRate, maxGradNorm); err != nil {
		return err
	}
	t.sampler.Refresh()
	return nil
}

// nextProblem draws from the training problems without replacement, in a new order for each epoch.
func (t *trainer) nextProblem() gsm8k.Problem {
	n := len(t.problems.Train)
	if t.drawn%n == 0 {
		t.order = rand.New(rng.New(seed, rng.Order).Sequence(uint32(t.drawn/n), 0, 0)).Perm(n)
	}
	t.drawn++
	return t.problems.Train[t.order[(t.drawn-1)%n]]
}

// encode turns questions into the tokens of their prompts.
func (t *trainer) encode(problems []gsm8k.Problem) [][]int {
	out := make([][]int, len(problems))
	for i, p := range problems {
		out[i] = model.EncodeRaw(t.policy, t.template.Render(p.Question))
	}
	return out
}

// evaluate samples one completion for each validation problem and counts the right ones.
func (t *trainer) evaluate(step int) (right int, err error) {
	opt := model.Sampling{Temperature: 1, TopP: 1, MaxTokens: maxTokens}
	draws := model.Draws{Stream: rng.New(seed, rng.Evaluation), A: uint32(step)}
	completions, err := t.sampler.Sample(t.encode(t.problems.Val), 1, opt, draws)
	for i, c := range completions {
		if answers.Grade(t.policy.Decode(c.Tokens), c.Ended, t.problems.Val[i]).Right {
			right++
		}
	}
	return right, err
}
