package infer

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/gsm8k"
	"grpo/pkg/model"
)

// Judge decides what is right in evaluations.
type Judge interface {
	// Judge grades sampled completions, adjacent in groups of one problem each.
	Judge(c Completions) ([]Judged, error)
	Close()
}

// Completions are N completions of an evaluation.
type Completions struct {
	Texts    []string           // (N)
	Sampled  []model.Completion // (N)
	Problems []gsm8k.Problem    // (N), the problem of each
	Group    int                // completions of each problem; 1 if some are missing
	Step     int
}

// Judged is the verdict on a completion. Score is the value of eval.reward, NaN without.
type Judged struct {
	gsm8k.Verdict
	Score float64
}

// OpenJudge returns the judge of a configuration: the answers of the problems, or the reward function eval.reward.
// That has processes of its own, which stay until the judge is closed. They outlast ctx, because the weights of
// an evaluation that is interrupted may have moved since the last checkpoint.
func OpenJudge(ctx context.Context, cfg config.Config, t gsm8k.Template, threads int, note func(string)) (
	Judge, error) {
	name := cfg.Eval.Reward
	if name == "" {
		return answerJudge{cfg.Answers()}, nil
	}
	cfg.Reward.Functions, cfg.Reward.RewardWeights = []string{name}, []float64{1}
	cfg.Reward.Noise.FalsePositive, cfg.Reward.Noise.FalseNegative = 0, 0
	cfg.Rollout.SamplingMaxTokens = cfg.Eval.MaxTokens
	w, err := OpenRewards(context.WithoutCancel(ctx), cfg, t, threads, note)
	if err != nil {
		return nil, fmt.Errorf("eval.reward: %w", err)
	}
	return &rewardJudge{w}, nil
}

// answerJudge takes a completion with the answer of its problem for right.
type answerJudge struct{ gsm8k.Answers }

func (j answerJudge) Judge(c Completions) ([]Judged, error) {
	out := make([]Judged, len(c.Texts))
	for i, text := range c.Texts {
		out[i] = Judged{j.Grade(text, c.Sampled[i].Ended, c.Problems[i]), math.NaN()}
	}
	return out, nil
}

func (answerJudge) Close() {}

// rewardJudge takes a completion for right if a reward function gives it 1. One that is right is formatted.
type rewardJudge struct{ w *Rewards }

func (j *rewardJudge) Judge(c Completions) ([]Judged, error) {
	if len(c.Texts) == 0 {
		return nil, nil
	}
	inputs := make([]gsm8k.RewardInput, len(c.Texts))
	for i, x := range c.Sampled {
		inputs[i] = graded(j.w.answers, c.Problems[i], c.Texts[i], x.Tokens, x.Ended, j.w.limit)
	}
	return j.judge(inputs, c.Group, c.Step)
}

func (j *rewardJudge) judge(inputs []gsm8k.RewardInput, group, step int) ([]Judged, error) {
	rewarded, err := j.w.Compute(nil, inputs, group, step)
	if err != nil {
		return nil, fmt.Errorf("eval.reward: %w", err)
	}
	out := make([]Judged, len(inputs))
	for i, x := range rewarded.ByFunction[0] {
		if math.IsNaN(x) {
			request, _ := json.Marshal(j.w.describe(inputs[i : i+1])[0])
			return nil, fmt.Errorf("eval.reward %s: step %d: no value (null) for a completion of problem %q: an evaluation "+
				"needs one for each; the completion: %s", j.w.names[0], step, inputs[i].Problem.ID,
				textutil.Printable(string(request), shownRequest))
		}
		v := *inputs[i].Verdict
		v.Right = x == 1
		v.Formatted = v.Formatted || v.Right
		out[i] = Judged{v, x}
	}
	return out, nil
}

// shownRequest is how much of a request an error shows, in characters.
const shownRequest = 600

func (j *rewardJudge) Close() { j.w.Close() }

// TryJudge judges a completion before a run begins: a checker with a mistake should not leave a folder.
func TryJudge(j Judge, in gsm8k.RewardInput) error {
	r, ok := j.(*rewardJudge)
	if !ok {
		return nil
	}
	in.MaxTokens = r.w.limit
	_, err := r.judge([]gsm8k.RewardInput{in}, 1, 0)
	return err
}
