package report

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"strings"

	"grpo/internal/regular"
	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/config"
	"grpo/pkg/plots"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
)

// Audit is audit.json: the answers of an audit, with all that its page shows.
type Audit struct {
	Title    string        `json:"title"`
	Headline string        `json:"headline"` // the verdict in a sentence
	Lines    []string      `json:"lines"`    // the numbers behind it
	Answers  []AuditAnswer `json:"answers"`
	Notes    []string      `json:"notes"` // what is missing, and what the numbers do not say
	analysis.Audit
	Facts   []string `json:"facts"`
	Command []string `json:"command"`
}

// AuditAnswer is a row of the table of answers.
type AuditAnswer struct {
	Question string `json:"question"`
	Result   string `json:"result"`
	Verdict  string `json:"verdict"`
}

// NewAudit puts the answers into words. title names the recipe; notes are about what is missing; runs are those that
// were audited, and may be none.
func NewAudit(a *analysis.Audit, title string, notes, command []string, runs []*rundir.Run) *Audit {
	out := &Audit{Title: title, Audit: *a, Facts: facts(runs), Command: command, Answers: []AuditAnswer{}}
	var parts []string
	for _, k := range a.Kinds {
		head, line := out.part(k)
		parts, out.Lines = append(parts, head), append(out.Lines, asSentence(line))
	}
	out.Headline = asSentence(capital(strings.Join(parts, "; ")))
	out.passAt()
	out.solved()
	out.majority()
	out.gain()
	out.sets()
	out.placebos()
	out.drift()
	out.Notes = append([]string{}, notes...)
	if len(a.Seeds) == 1 {
		out.Notes = append(out.Notes, "This is one seed: the intervals are over the problems, and another seed may differ.")
	}
	if note := analysis.VersionsNote(runs); note != "" {
		out.Notes = append(out.Notes, note+".")
	}
	if last := out.last(); last.Base.Mean > 1-a.OneProblem() {
		out.Notes = append(out.Notes, fmt.Sprintf("The initial policy solves all problems within %s, so none could be newly "+
			"solved: fewer completions (--samples), or problems that it can't solve (--split unseen), say more.",
			textutil.Count(last.K, "completion")))
	}
	if len(a.Placebos) == 0 {
		out.Notes = append(out.Notes, "There is no placebo, so it is not known whether another reward would do the same.")
	}
	return out
}

// share is "51.6% [50.1, 53.0]", and points "34.4 points [33.0, 35.9]".
func share(i analysis.Interval) string {
	return analysis.Percent(i.Mean) + analysis.InPercent.Interval(i.Lo, i.Hi)
}

func points(i analysis.Interval) string {
	return analysis.InPercent.Difference(&analysis.Summary{Mean: i.Mean, Lo: i.Lo, Hi: i.Hi})
}

// direction says what an interval of a difference shows.
func direction(i analysis.Interval, above, below, neither string) string {
	switch {
	case i.Above(0):
		return above
	case i.Below(0):
		return below
	case !stats.IsFinite(i.Lo): // no interval
		return "one seed: no verdict"
	}
	return neither
}

// first and last are pass@1 and pass@n.
func (a *Audit) first() analysis.AuditPassAt { return a.PassAt[0] }
func (a *Audit) last() analysis.AuditPassAt  { return a.PassAt[len(a.PassAt)-1] }

// change is "from 17.2% to 51.6%".
func change(p analysis.AuditPassAt) string {
	return fmt.Sprintf("from %s to %s", analysis.Percent(p.Base.Mean), analysis.Percent(p.Trained.Mean))
}

// problems is an interval of a number of problems: "-3 to 9 of 1024". Below 1 an end has a decimal, because the verdict
// depends on which side of 0 it is.
func (a *Audit) problems(i analysis.Interval) string {
	if !stats.IsFinite(i.Lo) || !stats.IsFinite(i.Hi) {
		return analysis.Absent
	}
	end := func(v float64) string {
		if v != 0 && math.Abs(v) < 1 {
			return analysis.Plain(1).Bare(v)
		}
		return analysis.Plain(0).Bare(v)
	}
	return fmt.Sprintf("%s to %s of %d", end(i.Lo), end(i.Hi), a.Problems)
}

