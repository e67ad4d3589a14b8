package report

import (
	"fmt"
	"slices"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/rundir"
)

// htmlExamples shows how the completions of one validation problem changed over training.
type htmlExamples struct {
	Prompt, Gold string
	Arms         []htmlExample
	More         int // arms that are not shown
}

// htmlExample are the completions of an arm's first run.
type htmlExample struct {
	Arm, Seed string
	Open      bool
	Steps     []htmlCompletion
}

type htmlCompletion struct {
	Step          int
	Text, Outcome string
	Right         bool
	Numbers       string // rewards and length
}

func (c SampledCompletion) html(numbers string) htmlCompletion {
	return htmlCompletion{c.Step, multiline(c.Completion), c.Outcome(), c.Right, numbers}
}

// Limits of what a page shows.
const (
	mostExampleArms  = 6
	mostExampleSteps = 5
	mostExampleChars = 1200 // of a completion or a prompt
)

// examples selects the completions; nil if the runs kept no samples of several steps. All arms show
// the same problem, the first in which the best arm went from wrong to right, else its first.
func (a *Report) examples() *htmlExamples {
	order := make([]int, 0, len(a.Arms))
	if a.Best >= 0 {
		order = append(order, a.Best)
	}
	for k := range a.Arms {
		if k != a.Best {
			order = append(order, k)
		}
	}
	var out *htmlExamples
	problem := ""
	for _, k := range order {
		samples, seed := sampledValidation(&a.Arms[k])
		if problem == "" {
			problem = exampleProblem(samples)
		}
		steps := ofProblem(samples, problem)
		switch {
		case len(steps) < 2:
			continue
		case out == nil:
			out = &htmlExamples{Prompt: multiline(steps[0].Prompt), Gold: textutil.Printable(steps[0].Gold, mostExampleChars)}
		case len(out.Arms) == mostExampleArms:
			out.More++
			continue
		}
		e := htmlExample{Arm: a.Arms[k].Name(), Seed: fmt.Sprintf("seed %d", seed), Open: len(out.Arms) == 0}
		for _, s := range spread(steps, mostExampleSteps) {
			c := sampledCompletion(s)
			e.Steps = append(e.Steps, c.html(c.Numbers()))
		}
		out.Arms = append(out.Arms, e)
	}
	return out
}

// sampledValidation are the sampled completions of validation problems that an arm's first run with
// any kept, in the order of the steps.
func sampledValidation(arm *analysis.ArmResult) (out []rundir.Sample, seed uint64) {
	for _, s := range arm.Runs {
		if s.Run == nil {
			continue
		}
		for _, x := range s.Run.Samples {
			if x.Split == rundir.SplitVal && x.Decoding == rundir.DecodingSampled {
				out = append(out, x)
			}
		}
		if len(out) > 0 {
			return out, s.Seed
		}
	}
	return nil, 0
}

func ofProblem(samples []rundir.Sample, problem string) []rundir.Sample {
	return slices.DeleteFunc(slices.Clone(samples), func(s rundir.Sample) bool { return s.Problem != problem })
}

// exampleProblem is the first problem whose first completion is wrong and whose last is right; if
// there is none, the first with completions of several steps; else empty.
func exampleProblem(samples []rundir.Sample) string {
	first := ""
	for _, problem := range analysis.Unique(samples, func(s rundir.Sample) string { return s.Problem }) {
		steps := ofProblem(samples, problem)
		switch {
		case len(steps) < 2:
		case steps[0].AnswerReward == 0 && steps[len(steps)-1].AnswerReward > 0:
			return problem
		case first == "":
			first = problem
		}
	}
	return first
}

// spread takes at most n elements, with the first and the last, evenly.
func spread[T any](all []T, n int) []T {
	if len(all) <= n {
		return all
	}
	out := make([]T, n)
	for i := range out {
		out[i] = all[i*(len(all)-1)/(n-1)]
	}
	return out
}

func multiline(s string) string { return textutil.Cut(textutil.Text(s), mostExampleChars) }
