package report

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// measure says what the numbers of the verdict are.
func (a *Report) measure() []string {
	on := "the validation problems"
	if p := a.Arms[0].Problems; p > 0 && a.sameProblems() {
		on = fmt.Sprintf("%d validation problems", p)
	}
	out := []string{
		fmt.Sprintf("Rewards are the share of %s answered right by sampling; points are percentage points of it.", on),
		fmt.Sprintf("In brackets: 95%% intervals by Student's t over the seeds, for differences over pairs of runs with the same seed. "+
			"They cover what the seed changes (%s), not other base models and not other validation problems.", a.seedCovers()),
	}
	for _, c := range a.Comparisons {
		if c.Metric != "final" || c.family < 2 {
			continue
		}
		over := fmt.Sprintf("over the %d comparisons", c.family)
		if a.plan().chosen {
			over = fmt.Sprintf("over all %d pairs of arms, because the results chose the arm that the others are compared with", c.family)
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
	for _, q := range a.plan().shown {
		k := a.differing(q)
		if len(k) < 2 {
			all = false
			continue
		}
		joined := strings.Join(k, ", ")
		pairs = append(pairs, fmt.Sprintf("%s and %s: %s", a.Arms[q.a].Name(), a.Arms[q.b].Name(), joined))
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

// differing are the keys in which the resolved configurations of two arms
// differ; where they can't be read, all that vary in the sweep.
func (a *Analysis) differing(q pair) []string {
	m := &a.Sweep.Manifest
	x, y := a.configOf(q.a), a.configOf(q.b)
	var out []string
	for _, key := range m.Varied {
		if key == m.BestOver { // its values belong to the arms that it tunes
			continue
		}
		v, okV := x[key]
		w, okW := y[key]
		if !okV || !okW || v != w {
			out = append(out, key)
		}
	}
	return out
}

// configOf is the resolved configuration of an arm's first run, by full keys.
func (a *Analysis) configOf(arm int) map[string]string {
	out := map[string]string{}
	for _, e := range a.Sweep.Manifest.Runs {
		if e.Arm != arm || e.Config == "" {
			continue
		}
		if out = flatConfig(e.Config); len(out) == 0 {
			return out
		}
		break
	}
	for _, o := range a.Sweep.Manifest.Arms[arm].Set {
		if _, ok := out[o.Key]; !ok { // a kernel, say, which no configuration tells
			out[o.Key] = o.Value
		}
	}
	return out
}

// flatConfig is a configuration by full keys; empty where it can't be read, so that
// every key counts as differing.
func flatConfig(text string) map[string]string {
	out := map[string]string{}
	var tree map[string]any
	if yaml.Unmarshal([]byte(text), &tree) == nil {
		flatten(out, "", tree)
	}
	return out
}

func flatten(out map[string]string, prefix string, tree map[string]any) {
	for key, v := range tree {
		if sub, ok := v.(map[string]any); ok {
			flatten(out, prefix+key+".", sub)
			continue
		}
		out[prefix+key] = fmt.Sprint(v)
	}
}

// sharedRate is the caveat of a learning rate that all arms share.
func (a *Report) sharedRate() string {
	m := &a.Sweep.Manifest
	if slices.Contains(m.Varied, rateKey) || len(m.Arms) < 2 {
		return ""
	}
	at := ""
	for _, r := range a.Arms {
		for _, s := range r.Runs {
			if s.Run == nil || s.Run.Result == nil {
				continue
			}
			v := rate(s.Run.Result.LearningRate)
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
