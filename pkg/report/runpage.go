package report

import (
	"fmt"
	"slices"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/plots"
	"grpo/pkg/rundir"
)

// htmlRun is what a page shows of a single run.
type htmlRun struct {
	Headline        string
	Lines, Warnings []string
	Main, Other     []htmlFigure
	Counts, Gains   Table
	AtK             Table // pass@k and maj@k
	Samples         []htmlProblem
	Shared          string // lines that all prompts begin with
	More            int    // problems that are not shown
}

// htmlProblem is a problem with its completions after several steps.
type htmlProblem struct {
	Name, Prompt, Gold string
	Open               bool
	Steps              []htmlCompletion
}

// mostProblems is the number of problems on the page of a run.
const mostProblems = 8

// WriteRunHTML writes the report of one run to path in one atomic move: how the validation reward
// changed, with its figure, then the counts, samples and last the settings. figures are those of
// [plots.Runs]. Like the page of a sweep it needs nothing outside itself.
func WriteRunHTML(path string, r *rundir.Run, figures []plots.Drawing) error {
	info, err := analysis.ReadInfo(r)
	if err != nil {
		return err
	}
	run := &htmlRun{Headline: runHeadline(r), Lines: runLines(r), Counts: summaryTable(r), Gains: gainTable(r),
		AtK: runAtKTable(r)}
	warnings := gaps(r)
	if r.Result != nil {
		warnings = slices.Concat(r.Result.Warnings, warnings)
	}
	for _, w := range warnings {
		run.Warnings = append(run.Warnings, asSentence(textutil.Printable(w, 0)))
	}
	run.Counts.Label, run.Gains.Label = "Counts", "Where the gains come from"
	for line := range strings.Lines(footnotes(r)) {
		run.Counts.Notes = append(run.Counts.Notes, asSentence(strings.TrimSpace(line)))
	}
	for i, d := range figures {
		if f := newHTMLFigure(d, ""); i == 0 {
			run.Main = append(run.Main, f)
		} else {
			run.Other = append(run.Other, f)
		}
	}
	pairUp(run.Main)
	run.addSamples(r)
	p := page{
		Title: info.Name + ", " + info.SeedText(), Lead: capital(analysis.Outcome(r, info)),
		Facts: facts([]*rundir.Run{r}), Run: run,
	}
	p.Made.Programs = programs([]*rundir.Run{r})
	if r.Meta != nil {
		p.Made.Command = commandLine(r.Meta.Argv)
	}
	if len(r.Config) > 0 {
		p.Made.Bases = []htmlBase{{"Resolved configuration", string(r.Config)}}
	}
	return p.write(path)
}

// runHeadline says how the sampled validation reward changed: "The validation answer reward rose from
// 17.2% to 51.6% after step 20." It rose or fell only if the intervals over the problems do not overlap.
func runHeadline(r *rundir.Run) string {
	before, after := analysis.Evaluation(r, rundir.SplitVal, analysis.AtStart), analysis.AnyValidation(r)
	if after == nil {
		return "The run has no evaluation yet."
	}
	last := analysis.Percent(after.Sampled.AnswerReward)
	at := "after step " + fmt.Sprint(after.Step)
	if before == nil || before.Step == after.Step {
		return fmt.Sprintf("The validation answer reward is %s %s.", last, at)
	}
	first := analysis.Percent(before.Sampled.AnswerReward)
	lo, hi := problemInterval(before)
	switch l, h := problemInterval(after); {
	case l > hi:
		return fmt.Sprintf("The validation answer reward rose from %s to %s %s.", first, last, at)
	case h < lo:
		return fmt.Sprintf("The validation answer reward fell from %s to %s %s.", first, last, at)
	}
	return fmt.Sprintf("The validation answer reward went from %s to %s %s: %s can't tell these apart.", first, last, at,
		textutil.Count(after.Problems(), "problem"))
}

// problemInterval is the 95% interval of the sampled reward over the problems.
func problemInterval(e *rundir.Eval) (lo, hi float64) {
	return analysis.ProblemInterval(e, &e.Sampled)
}

// runLines say what the headline is a share of, what it compares with, and what one run cannot show.
func runLines(r *rundir.Run) []string {
	e := analysis.AnyValidation(r)
	if e == nil || e.Sampled.N == 0 {
		return nil
	}
	percent := analysis.Percent
	lo, hi := problemInterval(e)
	right := fmt.Sprintf("%d of %s right by sampling, 95%% interval over the problems %s to %s",
		e.Sampled.CorrectNum, e.OutOf("validation problem"), percent(lo), percent(hi))
	if e.Greedy != nil {
		right += "; greedy " + percent(e.Greedy.AnswerReward)
	}
	if majority := textutil.Printable(e.MajorityAnswer, 0); majority != "" {
		right += fmt.Sprintf("; always answering %q: %s", majority, percent(e.MajorityBaseline))
	}
	if s := e.Sampled.Score; s != nil {
		right += "; mean of eval.reward " + analysis.Significant(*s, 4)
	}
	out := []string{right + "."}
	if n := e.Sampled.Truncated; n > 0 {
		out = append(out, fmt.Sprintf("%d of %d sampled completions were cut at the limit of tokens, and count as wrong.",
			n, e.Sampled.N))
	}
	if t := analysis.Evaluation(r, rundir.SplitTest, analysis.AtEnd); t != nil {
		out = append(out, fmt.Sprintf("Test problems: %s of %d after training.", percent(t.Sampled.AnswerReward), t.Problems()))
	}
	if note := analysis.CurveNote([]*rundir.Run{r}); note != "" {
		out = append(out, asSentence(note))
	}
	return append(out, "This is one run: with another seed the result differs, and a comparison needs several seeds.")
}

// addSamples adds the sampled validation problems, first those that were answered right at one step
// and wrong at another.
func (h *htmlRun) addSamples(r *rundir.Run) {
	problems := validationSamples(r)
	if len(problems) == 0 {
		return
	}
	shared := sharedStart(problems)
	h.Shared = multiline(shared)
	slices.SortStableFunc(problems, func(a, b SampledProblem) int { return b.order() - a.order() })
	for i, p := range problems {
		if i == mostProblems {
			h.More = len(problems) - mostProblems
			break
		}
		shown := htmlProblem{
			Prompt: multiline(p.Prompt[len(shared):]), Gold: textutil.Printable(p.Gold, mostExampleChars), Open: i == 0,
			Name: textutil.Printable(p.Problem, mostNameChars),
		}
		for _, c := range spread(p.Completions, mostExampleSteps) {
			shown.Steps = append(shown.Steps, c.html())
		}
		h.Samples = append(h.Samples, shown)
	}
}

const mostNameChars = 80

// order is higher for a problem that shows more of the training: 2 if it went from wrong to right, 1 if
// it changed otherwise.
func (p SampledProblem) order() int {
	first, last := p.Completions[0], p.Completions[len(p.Completions)-1]
	switch {
	case !first.Right && last.Right:
		return 2
	case p.changed():
		return 1
	}
	return 0
}

// Path is how the answers changed: "wrong, right, right".
func (p htmlProblem) Path() string {
	var out []string
	for _, s := range p.Steps {
		word := "wrong"
		if s.Right {
			word = "right"
		}
		out = append(out, word)
	}
	return strings.Join(out, ", ")
}