// part is a part of the verdict in a few words, and the numbers behind it.
func (a *Audit) part(k analysis.AuditKind) (head, line string) {
	first, last := a.first(), a.last()
	rises := fmt.Sprintf("pass@1 rises %s (%s)", change(first), points(first.Difference))
	chance := fmt.Sprintf("the problems newly solved beyond chance are %s", a.problems(a.New.Beyond))
	switch k {
	case analysis.AuditReliable:
		not := "does not"
		if last.Difference.Above(0) {
			not = "perhaps by less than one problem"
		}
		return "more reliable, not more capable", fmt.Sprintf("%s, pass@%d %s (%s), and %s",
			rises, last.K, not, points(last.Difference), chance)
	case analysis.AuditNewProblems:
		what := fmt.Sprintf("pass@1 goes %s (%s)", change(first), points(first.Difference))
		return fmt.Sprintf("new problems solved: %s", a.problems(a.New.Beyond)), fmt.Sprintf(
			"%.0f problems are solved in %d completions that a draw of the initial policy did not solve, and %.0f of these "+
				"by chance; %s", a.New.Observed, a.Samples, a.New.ByChance, what)
	case analysis.AuditEveryK:
		return fmt.Sprintf("more at every k, from pass@1 to pass@%d", last.K), fmt.Sprintf("%s and pass@%d too (%s), but %s",
			rises, last.K, points(last.Difference), chance)
	case analysis.AuditFormat:
		return "mostly format", fmt.Sprintf("%s of the gain is by format, not by answers", share(a.Gain.FormatShare))
	case analysis.AuditPlaceboToo:
		var than []string
		for _, p := range a.Placebos {
			if p.Same() {
				than = append(than, fmt.Sprintf("the %s reward by %s", p.Reward, points(p.Difference)))
			}
		}
		return "nothing that a placebo did not do", "the gain exceeds the gain of " + listed(than)
	}
	line = fmt.Sprintf("pass@1 goes %s (%s), and %s", change(first), points(first.Difference), chance)
	if last.Difference.Below(0) {
		line += fmt.Sprintf("; pass@%d falls %s (%s)", last.K, change(last), points(last.Difference))
	}
	return "no gain shown", line
}

func (a *Audit) add(question, result, verdict string) {
	a.Answers = append(a.Answers, AuditAnswer{question, result, verdict})
}

func (a *Audit) passAt() {
	for _, p := range []analysis.AuditPassAt{a.first(), a.last()} {
		a.add(fmt.Sprintf("Right within %s (pass@%d)", textutil.Count(p.K, "completion"), p.K),
			fmt.Sprintf("%s: %s", change(p), points(p.Difference)), a.verdictAt(p))
		if p.K == a.last().K {
			break
		}
	}
	result, verdict := "after training is above at every k", "no crossing"
	switch {
	case a.first().Difference.Mean <= 0:
		result, verdict = "after training is not above at k = 1", "no crossing"
	case a.Crossing != nil && a.Crossing.Clear:
		result, verdict = fmt.Sprintf("before training is not below from k = %d", a.Crossing.K), "crossing"
	case a.Crossing != nil:
		result, verdict = fmt.Sprintf("before training is not below from k = %d", a.Crossing.K), "crossing within chance"
	}
	a.add("Do the curves of pass@k cross?", result, verdict)
}

func (a *Audit) solved() {
	n := analysis.Plain(1)
	for _, s := range []struct {
		what string
		analysis.AuditSolved
		verdict string
	}{{"newly solvable", a.New, "new problems"}, {"lost", a.Lost, "problems lost"}} {
		a.add(fmt.Sprintf("Problems %s in %s, beyond chance", s.what, textutil.Count(a.Samples, "completion")),
			fmt.Sprintf("%s%s of %d: %.1f observed, %.1f by chance", n.Bare(s.Beyond.Mean), n.Interval(s.Beyond.Lo, s.Beyond.Hi),
				a.Problems, s.Observed, s.ByChance),
			direction(s.Beyond, s.verdict, "fewer than by chance", "as by chance"))
	}
}

