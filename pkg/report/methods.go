package report

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/analysis"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// A paragraph on how runs were made, for the appendix of a paper: sentences about the settings that
// every paper states (methods_sentences.go), a list of the others that are not at their default, and
// of a sweep its arms and seeds.

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
	m := &methods{manifest: &sw.Manifest, base: sw.Manifest.Base}
	for _, s := range sw.Runs {
		if s.Run != nil {
			m.runs = append(m.runs, s.Run)
		}
	}
	if m.base == "" && len(m.runs) > 0 {
		m.base = string(m.runs[0].Config)
	}
	if m.base == "" {
		return "", errors.New("describe runs: there is no configuration (config.yaml, or a sweep's manifest.json)")
	}
	loaded, err := config.LoadText("configuration", []byte(m.base))
	if err != nil {
		return "", fmt.Errorf("describe runs: their configuration can't be read: %w", err)
	}
	m.config = loaded.Config
	return m.text(), nil
}

// methods collects the sentences on a configuration.
type methods struct {
	manifest *sweepdir.Manifest
	base     string
	config   config.Config
	runs     []*rundir.Run
	said     []string // keys
}

// clause returns text, which says the values of keys, unless one of them differs by arm: the sentence
// on the arms has these.
func (m *methods) clause(text string, keys ...string) string {
	for _, key := range keys {
		if slices.Contains(m.manifest.Varied, key) {
			return ""
		}
	}
	m.said = append(m.said, keys...)
	return text
}

func (m *methods) text() string {
	sentences := []string{
		m.model(), m.problems(), m.rollout(), m.rewards(), m.advantages(), m.loss(), m.penalty(), m.optimizer(), m.evaluation(),
		m.others(), m.arms(), m.seeds(), m.software(),
	}
	sentences = slices.DeleteFunc(sentences, func(s string) bool { return s == "" })
	return textutil.Printable(strings.Join(sentences, " "), 0)
}

// others lists the settings that no sentence has said and that are not at their default.
func (m *methods) others() string {
	var list []string
	for _, s := range config.NotDefault(m.config) {
		if s.Key == "seed" || slices.Contains(m.said, s.Key) || slices.Contains(m.manifest.Varied, s.Key) {
			continue
		}
		list = append(list, s.Key+" = "+s.Value)
	}
	if len(list) == 0 {
		return "All other settings had their defaults."
	}
	return "Other settings that differ from the defaults: " + strings.Join(list, ", ") + "."
}

// arms says what a sweep compared.
func (m *methods) arms() string {
	f := m.manifest
	switch {
	case len(f.Arms) < 2:
		return ""
	case len(f.Axes) > 0:
		var axes []string
		for _, x := range f.Axes {
			axes = append(axes, fmt.Sprintf("%s (%s)", x.Key, listed(x.Values)))
		}
		return fmt.Sprintf("The %d arms differed in %s.", len(f.Arms), listed(axes))
	}
	var arms []string
	for _, a := range f.Arms {
		var set []string
		for _, o := range a.Set {
			set = append(set, o.Key+" = "+o.Value)
		}
		arms = append(arms, a.Name)
		if len(set) > 0 {
			arms[len(arms)-1] += " (" + strings.Join(set, ", ") + ")"
		}
	}
	return fmt.Sprintf("The %d arms were %s.", len(f.Arms), strings.Join(arms, "; "))
}

// seeds says how often each arm was trained.
func (m *methods) seeds() string {
	f, ended := m.manifest, 0
	for _, r := range m.runs {
		if r.Finished() {
			ended++
		}
	}
	seeds := analysis.Unique(f.Seeds, func(s uint64) string { return fmt.Sprint(s) })
	noun := "seed"
	if len(seeds) > 1 {
		noun = "seeds"
	}
	left := ""
	if ended < len(f.Runs) {
		left = fmt.Sprintf(", of which %d have ended so far", ended)
	}
	switch {
	case len(f.Runs) == 1 && left == "":
		return fmt.Sprintf("The run had seed %s.", listed(seeds))
	case len(f.Arms) < 2:
		return fmt.Sprintf("%s made with %s %s%s.", textutil.Count(len(f.Runs), "run"), noun, listed(seeds), left)
	case len(seeds) == 1:
		return fmt.Sprintf("Each arm was trained once, with seed %s (%s in all%s).", seeds[0], textutil.Count(len(f.Runs), "run"), left)
	}
	return fmt.Sprintf("Each arm was trained with the seeds %s (%s in all%s); arms were compared seed by seed, with 95%% intervals "+
		"by Student's t.", listed(seeds), textutil.Count(len(f.Runs), "run"), left)
}

// software names program, machine and identity.
func (m *methods) software() string {
	out := ""
	if version := analysis.Unique(m.runs, versionOf); len(version) > 0 {
		out = "The runs were made with " + listed(version)
		if machine := analysis.Unique(m.runs, machineOf); len(machine) > 0 {
			out += " (" + strings.Join(machine, "; ") + ")"
		}
		out += ". "
	}
	if m.manifest.Command != "report" {
		return out + "The sweep has the hash " + m.manifest.Hash + "."
	}
	hashes := analysis.Unique(m.runs, func(r *rundir.Run) string {
		if r.Meta == nil {
			return ""
		}
		return r.Meta.ConfigHash
	})
	if len(hashes) > 0 && len(hashes) <= 8 {
		out += fmt.Sprintf("Hash of the %s: %s.", map[bool]string{true: "configuration", false: "configurations"}[len(hashes) == 1], listed(hashes))
	}
	return strings.TrimSpace(out)
}
