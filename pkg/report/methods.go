package report

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"text/template"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/config"
	"grpo/pkg/rl"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// A paragraph on how runs were made, for the appendix of a paper: sentences about the settings that
// every paper states, a list of the others that are not at their default, and of a sweep its arms and
// seeds. The sentences are the templates of methods.tmpl.

//go:embed templates/methods.tmpl
var methodsText string

var methodsTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(wordFuncs).Parse(folded(methodsText)))
})

// methodsSentences are the templates in the order of the paragraph.
var methodsSentences = []string{
	"model", "problems", "rollout", "rewards", "advantages", "loss", "penalty", "optimizer", "evaluation",
	"others", "arms", "seeds", "software",
}

// RunMethods describes runs of one setting; if they differ in more than their seeds, they are
// described as the arms of a sweep. It is an error if a configuration can't be read.
func RunMethods(runs []*rundir.Run) (string, error) {
	sw, err := analysis.ArmsOf(runs, "")
	if err != nil {
		return "", fmt.Errorf("describe runs: %w", err)
	}
	return SweepMethods(sw)
}

// StudyMethods describes the parts of the study in dir that have started.
func StudyMethods(dir string) (string, error) {
	st, sweeps, err := sweepdir.OpenStudy(dir)
	if err != nil {
		return "", err
	}
	st = analysis.PrintableStudy(st)
	var parts []string
	for i, sw := range sweeps {
		if sw == nil {
			continue
		}
		text, err := SweepMethods(sw)
		if err != nil {
			return "", err
		}
		parts = append(parts, question(st.Parts[i], nil)+"\n"+text)
	}
	if len(parts) == 0 {
		return "", fmt.Errorf("describe %s: no part of the study has started", dir)
	}
	return strings.Join(parts, "\n\n"), nil
}

// SweepMethods describes a sweep.
func SweepMethods(sw *sweepdir.Sweep) (string, error) {
	m := &methods{Manifest: &sw.Manifest, Runs: analysis.RunsOf(sw.Runs), states: sw.Runs}
	base := sw.Manifest.Base
	if base == "" && len(m.Runs) > 0 {
		base = string(m.Runs[0].Config)
	}
	if base == "" {
		return "", errors.New("describe runs: there is no configuration (config.yaml, or a sweep's manifest.json)")
	}
	loaded, err := config.LoadText("configuration", []byte(base))
	if err != nil {
		return "", fmt.Errorf("describe runs: their configuration can't be read: %w", err)
	}
	m.Config = loaded.Config
	return m.text()
}

// methods is what the templates of the sentences are executed with.
type methods struct {
	Manifest *sweepdir.Manifest
	Config   config.Config
	Runs     []*rundir.Run
	states   []sweepdir.RunState
	said     []string // keys
}

func (m *methods) text() (string, error) {
	var sentences []string
	for _, name := range methodsSentences {
		var b strings.Builder
		if err := methodsTemplate().ExecuteTemplate(&b, name, m); err != nil {
			return "", fmt.Errorf("describe runs: %w", err)
		}
		if s := strings.TrimSpace(b.String()); s != "" {
			sentences = append(sentences, s)
		}
	}
	return textutil.Printable(strings.Join(sentences, " "), 0), nil
}

// Says reports whether a sentence may state the values of the keys, which spaces separate: whether none of
// them differs by arm.
func (m *methods) Says(lists ...string) bool {
	keys := strings.Fields(strings.Join(lists, " "))
	if slices.ContainsFunc(keys, func(key string) bool { return slices.Contains(m.Manifest.Varied, key) }) {
		return false
	}
	m.said = append(m.said, keys...)
	return true
}

// Others are the settings that no sentence has stated and that are not at their default.
func (m *methods) Others() (list []string) {
	for _, s := range config.NotDefault(m.Config) {
		own := s.Key == "seed" || s.Key == "eval.save_samples"
		if !own && !slices.Contains(m.said, s.Key) && !slices.Contains(m.Manifest.Varied, s.Key) {
			list = append(list, s.Key+" = "+s.Value)
		}
	}
	return list
}

// Parameters is the number of trained parameters; empty if it differs.
func (m *methods) Parameters() string {
	if all := analysis.Unique(m.Runs, parametersOf); len(all) == 1 {
		return all[0]
	}
	return ""
}

// Functions are the reward functions with their weights.
func (m *methods) Functions() []string {
	c := m.Config.Reward
	out := slices.Clone(c.Functions)
	for i := range out[:min(len(out), len(c.RewardWeights))] {
		if len(out) > 1 || c.RewardWeights[i] != 1 {
			out[i] += " (weight " + textutil.Number(c.RewardWeights[i]) + ")"
		}
	}
	return out
}