func (a *Audit) majority() {
	m := a.Majority
	a.add(fmt.Sprintf("Majority vote before training at the same tokens (maj@%d)", m.K),
		fmt.Sprintf("%s against pass@1 of %s after training: %s", analysis.Percent(m.Majority.Mean),
			analysis.Percent(m.Trained.Mean), points(m.Difference)),
		direction(m.Difference, "training is better", "the vote is better", "not separable"))
	result, verdict := fmt.Sprintf("not up to %d votes", m.MostK), "no vote reaches it"
	if m.ReachedAt > 0 {
		result = fmt.Sprintf("%s, %.0f tokens instead of %.0f", textutil.Count(m.ReachedAt, "vote"),
			float64(m.ReachedAt)*m.BaseLength, m.TrainedLength)
		verdict = "a vote reaches it"
	}
	a.add("Votes before training that reach pass@1 after it", result, verdict)
}

func (a *Audit) gain() {
	g, verdict := a.Gain, "no gain to split"
	switch {
	case g.FormatShare.Above(0.5):
		verdict = "mostly format"
	case g.FormatShare.Below(0.5):
		verdict = "mostly answers"
	case g.Total.Above(0):
		verdict = "both"
	}
	a.add("Gain by format", points(g.Format), verdict)
	a.add("Gain by answers", points(g.Answers), verdict)
}

func (a *Audit) sets() {
	names := map[string]string{
		rundir.SplitUnseen: "Unseen facts", rundir.SplitTest: "Test problems", rundir.SplitVal: "Validation problems",
	}
	for _, s := range a.Sets {
		name := cmp.Or(names[s.Set], textutil.Printable(s.Set, mostNameChars))
		result, verdict := share(s.After)+" after training", "no evaluation before training"
		if stats.IsFinite(s.Before) {
			result = fmt.Sprintf("from %s to %s: %s", analysis.Percent(s.Before), analysis.Percent(s.After.Mean),
				points(s.Difference))
			verdict = direction(s.Difference, "rises", "falls", "not separable")
		}
		a.add(fmt.Sprintf("%s (%s)", name, textutil.Count(s.Problems, "problem")), result, verdict)
	}
}

func (a *Audit) placebos() {
	for _, p := range a.Placebos {
		result := fmt.Sprintf("the placebo gains %s; the run gains %s more", points(p.Gain), points(p.Difference))
		neither := "not separable"
		if p.Same() {
			neither = "the placebo does the same"
		}
		if p.Unmoved == len(p.Seeds) {
			result += "; the weights are the initial ones to the bit"
		}
		a.add(fmt.Sprintf("Placebo: %s reward, %s", p.Reward, textutil.Count(len(p.Seeds), "seed")), result,
			direction(p.Difference, "the placebo does not do it", "the placebo does more", neither))
	}
}

func (a *Audit) drift() {
	d := a.Drift
	if d == nil {
		return
	}
	number := func(i analysis.Interval) string { return analysis.WithInterval(i.Mean, i.Lo, i.Hi) }
	a.add("Drift: KL to the initial policy, nats per token", number(d.KL), "")
	a.add("Entropy, nats per token", fmt.Sprintf("%s; the initial policy on the same completions %s",
		number(d.Entropy), number(d.BaseEntropy)), "")
	if stats.IsFinite(d.Changed.Mean) {
		a.add("Weights that changed", fmt.Sprintf("%s by more than %g; by %.2g%% of their norm",
			analysis.Percent(d.Changed.Mean), rundir.WeightChanged, 100*d.Distance.Mean), "")
	} else {
		a.add("Weights that changed", "n/a: adapters were trained", "")
	}
}

// answersTable is the table of the answers.
func (a *Audit) answersTable() Table {
	t := Table{Label: "Answers", Columns: []Column{
		{Head: "question", Text: true, Wrap: "middle"}, {Head: "result", Text: true, Wrap: "long"},
		{Head: "verdict", Text: true, Wrap: "middle"},
	}}
	for _, r := range a.Answers {
		t.add(r.Question, r.Result, r.Verdict)
	}
	return t
}

// passTable is pass@k at every k.
func (a *Audit) passTable() Table {
	t := Table{Label: "pass@k"}
	t.head("k", "before training", "after training", "difference")
	t.Columns = append(t.Columns, Column{Head: "verdict", Text: true})
	for _, p := range a.PassAt {
		t.add(fmt.Sprint(p.K), share(p.Base), share(p.Trained), points(p.Difference),
			a.verdictAt(p))
	}
	return t
}

