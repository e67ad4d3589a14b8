package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"math"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"text/template"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"
)

// Every sentence of a verdict is a template of sentences.tmpl, named by the kind of its finding; package
// analysis decides which findings there are.

//go:embed templates/sentences.tmpl
var sentencesText string

// folded is the text of a file of templates in which a line break with its indentation is one space.
func folded(text string) string { return regexp.MustCompile(`\n +`).ReplaceAllString(text, " ") }

// Templates are parsed when a report needs them: every command starts without.
var sentences = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(wordFuncs).Parse(folded(sentencesText)))
})

// wordFuncs are the functions of the templates of sentences and of methods.
var wordFuncs = template.FuncMap{
	"count": textutil.Count, "number": textutil.Number, "join": strings.Join, "listed": listed, "few": few,
	"decimals": analysis.Decimals, "percent": analysis.Percent, "pvalue": analysis.PValue,
	"seedList": analysis.SeedsText, "stepRange": analysis.StepRange,
	"alpha":    func() float64 { return stats.Alpha },
	"add":      func(x, y int) int { return x + y },
	"div":      func(x, y int) int { return x / max(1, y) },
	"baseName": func(s string) string { return path.Base(filepath.ToSlash(s)) },
	"noDot":    func(s string) string { return strings.TrimSuffix(s, ".") },
	"plus":     func(list []string, more string) []string { return append(list, more) },
	// points is "4.1 points [1.2, 7.0]" of a summary of differences, reward "93.3% [91.2, 95.4]".
	"points":      analysis.InPercent.Difference,
	"reward":      func(s *analysis.Summary) string { return analysis.Reward(*s) },
	"seeds":       func(s *analysis.Summary) string { return textutil.Count(s.N, "seed") },
	"metricLabel": metricLabel,
	// bound is "4.1 points", margin "2 points", drop "16.4 points lower [3.4, 29.4]".
	// equals is "= 0.024" or "< 0.001" of a p value.
	"equals": func(p float64) string {
		if text := analysis.PValue(p); strings.HasPrefix(text, "<") {
			return "< " + text[1:]
		}
		return "= " + analysis.PValue(p)
	},
	"bound":     func(v float64) string { return analysis.InPercent.Bare(v) + " points" },
	"margin":    marginText,
	"converged": func() string { return analysis.Decimals(100*analysis.ConvergedReward, 0) + "%" },
	"percent0":  func(v float64) string { return analysis.Decimals(100*v, 0) + "%" },
	"drop": func(s *analysis.Summary) string {
		word, n := "lower", analysis.InPercent
		d := *s
		if d.Mean < 0 {
			word, d.Mean, d.Lo, d.Hi = "higher", -d.Mean, -d.Hi, -d.Lo
		}
		return n.Bare(d.Mean) + " points " + word + n.Interval(d.Lo, d.Hi)
	},
	// ends is the range of the values: "2.0% to 3.1%".
	"ends": func(s *analysis.Summary) string {
		lo, hi := analysis.Percent(slices.Min(s.Values)), analysis.Percent(slices.Max(s.Values))
		return strings.Join(slices.Compact([]string{lo, hi}), " to ")
	},
	// most are at most n of a list, and how many there are beyond these.
	"most": func(n int, list []string) []string {
		if len(list) > n {
			list = append(list[:n:n], fmt.Sprintf("and %d more", len(list)-n))
		}
		return list
	},
	"verb": func(n int, singular, plural string) string {
		if n == 1 {
			return singular
		}
		return plural
	},
}

// sentence is a finding in words, without its full stop.
func (a *Report) sentence(f *analysis.Finding) string { return words{a, f}.Execute(string(f.Kind)) }

// words is what the template of a finding is executed with.
type words struct {
	*Report
	*analysis.Finding
}

// Execute is the named template on the finding. A finding without a template is a bug that tests find.
func (w words) Execute(name string) string {
	var b strings.Builder
	if err := sentences().ExecuteTemplate(&b, name, w); err != nil {
		panic(fmt.Sprintf("report: the sentence of a finding of kind %s: %v", w.Kind, err))
	}
	return b.String()
}

func (w words) Sentence() string { return w.Execute(string(w.Kind)) }

// Each is the named template on each of several findings.
func (w words) Each(name string, of []words) []string {
	out := make([]string, len(of))
	for i := range of {
		out[i] = of[i].Execute(name)
	}
	return out
}

// Parts are the parts of the finding.
func (w words) Parts() []words {
	out := make([]words, len(w.Finding.Parts))
	for i := range out {
		out[i] = words{w.Report, &w.Finding.Parts[i]}
	}
	return out
}

// Singles are the finding about each of its arms, Others about each but the first.
func (w words) Others() []words { return w.Singles()[1:] }