// Minus is the baseline of the advantages, and By their normalizer; empty for none. HasEps reports whether
// advantage_eps is added to the divisor.
func (m *methods) Minus() string {
	baseline, _ := m.Config.Algorithm.Advantages()
	return map[rl.Baseline]string{
		rl.BaselineGroupMean: "the mean of their group", rl.BaselineLeaveOneOut: "the mean of the others in their group",
		rl.BaselineBatchMean: "the mean of the batch", rl.BaselineLengthWeighted: "the length-weighted mean of their group",
		rl.BaselineGreedy: "the reward of the prompt's greedy completion",
	}[baseline]
}

func (m *methods) By() string {
	_, normalizer := m.Config.Algorithm.Advantages()
	return map[rl.Normalizer]string{
		rl.NormalizerGroupStd:  "divided by the group's sample standard deviation",
		rl.NormalizerBatchStd:  "divided by the batch's standard deviation",
		rl.NormalizerGroupMean: "divided by the group's mean reward",
		rl.NormalizerGPG:       "divided by the share of nonzero rewards",
		rl.NormalizerWhiten:    "whitened over the completions of the batch",
		"whiten_tokens":        "whitened over all tokens of the batch",
	}[normalizer]
}

func (m *methods) HasEps() bool {
	_, normalizer := m.Config.Algorithm.Advantages()
	return normalizer == rl.NormalizerGroupStd || normalizer == rl.NormalizerGroupMean ||
		normalizer == rl.NormalizerBatchStd
}

// Aggregation is how token losses are summed; empty if that differs by arm.
func (m *methods) Aggregation() string {
	const byCompletion, byConstant = "averaged over the tokens of each completion and then over completions",
		"summed over the tokens of each completion, divided by %s and averaged over completions"
	a, keys := m.Config.Algorithm, "algorithm.length_normalization"
	text := map[rl.Aggregation]string{
		rl.MaskedMeanSeq: byCompletion, rl.SeqMeanTokenMean: byCompletion,
		rl.MaskedNormalizeSeq: byConstant, rl.SeqMeanTokenSumNorm: byConstant,
		rl.Constant:  "summed over all tokens and divided by %s",
		rl.TokenMean: "averaged over all tokens of the batch", rl.TokenSum: "summed over all tokens of the batch",
		rl.SeqMeanTokenSum: "summed over the tokens of each completion and averaged over completions",
	}[a.LengthNormalization]
	if strings.Contains(text, "%s") {
		text, keys = fmt.Sprintf(text, textutil.Number(a.NormalizeConstant)), keys+" algorithm.normalize_constant"
	}
	if text == "" || !m.Says(keys) {
		return ""
	}
	return text
}

// Evaluated is "1,024 ", the number of problems of a split, if all runs have the same and key does not differ
// by arm.
func (m *methods) Evaluated(split, key string) string {
	all := analysis.Unique(m.Runs, func(r *rundir.Run) string {
		if evals := analysis.EvalsOf(r, split); len(evals) > 0 {
			return thousands(evals[0].Problems())
		}
		return ""
	})
	if len(all) != 1 || !m.Says(key) {
		return ""
	}
	return all[0] + " "
}

// Axes are the keys of the axes with their values, Arms the arms with what they set.
func (m *methods) Axes() (out []string) {
	for _, x := range m.Manifest.Axes {
		out = append(out, fmt.Sprintf("%s (%s)", x.Key, listed(x.Values)))
	}
	return out
}

func (m *methods) Arms() (out []string) {
	for _, a := range m.Manifest.Arms {
		var set []string
		for _, o := range a.Set {
			set = append(set, o.Key+" = "+o.Value)
		}
		out = append(out, a.Name)
		if len(set) > 0 {
			out[len(out)-1] += " (" + strings.Join(set, ", ") + ")"
		}
	}
	return out
}

// Trained is the number of runs that were trained or will be, whatever a look or halving has left out.
func (m *methods) Trained() (n int) {
	for _, s := range m.states {
		if !sweepdir.LeftOut(s.State) && s.Dir != "-" {
			n++
		}
	}
	return n
}

// Ended is the number of runs with a result.
func (m *methods) Ended() (n int) {
	for _, r := range m.Runs {
		if r.Finished() {
			n++
		}
	}
	return n
}

func (m *methods) Seeds() []string {
	return analysis.Unique(m.Manifest.Seeds, func(s uint64) string { return fmt.Sprint(s) })
}

func (m *methods) Versions() []string { return analysis.Unique(m.Runs, versionOf) }
func (m *methods) Machines() []string { return analysis.Unique(m.Runs, machineOf) }

// Hashes are the hashes of the runs' configurations.
func (m *methods) Hashes() []string {
	return analysis.Unique(m.Runs, analysis.OfMeta(func(m *rundir.Meta) string { return m.ConfigHash }))
}
