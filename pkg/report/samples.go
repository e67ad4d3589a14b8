package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
)

// SampledProblem is a problem with the completions that a run kept of it, in the order of the steps.
type SampledProblem struct {
	Problem     string              `json:"problem"` // its ID
	Split       string              `json:"split"`
	Decoding    string              `json:"decoding"`
	Prompt      string              `json:"prompt"`
	Gold        string              `json:"gold"`
	Completions []SampledCompletion `json:"completions"`
}

// SampledCompletion is a completion after a step.
type SampledCompletion struct {
	Step         int            `json:"step"`
	Completion   string         `json:"completion"`
	Right        bool           `json:"right"`
	Why          string         `json:"why"` // it is wrong: see [rundir.Sample.Why]
	Cut          bool           `json:"cut"` // by the limit of tokens
	Reward       float64        `json:"reward"`
	AnswerReward float64        `json:"answer_reward"`
	FormatReward float64        `json:"format_reward"`
	Length       *int           `json:"completion_length"` // null in runs of earlier versions
	Columns      map[string]any `json:"columns,omitempty"`
}

// SampleFilter selects completions of a run. Wrong and Changed keep the problems with a wrong
// completion after their last step, and those that were answered right at one step and wrong at another.
type SampleFilter struct {
	Split, Decoding string
	Step            *int // nil: all
	Wrong, Changed  bool
}

// SampledProblems groups the completions that a run kept by problem, in the order of the file. It is an
// error if the run has no completion of the split, the decoding or the step.
func SampledProblems(r *rundir.Run, f SampleFilter) ([]SampledProblem, error) {
	if len(r.Samples) == 0 {
		return nil, fmt.Errorf("%s has no completions: none was kept (eval.save_samples=0), "+
			"or the run has not evaluated yet", rundir.SamplesFile)
	}
	kinds := analysis.Unique(r.Samples, func(s rundir.Sample) string { return s.Split + ", " + s.Decoding })
	all := slices.DeleteFunc(slices.Clone(r.Samples), func(s rundir.Sample) bool {
		return s.Split != f.Split || s.Decoding != f.Decoding
	})
	if len(all) == 0 {
		return nil, config.Invalid(fmt.Errorf("%s has no completions of %s, %s (it has: %s)", rundir.SamplesFile,
			f.Split, f.Decoding, strings.Join(kinds, "; ")))
	}
	if f.Step != nil {
		steps := analysis.Unique(all, func(s rundir.Sample) string { return fmt.Sprint(s.Step) })
		if all = slices.DeleteFunc(all, func(s rundir.Sample) bool { return s.Step != *f.Step }); len(all) == 0 {
			return nil, config.Invalid(fmt.Errorf("%s has no completions of %s, %s after step %d (it has steps %s)",
				rundir.SamplesFile, f.Split, f.Decoding, *f.Step, strings.Join(steps, ", ")))
		}
	}
	problems := []SampledProblem{}
	at := map[string]int{}
	for _, s := range all {
		i, known := at[s.Problem]
		if !known {
			i = len(problems)
			at[s.Problem] = i
			problems = append(problems, SampledProblem{s.Problem, s.Split, s.Decoding, s.Prompt, s.Gold, nil})
		}
		problems[i].Completions = append(problems[i].Completions, sampledCompletion(s))
	}
	return slices.DeleteFunc(problems, func(p SampledProblem) bool {
		return f.Wrong && !p.wrong() || f.Changed && !p.changed()
	}), nil
}

func sampledCompletion(s rundir.Sample) SampledCompletion {
	c := SampledCompletion{
		Step: s.Step, Completion: s.Completion, Right: s.Right(), Why: s.Why(), Cut: !s.Ended,
		Reward: s.Reward, AnswerReward: s.AnswerReward, FormatReward: s.FormatReward, Columns: s.Columns,
	}
	if s.Length > 0 {
		c.Length = &s.Length
	}
	return c
}

// wrong reports whether a completion after the last step is wrong.
func (p SampledProblem) wrong() bool {
	last := p.Completions[len(p.Completions)-1].Step
	return slices.ContainsFunc(p.Completions, func(c SampledCompletion) bool { return c.Step == last && !c.Right })
}

// changed reports whether one completion is right and another wrong.
func (p SampledProblem) changed() bool {
	return slices.ContainsFunc(p.Completions, func(c SampledCompletion) bool { return c.Right != p.Completions[0].Right })
}

// Outcomes are the values of [rundir.Sample.Why] in words.
var Outcomes = map[string]string{
	"": "right", "cut": "wrong, cut at the limit of tokens", "format": "wrong, no final answer of the expected form",
	"answer": "wrong answer",
}

// numbers are the reward and the length in words.
func (c SampledCompletion) numbers() string {
	out := "no reward"
	if !math.IsNaN(c.Reward) {
		out = "reward " + textutil.Number(c.Reward)
	}
	if c.Length != nil {
		out += ", " + textutil.Count(*c.Length, "token")
	}
	if c.Cut && c.Right { // custom graders read what was cut
		out += ", cut"
	}
	return out
}

// WriteSamples writes problems for a terminal: each prompt once, then its completions. Lines that all
// prompts begin with, such as worked examples, come first. A text has its lines indented, so that none
// looks like a line of the program.
func WriteSamples(w io.Writer, problems []SampledProblem) error {
	if len(problems) == 0 {
		_, err := io.WriteString(w, "no problem is left\n")
		return err
	}
	var b strings.Builder
	shared := sharedStart(problems)
	if shared != "" {
		b.WriteString("every prompt begins with\n" + indented(shared) + "\n\n")
	}
	for i, p := range problems {
		if i > 0 {
			b.WriteString("\n\n")
		}
		textutil.Fprintf(&b, "%s (%s, %s), right answer %s\n", p.Problem, splitName(p.Split), p.Decoding, p.Gold)
		b.WriteString(indented(p.Prompt[len(shared):]))
		for _, c := range p.Completions {
			textutil.Fprintf(&b, "\nstep %d: %s (%s)\n", c.Step, Outcomes[c.Why], c.numbers())
			b.WriteString(indented(c.Completion))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// sharedStart are the lines that all prompts begin with; empty if there are only a few.
func sharedStart(problems []SampledProblem) string {
	const few = 3
	first, n := problems[0].Prompt, len(problems[0].Prompt)
	for _, p := range problems {
		for n > 0 && !strings.HasPrefix(p.Prompt, first[:n]) {
			n = strings.LastIndexByte(first[:n-1], '\n') + 1
		}
	}
	if len(problems) == 1 || strings.Count(first[:n], "\n") <= few {
		return ""
	}
	return first[:n]
}

func indented(s string) string {
	if s == "" {
		return "  (empty)\n"
	}
	return "  " + strings.ReplaceAll(strings.TrimRight(textutil.Text(s), "\n"), "\n", "\n  ") + "\n"
}

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
		problem = cmp.Or(problem, exampleProblem(problems))
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