func (w words) Singles() []words {
	var out []words
	for _, arm := range w.Arms {
		f := *w.Finding
		f.Arms = []int{arm}
		out = append(out, words{w.Report, &f})
	}
	return out
}

// Arm is the label of the finding's first arm, Other that of the second, Name that of the i-th without its
// point, in quotes.
func (w words) Arm() string       { return w.label(w.Arms[0]) }
func (w words) Other() string     { return w.label(w.Arms[1]) }
func (w words) Name(i int) string { return quote(w.Report.Arms[w.Arms[i]].Name()) }

// Result is the first arm, and Summary a metric of it.
func (w words) Result() *analysis.ArmResult { return &w.Report.Arms[w.Arms[0]] }

func (w words) Summary(metric string) *analysis.Summary {
	s := w.Result().Of(analysis.MetricOf(metric))
	return &s
}

// Value is the mean of a metric of the first arm with its unit, Share with two decimals instead.
func (w words) Value(metric string) string {
	return analysis.FormatOf(analysis.MetricOf(metric), 0).Value(w.Summary(metric).Mean)
}

func (w words) Share(metric string) string { return analysis.Decimals(w.Summary(metric).Mean, 2) }

// Format is how the metric of the finding is printed.
func (w words) Format() analysis.NumberFormat {
	return analysis.FormatOf(analysis.MetricOf(w.Metric), 0)
}

// IsBest reports whether the finding is about the best arm.
func (w words) IsBest() bool { return w.Arms[0] == w.Best }

// Control is the label of an arm, and that it is a control if the label does not have the word.
func (w words) Control() string {
	r := w.Result()
	if !r.Arm.Control || strings.Contains(strings.ToLower(r.Name()), "control") {
		return w.Name(0)
	}
	return "control " + w.Name(0)
}

// HasTest reports whether test problems were evaluated.
func (w words) HasTest() bool {
	return slices.ContainsFunc(w.Report.Arms, func(r analysis.ArmResult) bool { return r.Of(analysis.TestMetric).N > 0 })
}

// IsSplit reports whether a gain has its parts by format and by answers.
func (w words) IsSplit() bool {
	parts := w.Finding.Parts
	return len(parts) > 0 && parts[0].Kind == analysis.GainByFormat
}

// Comparison is the comparison of the two arms, or the contrast of a grid.
func (w words) Comparison() *analysis.Comparison {
	if len(w.Arms) > 1 {
		return w.Find(w.Metric, w.Arms[0], w.Arms[1])
	}
	i := slices.IndexFunc(w.Comparisons, func(c analysis.Comparison) bool {
		if w.Kind == analysis.MainEffect {
			return c.Kind == analysis.KindEffect && c.A == w.Keys[0]+" "+w.Shown(w.Factor(), 0)
		}
		return c.Kind == analysis.KindInteraction
	})
	if i < 0 {
		return nil
	}
	return &w.Comparisons[i]
}

// Factor is the axis of the first key.
func (w words) Factor() int {
	axes := w.Sweep.Manifest.Axes
	return max(0, slices.IndexFunc(axes, func(x sweepdir.Axis) bool { return cmp.Or(x.Label, x.Key) == w.Keys[0] }))
}

// ByItself: the interval of the pair leaves out 0, although the pair is not separable.
func (w words) ByItself() bool {
	c := w.Comparison()
	return c != nil && c.P <= stats.Alpha
}

// OneOfSeveral: claims are adjusted for several comparisons.
func (w words) OneOfSeveral() bool {
	return slices.ContainsFunc(w.Comparisons, func(c analysis.Comparison) bool {
		return c.Metric == analysis.FinalMetric.Name && c.Family > 1
	})
}

// LearnsAnswers: the arm is trained on the answer reward itself.
func (w words) LearnsAnswers() bool {
	r := w.Result()
	return math.Abs(r.Of(analysis.TrainRewardMetric).Mean-r.Of(analysis.TrainAnswerMetric).Mean) < 1e-9
}

// IsPositive: the first arm of the comparison is above the second.
func (w words) IsPositive() bool { return w.Comparison().Mean > 0 }

// OfKind are the parts of a kind.
func (w words) OfKind(kind string) []words {
	return slices.DeleteFunc(w.Parts(), func(p words) bool { return string(p.Kind) != kind })
}

// Rivals are the pairs of the best arm with those that no arm beats. A pair of the parts of a race has the
// best arm first.
func (w words) Rivals() []words {
	kinds := []analysis.Kind{analysis.Open, analysis.SameWithin, analysis.Identical, analysis.NotCompared}
	return slices.DeleteFunc(w.Parts(), func(p words) bool {
		if !slices.Contains(kinds, p.Kind) {
			return true
		}
		other := &w.Report.Arms[p.Arms[1]]
		return other.Diverged > 0 || other.Arm.Control
	})
}

