package report

import (
	"fmt"
	"path/filepath"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/rundir"
)

// moment is when a split was evaluated.
type moment string

const (
	before moment = "before" // before the first step
	after  moment = "after"  // after the last step so far
	best   moment = "best"   // after the step with the best sampled validation reward
)

// evaluation finds the evaluation of a split at a moment, nil when there is
// none. result.json is the truth where it speaks; eval.jsonl tells the rest,
// and everything of a run that is not finished.
func evaluation(r *rundir.Run, split string, when moment) *rundir.Eval {
	if e := fromResult(r.Result, split, when); e != nil && e.Sampled.N > 0 {
		return e
	}
	lines := evalsOf(r, split)
	switch when {
	case before:
		if len(lines) > 0 && lines[0].Step == 0 {
			return &lines[0]
		}
	case after:
		if n := len(lines); n > 0 && lines[n-1].Step > 0 {
			return &lines[n-1]
		}
	case best:
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

func fromResult(res *rundir.Result, split string, when moment) *rundir.Eval {
	switch {
	case res == nil:
		return nil
	case split == rundir.SplitVal && when == before:
		return &res.Initial
	case split == rundir.SplitVal && when == after:
		return &res.Final
	case split == rundir.SplitVal && when == best:
		return &res.Best
	case split == rundir.SplitUnseen && when == after:
		return res.Unseen
	case split == rundir.SplitTest && when == after:
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
	lines := evalsOf(r, rundir.SplitVal)
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

func evalsOf(r *rundir.Run, split string) []rundir.Eval {
	var out []rundir.Eval
	for _, e := range r.Evals {
		if e.Split == split {
			out = append(out, e)
		}
	}
	return out
}

// lastStep is the last step that the folder knows of.
func lastStep(r *rundir.Run) int {
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

// outcome says in a few words what became of a run.
func outcome(r *rundir.Run, a about) string {
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
	s := fmt.Sprintf("not finished: step %d", lastStep(r))
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

// gaps lists what a folder lacks, a line each: files that are missing and
// partial lines.
func gaps(r *rundir.Run) []string {
	var out []string
	if len(r.Missing) > 0 {
		out = append(out, "missing: "+strings.Join(r.Missing, ", "))
	}
	for _, t := range r.Partial {
		out = append(out, fmt.Sprintf("partial: line %d of %s, left out", t.Line, filepath.Base(t.Path)))
	}
	return out
}

// splitName is a split in the words of tables and figures.
func splitName(split string) string {
	switch split {
	case rundir.SplitVal:
		return "validation"
	case rundir.SplitUnseen:
		return "unseen facts"
	}
	return split
}
