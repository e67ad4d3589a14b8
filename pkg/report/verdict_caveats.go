package report

import (
	"fmt"
	"slices"
	"strings"

	"grpo/pkg/analysis"

	"grpo/pkg/rundir"
)

// comparability says which figures of the arms were not measured in the same way.
func (a *Report) comparability() []string {
	var out []string
	if all := a.ArmsDiffer(analysis.EvalSettingsOf); all != nil {
		out = append(out, "The arms were evaluated with different settings ("+strings.Join(all, "; ")+"), so their rewards are not comparable. Train them again with this version, which evaluates all arms in the same way.")
	}
	if all := a.TrainingTemperatures(); all != nil {
		out = append(out, "Entropy is that of each arm's own sampling temperature ("+strings.Join(all, ", ")+") and is not comparable between arms.")
	}
	return out
}

// mixedArms is a caveat on the arms of a sweep whose runs differ in more than
// their seeds: some were made again by another version, say.
func (a *Report) mixedArms() string {
	var mixed []string
	for _, r := range a.Arms {
		var runs []*rundir.Run
		for _, s := range r.Runs {
			if s.Run != nil && len(s.Run.Config) > 0 {
				runs = append(runs, s.Run)
			}
		}
		if len(runs) < 2 {
			continue
		}
		// A configuration that is no YAML shows elsewhere.
		if _, differing, err := analysis.DifferingKeys(runs, analysis.ConfigTexts(runs)); err == nil && len(differing) > 0 {
			mixed = append(mixed, fmt.Sprintf("%s: %s", r.Name(), strings.Join(differing, ", ")))
		}
	}
	if len(mixed) == 0 {
		return ""
	}
	return "Runs of one arm differ in more than their seeds (" + strings.Join(mixed, "; ") + "): their mean and interval are of unlike runs."
}

// measure says what the numbers of the verdict are.
func (a *Report) measure() []string {
	on := "the validation problems"
	if p := a.Arms[0].Problems; p > 0 && a.SameProblems() {
		on = fmt.Sprintf("%d validation problems", p)
	}
	out := []string{
		fmt.Sprintf("Rewards are the share of %s answered right by sampling; points are percentage points of it.", on),
		fmt.Sprintf("In brackets: 95%% intervals by Student's t over the seeds, for differences over pairs of runs with the same seed. "+
			"They cover what the seed changes (%s), not other base models and not other validation problems.", a.seedCovers()),
	}
	for _, c := range a.Comparisons {
		if c.Metric != "final" || c.Family < 2 {
			continue
		}
		over := fmt.Sprintf("over the %d comparisons", c.Family)
		if a.Plan().Chosen {
			over = fmt.Sprintf("over all %d pairs of arms, because the results chose the arm that the others are compared with", c.Family)
		}
		out = append(out, "A difference counts as separable when its p value, adjusted (Holm) "+over+", is at most 0.05; the brackets are not adjusted.")
		break
	}
	if n := len(a.Sweep.Manifest.Seeds); n == 1 {
		out = append(out, "One seed shows what happened once: no difference can be told from chance.")
	} else if n < 4 {
		out = append(out, fmt.Sprintf("With %d seeds only large differences can be told from chance.", n))
	}
	return append(out, "The best arm and the best step were chosen on the validation problems; the test problems were read once, after training, and chose nothing.")
}

// seedCovers names what differs between the seeds.
func (a *Report) seedCovers() string {
	m := &a.Sweep.Manifest
	if text := m.Base; strings.Contains(text, "init: random") || text == "" && len(m.Runs) > 0 && strings.Contains(m.Runs[0].Config, "init: random") {
		return "first weights, order of the problems, sampling"
	}
	return "order of the problems and sampling"
}

// setting says what was held fixed and what was not.
func (a *Report) setting() []string {
	m := &a.Sweep.Manifest
	out := []string{}
	if len(m.Fixed) > 0 {
		var fixed []string
		for _, o := range m.Fixed {
			fixed = append(fixed, o.Key+"="+o.Value)
		}
		out = append(out, "Held fixed: "+strings.Join(fixed, ", ")+". With other values the answer may be another.")
	}
	out = append(out, a.comparability()...)
	if s := a.tunedCaveat(); s != "" {
		out = append(out, s)
	}
	if s := a.confounded(); s != "" {
		out = append(out, s)
	}
	if s := a.sharedRate(); s != "" {
		out = append(out, s)
	}
	if s := a.mixedArms(); s != "" {
		out = append(out, s)
	}
	for _, added := range m.Added {
		var seeds []string
		for _, s := range added.Seeds {
			seeds = append(seeds, fmt.Sprint(s))
		}
		noun, verb := "Seeds", "were"
		if len(seeds) == 1 {
			noun, verb = "Seed", "was"
		}
		out = append(out, fmt.Sprintf("%s %s %s added later, when %d of the %d runs with the other seeds had finished: intervals and p values assume that the number of seeds was decided before.",
			noun, strings.Join(seeds, ", "), verb, added.Finished, added.Runs))
	}
	for _, n := range m.Notes {
		n = strings.TrimSpace(n)
		if n != "" {
			out = append(out, strings.TrimSuffix(n, ".")+".")
		}
	}
	return out
}

// confounded names the compared arms that differ in more than one key, so that
// no difference between them belongs to one key alone.
func (a *Report) confounded() string {
	const most = 4
	var pairs, keys []string
	all := true
	for _, q := range a.Plan().Shown {
		k := a.Differing(q)
		if len(k) < 2 {
			all = false
			continue
		}
		joined := strings.Join(k, ", ")
		pairs = append(pairs, fmt.Sprintf("%s and %s: %s", a.Arms[q.A].Name(), a.Arms[q.B].Name(), joined))
		if !slices.Contains(keys, joined) {
			keys = append(keys, joined)
		}
	}
	switch {
	case len(pairs) == 0:
		return ""
	case all && len(keys) == 1:
		return "The arms differ in more than one key (" + keys[0] + "): a difference belongs to all of them together."
	case len(pairs) > most:
		pairs = append(pairs[:most], fmt.Sprintf("and %d more", len(pairs)-most))
	}
	return "Some arms differ in more than one key (" + strings.Join(pairs, "; ") + "): a difference between them belongs to all of these together."
}

// sharedRate is the caveat of a learning rate that all arms share.
func (a *Report) sharedRate() string {
	m := &a.Sweep.Manifest
	if slices.Contains(m.Varied, analysis.RateKey) || len(m.Arms) < 2 {
		return ""
	}
	at := ""
	for _, r := range a.Arms {
		for _, s := range r.Runs {
			if s.Run == nil || s.Run.Result == nil {
				continue
			}
			v := analysis.Rate(s.Run.Result.LearningRate)
			if at != "" && at != v {
				return ""
			}
			at = v
		}
	}
	if at == "" {
		at = "one learning rate"
	} else {
		at = "learning rate " + at
	}
	return "All arms ran at " + at + ". A rate that was tuned for one of them favours it: with a rate of its own for each arm the order may be another."
}