// verdictAt is the verdict on a pass@k. For the last k, one problem is what the sentence at the top asks for.
func (a *Audit) verdictAt(p analysis.AuditPassAt) string {
	if p.K == a.last().K && p.K > 1 && p.Difference.Above(0) && !p.Difference.Above(a.OneProblem()) {
		return "rises, perhaps by less than one problem"
	}
	return direction(p.Difference, "rises", "falls", "not separable")
}

// about are the sentences below the tables.
func (a *Audit) about() []string {
	over := "the problems"
	if len(a.Seeds) > 1 {
		over = fmt.Sprintf("%d seeds and the problems", len(a.Seeds))
	}
	return []string{
		fmt.Sprintf("%s of %s, %d completions of each; the initial policy is drawn twice.",
			textutil.Count(a.Problems, "problem"), textutil.Printable(a.Split, 0), a.Samples),
		fmt.Sprintf("Brackets are 95%% intervals over %s.", over),
		"docs/audit.md says what each answer means, and the rules of the verdict.",
	}
}

// Markdown is audit.md.
func (a *Audit) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n**%s**\n\n", escapeMarkdown(a.Title), escapeMarkdown(a.Headline))
	for _, l := range a.Lines {
		fmt.Fprintf(&b, "- %s\n", escapeMarkdown(l))
	}
	answers, pass := a.answersTable(), a.passTable()
	fmt.Fprintf(&b, "\n%s\n![pass@k before and after training](%s)\n\n%s\n", answers.Markdown(), rundir.PassAtKPlot,
		pass.Markdown())
	b.WriteString(strings.Join(a.about(), " ") + "\n")
	if len(a.Notes) > 0 {
		b.WriteString("\n")
	}
	for _, n := range a.Notes {
		fmt.Fprintf(&b, "- %s\n", escapeMarkdown(n))
	}
	if len(a.Command) > 0 {
		fmt.Fprintf(&b, "\nMade by: `%s`\n", strings.ReplaceAll(commandLine(a.Command), "`", "'"))
	}
	return b.String()
}

// Text is the audit for a terminal.
func (a *Audit) Text() string {
	answers := a.answersTable()
	out := a.Headline + "\n\n" + answers.String() + "\n"
	for _, n := range a.Notes {
		out += "note: " + textutil.Printable(n, 0) + "\n"
	}
	return out
}

// htmlAudit is what the page of an audit shows.
type htmlAudit struct {
	Headline      string
	Lines, Notes  []string
	Figures       []htmlFigure
	Answers, Pass Table
}

// Write writes audit.json, audit.md, audit.html and the figure into dir, and returns their paths.
func (a *Audit) Write(dir string) ([]string, error) {
	d, err := plots.Audit(&a.Audit)
	if err != nil {
		return nil, err
	}
	h := &htmlAudit{Headline: a.Headline, Lines: a.Lines, Notes: a.Notes, Figures: []htmlFigure{newHTMLFigure(d, "")},
		Answers: a.answersTable(), Pass: a.passTable()}
	pairUp(h.Figures)
	h.Answers.Notes = a.about()
	p := page{Title: a.Title, Lead: strings.Join(a.about()[:1], " "), Facts: a.Facts, Audit: h}
	p.Made.Command = commandLine(a.Command)
	var paths []string
	at := func(name string) string {
		paths = append(paths, filepath.Join(dir, name))
		return paths[len(paths)-1]
	}
	return paths, errors.Join(
		rundir.WriteFileAtomic(at(rundir.PassAtKPlot), d.PNG),
		rundir.WriteFileAtomic(at(rundir.AuditTable), []byte(a.Markdown())),
		p.write(at(rundir.AuditPage)),
		rundir.WriteJSON(at(rundir.AuditFile), a),
	)
}

// IsAudit reports whether a folder has the answers of an audit.
func IsAudit(dir string) bool {
	return regular.Check(filepath.Join(dir, rundir.AuditFile), regular.MaxDocument) == nil
}

// OpenAudit reads audit.json in the folder of an audit.
func OpenAudit(dir string) (*Audit, error) {
	a := new(Audit)
	path := filepath.Join(dir, rundir.AuditFile)
	err := rundir.ReadJSON(path, a)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, config.Invalid(fmt.Errorf("%s has no %s", dir, rundir.AuditFile))
	case err == nil && (len(a.PassAt) == 0 || a.Problems < 1 || len(a.Seeds) == 0):
		err = config.Invalid(fmt.Errorf("read %s: it has no answers", path))
	}
	return a, err
}
