package sweep

import (
	"fmt"
	"slices"
	"strings"

	"grpo/pkg/config"
	"grpo/pkg/sweepdir"
)

// plan writes down what the steps before have resolved.
func (p *planner) plan() (*Plan, error) {
	m := sweepdir.Manifest{
		Format: sweepdir.FormatVersion, Command: p.opts.Command, Name: p.req.Name, Title: p.req.Title, Question: p.req.Question,
		Reference: p.req.Reference, BestOver: p.bestOver, Notes: append([]string{}, p.req.Notes...),
		Axes: append([]sweepdir.Axis{}, p.axes...), Seeds: p.seeds,
		Argv: append([]string{}, p.opts.Argv...), Base: string(config.Marshal(p.base.Config)), Fresh: p.opts.Fresh,
	}
	if m.Command == "" {
		m.Command = "ablate"
	}
	if p.note != "" {
		m.Notes = append(m.Notes, p.note)
	}
	if m.Title == "" {
		m.Title = m.Name
	}
	if m.Question == "" {
		m.Question = "How do the arms compare in validation answer reward?"
	}
	for _, a := range p.arms {
		m.Arms = append(m.Arms, a.Arm)
	}
	m.Varied = p.varied()
	var err error
	if m.Fixed, err = p.fixed(m.Varied); err != nil {
		return nil, err
	}
	for _, seed := range p.seeds {
		for i, a := range p.arms {
			c := p.configs[i]
			c.Seed = seed
			h := config.Hash(c)
			m.Runs = append(m.Runs, sweepdir.Entry{
				Index: len(m.Runs), Arm: i, Seed: seed, Hash: h,
				Dir: sweepdir.RunsDir + "/" + folder(a.Name, seed, h), Config: string(config.Marshal(c)),
			})
		}
	}
	m.Hash = m.Identity()
	if err := m.Check(); err != nil {
		return nil, fmt.Errorf("plan sweep: %w", err)
	}
	text, err := p.request(m)
	if err != nil {
		return nil, err
	}
	return &Plan{Manifest: m, Request: text}, nil
}

// varied lists the keys in which the arms' configurations differ, sorted. The
// name is a label.
func (p *planner) varied() []string {
	keys := map[string]bool{}
	out := []string{}
	for _, c := range p.configs[1:] {
		for _, d := range config.Diff(p.configs[0], c) {
			key, _, _ := strings.Cut(d, ": ")
			if !keys[key] && key != "name" {
				out = append(out, key)
			}
			keys[key] = true
		}
	}
	slices.Sort(out)
	return out
}

// fixed gives the keys that a reader must know their values. A key that an arm
// or an axis sets is a contradiction; one that differs only because it follows
// from another is left out, since Varied has it.
func (p *planner) fixed(varied []string) ([]sweepdir.Override, error) {
	out := []sweepdir.Override{}
	for _, name := range p.req.Fixed {
		k, err := findKey(name)
		if err != nil {
			return nil, planError("fixed: " + err.Error())
		}
		for _, a := range p.arms {
			if slices.ContainsFunc(a.Set, func(o sweepdir.Override) bool { return o.Key == k.Path }) {
				return nil, planError(fmt.Sprintf("fixed: %s is not fixed: arm %q sets it", k.Path, a.Name))
			}
		}
		if slices.Contains(varied, k.Path) || slices.ContainsFunc(out, func(o sweepdir.Override) bool { return o.Key == k.Path }) {
			continue
		}
		v, err := config.Get(p.configs[0], k.Path)
		if err != nil {
			return nil, planError("fixed: " + err.Error())
		}
		out = append(out, sweepdir.Override{Key: k.Path, Value: v})
	}
	return out, nil
}

// checkBestOver finds the axis that best_over names, which must leave something
// to compare.
func (p *planner) checkBestOver() error {
	if p.req.BestOver == "" {
		return nil
	}
	k, err := findKey(p.req.BestOver)
	if err != nil {
		return planError("best_over: " + err.Error())
	}
	i := slices.IndexFunc(p.axes, func(a sweepdir.Axis) bool { return a.Key == k.Path })
	switch {
	case i < 0:
		return planError(fmt.Sprintf("best_over: %s is no axis of this sweep", k.Path))
	case len(p.arms) == len(p.axes[i].Values):
		return planError(fmt.Sprintf("best_over: all arms are points of the axis %s: nothing is left to compare (remove best_over)", k.Path))
	}
	p.bestOver = k.Path
	return nil
}