// Most are the first of a list, which are the closest, for a headline; the tables have all.
func (w words) Most(all []words) []words { return all[:min(len(all), mostNamed)] }

// AheadOnTest are the differences of the best arm to the others on the test problems where it is ahead of them: "of
// 3e-5 by 3.3 points"; BehindOnTest those where it is behind: "3e-5 by 3.3 points".
func (w words) AheadOnTest() []string  { return w.onTest(1, "of ") }
func (w words) BehindOnTest() []string { return w.onTest(-1, "") }

func (w words) onTest(sign float64, before string) (out []string) {
	var arms []int
	for _, rival := range w.Rivals() {
		arms = append(arms, rival.Arms[1])
	}
	for _, worse := range w.OfKind(string(analysis.ClearlyWorse)) {
		arms = append(arms, worse.Arms[0])
	}
	for _, arm := range arms {
		c := w.Find(w.Metric, w.Best, arm)
		if c != nil && sign < 0 {
			c = w.Find(w.Metric, arm, w.Best)
		}
		if c != nil && c.Test != nil && (c.Test.Mean > 0 || c.Test.Mean == 0 && sign > 0) {
			out = append(out, before+w.short(arm)+" by "+analysis.InPercent.Difference(c.Test))
		}
	}
	return few(out)
}

// LastValue is the last value of the finding.
func (w words) LastValue() string { return w.Values[len(w.Values)-1] }

// Confidence is that of the interval and the bound of the finding's comparison: "95%".
func (w words) Confidence() string {
	level := stats.Alpha
	if c := w.Comparison(); c != nil && c.Level > 0 {
		level = c.Level
	}
	return textutil.Number(math.Round(1e5*(1-level))/1e3) + "%"
}

// First and Second are what is compared: arms, or the means of a contrast.
func (w words) First() string  { return w.compared(0) }
func (w words) Second() string { return w.compared(1) }

func (w words) compared(i int) string {
	if i < len(w.Arms) {
		return w.label(w.Arms[i])
	}
	return w.Values[i]
}

// LookSeeds are the seeds at which looks were planned, LooksTaken those of the looks that were taken, and
// LookLevels their levels: "2.5%".
func (w words) LookSeeds() (out []string) {
	for _, n := range w.Steps {
		out = append(out, fmt.Sprint(n))
	}
	return out
}

func (w words) LooksTaken() []string { return w.LookSeeds()[:w.Count] }

func (w words) LookLevels() (out []string) {
	for _, level := range w.Values {
		out = append(out, level+"%")
	}
	return out
}

// HasBestChosen: the highest mean is also known of an arm that the other seeds choose.
func (w words) HasBestChosen() bool { return stats.IsFinite(w.BestChosen) }

// Short is the rate of the first arm in a sweep of learning rates, else its label; ShortOther the second's.
func (w words) Short() string      { return w.short(w.Arms[0]) }
func (w words) ShortOther() string { return w.short(w.Arms[1]) }

func (a *Report) short(arm int) string {
	if axis := a.RateAxis(); axis != nil {
		return axis.Shown(a.Arms[arm].Arm.Point[0])
	}
	return a.label(arm)
}

// marginText is "2 points".
func marginText(margin float64) string {
	n := textutil.Number(math.Round(margin*1e6) / 1e4)
	if n == "1" {
		return "1 point"
	}
	return n + " points"
}

// Rate is the learning rate of the first arm as readers see it, Rates the rates of the parts of a kind.
func (w words) Rate() string { return w.RateAxis().Shown(w.Result().Arm.Point[0]) }

func (w words) Rates(kind string) (out []string) {
	for _, p := range w.Parts() {
		if string(p.Kind) == kind {
			out = append(out, p.Rate())
		}
	}
	return out
}

// BelowBest is the best arm less the first one, and WithBest the comparison of the two in its planned order.
func (w words) BelowBest() *analysis.Summary { return w.Find(w.Metric, w.Best, w.Arms[0]).Summary() }

func (w words) WithBest() *analysis.Comparison {
	c := w.Find(w.Metric, w.Best, w.Arms[0])
	if c.Reversed {
		c = w.Find(w.Metric, w.Arms[0], w.Best)
	}
	return c
}

// Shown is the i-th value of the finding, a value on an axis, as readers see it.
func (w words) Shown(axis, i int) string {
	if axes := w.Sweep.Manifest.Axes; axis < len(axes) {
		return axes[axis].Shown(w.Values[i])
	}
	return w.Values[i] // of arms with names
}

