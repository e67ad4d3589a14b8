package analysis

import (
	"fmt"

	"grpo/internal/textutil"
	"grpo/pkg/rundir"
)

// AnyValidation is the last validation, or the first one if there is no other.
func AnyValidation(r *rundir.Run) *rundir.Eval {
	if e := Evaluation(r, rundir.SplitVal, AtEnd); e != nil {
		return e
	}
	return Evaluation(r, rundir.SplitVal, AtStart)
}

// moment is when a split was evaluated.
type EvalPoint string

const (
	AtStart EvalPoint = "before" // before the first step
	AtEnd   EvalPoint = "after"  // after the last step so far
	AtBest  EvalPoint = "best"   // after the step with the best sampled validation reward
)

// Evaluation finds the evaluation of a split at a moment, nil when there is
// none. result.json is the truth where it speaks; eval.jsonl tells the rest,
// and everything of a run that is not finished.
func Evaluation(r *rundir.Run, split string, when EvalPoint) *rundir.Eval {
	if e := fromResult(r.Result, split, when); e != nil && e.Sampled.N > 0 {
		return e
	}
	lines := EvalsOf(r, split)
	switch when {
	case AtStart:
		if len(lines) > 0 && lines[0].Step == 0 {
			return &lines[0]
		}
	case AtEnd:
		if n := len(lines); n > 0 && lines[n-1].Step > 0 {
			return &lines[n-1]
		}
	case AtBest:
		// The best step is a choice by validation; other splits only follow it.
		val := bestOf(r)
		for i := range lines {
			if val != nil && lines[i].Step == val.Step {
				return &lines[i]
			}
		}
	}
	return nil
}

func fromResult(res *rundir.Result, split string, when EvalPoint) *rundir.Eval {
	switch {
	case res == nil:
		return nil
	case split == rundir.SplitVal && when == AtStart:
		return &res.Initial
	case split == rundir.SplitVal && when == AtEnd:
		return &res.Final
	case split == rundir.SplitVal && when == AtBest:
		return &res.Best
	case split == rundir.SplitUnseen && when == AtEnd:
		return res.Unseen
	case split == rundir.SplitTest && when == AtEnd:
		return res.Test
	}
	return nil
}

// bestOf is the validation with the highest sampled reward, the earliest of
// equals; nil before the first step, when there is nothing to choose from.
func bestOf(r *rundir.Run) *rundir.Eval {
	if r.Result != nil && r.Result.Best.Sampled.N > 0 {
		return &r.Result.Best
	}
	var top *rundir.Eval
	lines := EvalsOf(r, rundir.SplitVal)
	if len(lines) > 0 && lines[len(lines)-1].Step == 0 {
		return nil
	}
	for i := range lines {
		if top == nil || lines[i].Sampled.AnswerReward > top.Sampled.AnswerReward {
			top = &lines[i]
		}
	}
	return top
}

func EvalsOf(r *rundir.Run, split string) []rundir.Eval {
	var out []rundir.Eval
	for _, e := range r.Evals {
		if e.Split == split {
			out = append(out, e)
		}
	}
	return out
}

// LastStep is the last step that the folder knows of.
func LastStep(r *rundir.Run) int {
	step := len(r.Metrics)
	if n := len(r.Evals); n > 0 {
		step = max(step, r.Evals[n-1].Step)
	}
	if r.Status != nil {
		step = max(step, r.Status.Step)
	}
	if r.Result != nil {
		step = max(step, r.Result.Final.Step)
	}
	return step
}

// Outcome says in a few words what became of a run.
func Outcome(r *rundir.Run, a RunInfo) string {
	if res := r.Result; res != nil {
		if res.Status != rundir.StateDiverged {
			return textutil.Printable(res.Status, 0)
		}
		s := "diverged"
		if res.DivergedAt != nil {
			s += fmt.Sprintf(" at step %d", *res.DivergedAt)
		}
		if res.DivergedReason != "" {
			s += ": " + textutil.Printable(res.DivergedReason, 0)
		}
		return s
	}
	s := fmt.Sprintf("not finished: step %d", LastStep(r))
	if a.Train.Steps > 0 {
		s += fmt.Sprintf(" of %d", a.Train.Steps)
	}
	if r.Status == nil {
		return s
	}
	s += ", " + textutil.Printable(r.Status.State, 0)
	if r.Status.Error != "" {
		s += ": " + textutil.Printable(r.Status.Error, 0)
	}
	return s
}

// decoded picks one decoding of an evaluation, nil when it was not made.
func DecodedCounts(e rundir.Eval, decoding string) *rundir.Counts {
	if decoding == rundir.DecodingGreedy {
		return e.Greedy
	}
	return &e.Sampled
}
