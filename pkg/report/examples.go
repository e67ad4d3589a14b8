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

func (c SampledCompletion) html() htmlCompletion {
	return htmlCompletion{c.Step, multiline(c.Completion), Outcomes[c.Why], c.Right, c.numbers()}
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
		problems, seed := keptProblems(&a.Arms[k])
		if problem == "" {
			problem = exampleProblem(problems)
		}
		i := slices.IndexFunc(problems, func(p SampledProblem) bool { return p.Problem == problem })
		switch {
		case i < 0 || len(problems[i].Completions) < 2:
			continue
		case out == nil:
			p := &problems[i]
			out = &htmlExamples{Prompt: multiline(p.Prompt), Gold: textutil.Printable(p.Gold, mostExampleChars)}
		case len(out.Arms) == mostExampleArms:
			out.More++
			continue
		}
		e := htmlExample{Arm: a.Arms[k].Name(), Seed: fmt.Sprintf("seed %d", seed), Open: len(out.Arms) == 0}
		for _, c := range spread(problems[i].Completions, mostExampleSteps) {
			e.Steps = append(e.Steps, c.html())
		}
		out.Arms = append(out.Arms, e)
	}
	return out
}

// keptProblems are the validation problems of which an arm's first run with any kept completions.
func keptProblems(arm *analysis.ArmResult) (out []SampledProblem, seed uint64) {
	for _, s := range arm.Runs {
		if s.Run == nil {
			continue
		}
		if out = validationSamples(s.Run); len(out) > 0 {
			return out, s.Seed
		}
	}
	return nil, 0
}

// validationSamples are the validation problems with their sampled completions; none if the run kept none.
func validationSamples(r *rundir.Run) []SampledProblem {
	out, _ := SampledProblems(r, SampleFilter{Split: rundir.SplitVal, Decoding: rundir.DecodingSampled})
	return out
}

// exampleProblem is the first problem whose first completion is wrong and whose last is right; if
// there is none, the first with completions of several steps; else empty.
func exampleProblem(problems []SampledProblem) string {
	first := ""
	for _, p := range problems {
		switch {
		case len(p.Completions) < 2:
		case p.order() == 2:
			return p.Problem
		case first == "":
			first = p.Problem
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