// TunedLabel is the label of a tuned arm, Point its value on the axis that is tuned, TunedValues all values there.
func (w words) TunedLabel() string { return w.tunedLabel(w.Arms[0]) }
func (w words) Point() string      { return w.point(w.Arms[0]) }

func (w words) TunedValues() (out []string) {
	for _, value := range w.Values {
		out = append(out, w.TunedOver().Shown(value))
	}
	return out
}

// DivergedEverywhere: all arms of the finding diverged.
func (w words) DivergedEverywhere() bool {
	return !slices.ContainsFunc(w.Arms, func(k int) bool { return w.Report.Arms[k].Diverged == 0 })
}

// PairFormat is how the metric of a difference is printed, PairMean its mean of an arm over the seeds of the
// difference.
func (w words) PairFormat() analysis.NumberFormat { return w.metricNumbers(w.Comparison()) }

func (w words) PairMean(i int) float64 {
	return w.Report.Arms[w.Arms[i]].Of(analysis.MetricOf(w.Metric)).MeanWhere(w.Numbers.Values)
}

// metricNumbers is how the metric of a comparison is printed.
func (a *Report) metricNumbers(c *analysis.Comparison) analysis.NumberFormat {
	m := analysis.MetricOf(c.Metric)
	completions := a.Arms[c.ArmA].Completions(m)
	if a.Arms[c.ArmB].Completions(m) != completions {
		completions = 0
	}
	f := a.FindingOf(c)
	w := words{a, &f}
	return analysis.FormatOf(m, completions, w.PairMean(0), w.PairMean(1))
}

func metricLabel(metric string) string { return capital(analysis.MetricOf(metric).Label) }

// Ranks are what the first arm beats and what it does not, a clause each. A signed difference is that of the
// comparison, whichever arm is first in it.
func (w words) Ranks() []string {
	type rank struct {
		kind  analysis.Kind
		first bool // the ranked arm is the first of the pair
	}
	none := func(kind analysis.Kind) map[rank]string { return map[rank]string{{kind, true}: "", {kind, false}: ""} }
	var out []string
	for _, clause := range []struct {
		text    string
		details map[rank]string // the template of what follows a name
	}{
		{"it beats", map[rank]string{{analysis.Beats, true}: "by"}},
		{"below it:", map[rank]string{{analysis.BeatenBy, false}: "signed"}},
		{"it is beaten by", map[rank]string{{analysis.BeatenBy, true}: "signed", {analysis.Beats, false}: "by"}},
		{"it is not clearly different from",
			map[rank]string{{analysis.Open, true}: "at most", {analysis.Open, false}: "at most"}},
		{"it is the same within " + marginText(w.Margin) + " as",
			map[rank]string{{analysis.SameWithin, true}: "at most", {analysis.SameWithin, false}: "at most"}},
		{"it is the same experiment, to the bit, as", none(analysis.Identical)},
		{"it can't be compared yet with", none(analysis.NotCompared)},
	} {
		var names []string
		for _, p := range w.Parts() {
			first := p.Arms[0] == w.Arms[0]
			detail, ok := clause.details[rank{p.Kind, first}]
			if !ok {
				continue
			}
			name := p.Arm()
			if first {
				name = p.Other()
			}
			if detail != "" {
				name += p.Execute(detail)
			}
			names = append(names, name)
		}
		if len(names) > 0 {
			out = append(out, clause.text+" "+listed(few(names)))
		}
	}
	return out
}

// label quotes the label of an arm; a tuned arm has its point after it.
func (a *Report) label(arm int) string {
	if axis := a.TunedOver(); axis != nil {
		return fmt.Sprintf("%s (%s %s)", a.tunedLabel(arm), axis.Label, a.point(arm))
	}
	return quote(a.Arms[arm].Name())
}

// quote keeps the words of a label apart from those of a sentence.
func quote(label string) string { return `"` + label + `"` }

func (a *Report) tunedLabel(arm int) string {
	return quote(analysis.LabelWithout(&a.Sweep.Manifest, arm, a.TunedOver().Key))
}

// point is the value of an arm on the axis that is tuned.
func (a *Report) point(arm int) string {
	axes := a.Sweep.Manifest.Axes
	i := slices.IndexFunc(axes, func(x sweepdir.Axis) bool { return x.Key == a.Sweep.Manifest.BestOver })
	if p := a.Arms[arm].Arm.Point; i < len(p) {
		return axes[i].Shown(p[i])
	}
	return analysis.Absent
}

// listed joins words: "a", "a and b", "a, b and c".
func listed(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// few shortens a long list: of each of its arms, a line and the table of differences say more.
func few(names []string) []string {
	if len(names) <= mostNamed {
		return names
	}
	return append(slices.Clone(names[:mostNamed-1]), fmt.Sprintf("%d more", len(names)-mostNamed+1))
}

const mostNamed = 4
