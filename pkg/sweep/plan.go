package sweep

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/policy"
	"grpo/pkg/sweepdir"
)

// PlanOptions are what the command line adds to a request.
type PlanOptions struct {
	Command  string   // "sweep" or "ablate"
	Path     string   // of -c; it replaces the request's base
	Over     []string // of the -c after the first: see [config.LoadOptions]
	Env, Set []string // as in [config.LoadOptions]
	Flags    []config.Flag
	Seeds    []uint64 // they replace the request's
	Looks    []sweepdir.Look
	// ReuseChoice compares what a sweep or a study has chosen, such as a learning rate, on the seeds of the choice:
	// the cheap way, which is biased.
	ReuseChoice bool
	Argv        []string // the command line, for the record
	Fresh       bool     // as [sweepdir.Manifest.Fresh]
	Halving     bool     // stop the worse arms early: see halving.go
	Reuse       []string // as [Plan.Reuse]; the folder of a study means its parts
}

// NewPlan resolves a request: the base, and each arm with each seed, by
//
//	defaults < base file < environment < the request's set < --set < flags < the arm's own set
//
// so that the user can change a request's settings but not those of an arm. It writes
// nothing and reports every mistake: unknown keys, values of the wrong type, invalid
// configurations, identical arms, arms that are evaluated differently, settings
// without effect, a key that both the user and the arms set. All are
// [config.ErrConfig].
func NewPlan(req Request, opts PlanOptions) (*Plan, error) {
	p := &planner{req: req, opts: opts}
	p.rescale()
	steps := []func() error{
		p.expand, p.checkUser, p.resolveArms, p.evaluateAlike, p.checkEffect, p.checkArms, p.checkBestOver,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return p.plan()
}

// planner carries a request through the steps of [NewPlan].
type planner struct {
	req      Request
	opts     PlanOptions
	seeds    []uint64
	looks    []sweepdir.Look
	axes     []sweepdir.Axis
	arms     []plannedArm
	bestOver string // the full key of the request's

	common  []config.Flag // the request's set without the keys that the user sets
	base    *config.Resolved
	configs []config.Config // of the arms, with the first seed
	// lengthFollows is true for arms whose eval.max_tokens is their
	// sampling_max_tokens because nothing sets it.
	lengthFollows []bool
	notes         []string // of the plan itself, after the request's
}

// plannedArm is an arm with the sources of its settings.
type plannedArm struct {
	sweepdir.Arm
	from []string
}

func (a plannedArm) sets(key string) bool {
	return slices.ContainsFunc(a.Set, func(o sweepdir.Override) bool { return o.Key == key })
}

// planError is nil if there is no problem.
func planError(problems ...string) error {
	if len(problems) == 0 {
		return nil
	}
	return configError("plan sweep", problems...)
}

func planErrorf(format string, args ...any) error { return planError(fmt.Sprintf(format, args...)) }

// expand resolves seeds, axes and arms of the request.
func (p *planner) expand() error {
	if p.seeds, p.looks = p.opts.Seeds, p.opts.Looks; len(p.seeds) == 0 {
		p.seeds, p.looks = p.req.Seeds, p.req.Looks
	}
	if len(p.seeds) == 0 {
		p.seeds = FirstSeeds(DefaultSeeds)
	}
	if err := checkSeeds(p.seeds); err != nil {
		return planError("seeds: " + err.Error())
	}
	runs := len(p.seeds) * max(1, len(p.req.Arms))
	for _, a := range p.req.Axes {
		resolved, err := axis(a)
		if err != nil {
			return planError(err.Error())
		}
		if slices.ContainsFunc(p.axes, func(b sweepdir.Axis) bool { return b.Key == resolved.Key }) {
			return planErrorf("two axes are of the key %s", resolved.Key)
		}
		p.axes = append(p.axes, resolved)
		if runs *= len(resolved.Values); runs > maxRuns {
			break
		}
	}
	switch {
	case len(p.req.Arms) == 0 && len(p.axes) == 0:
		return planErrorf("there are neither arms nor axes: there is nothing to compare")
	case runs > maxRuns:
		return planErrorf("%d runs or more: a sweep has at most %d", runs, maxRuns)
	}
	if err := p.named(); err != nil {
		return err
	}
	p.cross()
	return nil
}

// named resolves the arms that have names.
func (p *planner) named() error {
	for _, a := range p.req.Arms {
		arm := plannedArm{Arm: sweepdir.Arm{
			Name: a.Name, Label: cmp.Or(a.Label, a.Name), Control: a.Control, Set: []sweepdir.Override{},
		}}
		for _, s := range a.Set {
			k, err := p.settingKey(s)
			isAxis := func(x sweepdir.Axis) bool { return x.Key == k.Path }
			where := armAt(s.From, a.Name)
			switch {
			case err != nil:
				return planErrorf("%s: %v", where, err)
			case arm.sets(k.Path):
				return planErrorf("%s: the key %s is set twice", where, k.Path)
			case slices.ContainsFunc(p.axes, isAxis):
				return planErrorf("%s sets %s, which is an axis", where, k.Path)
			}
			arm.Set = append(arm.Set, sweepdir.Override{Key: k.Path, Value: canonical(k, s.Value)})
			arm.from = append(arm.from, s.From)
		}
		if slices.ContainsFunc(p.arms, func(b plannedArm) bool { return b.Name == a.Name }) {
			return planErrorf("two arms are named %s", textutil.Quote(a.Name))
		}
		p.arms = append(p.arms, arm)
	}
	return nil
}

// settingKey finds the key of a setting of the request.
func (p *planner) settingKey(s Setting) (config.Key, error) {
	k, err := config.FindKey(s.Key)
	switch {
	case err != nil:
	case k.Path == "seed":
		err = fmt.Errorf("seed can't be set here: every arm is run with every seed (give them as seeds)")
	case config.OfLauncher(k.Path):
		err = fmt.Errorf("%s can't be set here: it is not part of a run (set it with -c, --set or a flag)", k.Path)
	}
	return k, err
}

// place is the source of a setting at the start of a message, if it is known.
func place(from string) string { return glue(from, ": ", "") }

func armAt(from, name string) string { return place(from) + "arm " + textutil.Quote(name) }

// cross multiplies the arms by the axes; the last axis moves fastest.
func (p *planner) cross() {
	if len(p.arms) == 0 {
		p.arms = []plannedArm{{}}
	}
	for i, x := range p.axes {
		from := p.req.Axes[i].From
		var out []plannedArm
		for _, a := range p.arms {
			for _, v := range x.Values {
				b := plannedArm{Arm: a.Arm, from: append(slices.Clone(a.from), from)}
				b.Name = glue(a.Name, ",", x.Short+"="+v)
				b.Label = glue(a.Label, ", ", x.Label+" "+v)
				b.Set = append(slices.Clone(a.Set), sweepdir.Override{Key: x.Key, Value: v})
				b.Point = append(slices.Clone(a.Point), v)
				out = append(out, b)
			}
		}
		p.arms = out
	}
}

func glue(a, between, b string) string {
	if a == "" {
		return b
	}
	return a + between + b
}

// given are the names and keys of what the command line sets, without values.
func (p *planner) given() (out []config.Flag) {
	for _, s := range p.opts.Set {
		name, _, _ := strings.Cut(s, "=")
		if k, err := config.FindKey(name); err == nil { // else loading the base reports it
			out = append(out, config.Flag{Key: k.Path, Name: "--set " + strings.TrimSpace(name)})
		}
	}
	return append(out, p.opts.Flags...)
}

// checkUser refuses settings of the command line that the arms would override, and
// drops the request's settings of keys that the user sets.
func (p *planner) checkUser() error {
	user := map[string]bool{}
	var problems []string
	for _, f := range p.given() {
		user[f.Key] = true
		switch {
		case f.Key == "seed":
			problems = append(problems, f.Name+" sets the seed, of which a sweep has several (use --seeds)")
		case slices.ContainsFunc(p.arms, func(a plannedArm) bool { return a.sets(f.Key) }):
			problems = append(problems, f.Name+" sets "+f.Key+", which the arms of this sweep vary (leave it out)")
		}
	}
	set := map[string]bool{}
	for _, s := range p.req.Set {
		k, err := p.settingKey(s)
		switch {
		case err != nil:
			problems = append(problems, place(s.From)+"set: "+err.Error())
		case set[k.Path]:
			problems = append(problems, fmt.Sprintf("%sset: the key %s is set twice", place(s.From), k.Path))
		case !user[k.Path]:
			from := cmp.Or(s.From, "the sweep's set")
			p.common = append(p.common, config.Flag{Key: k.Path, Name: from, Value: s.Value, Gives: true})
		}
		set[k.Path] = true
	}
	return planError(problems...)
}

// load resolves a configuration with the settings of an arm on top.
func (p *planner) load(own []config.Flag) (*config.Resolved, error) {
	return config.Load(config.LoadOptions{
		Path: cmp.Or(p.opts.Path, p.req.Config), Over: p.opts.Over, Env: p.opts.Env, Set: p.opts.Set,
		Flags: slices.Concat(p.common, p.opts.Flags), Arm: own, Checkpoint: policy.FindCheckpoint,
	})
}

// flags are the settings of an arm.
func (a *plannedArm) flags() []config.Flag {
	var own []config.Flag
	for i, o := range a.Set {
		own = append(own, config.Flag{Key: o.Key, Name: armAt(a.from[i], a.Name), Value: o.Value})
	}
	return own
}

// inEveryArm are the settings of an arm of keys that every arm sets. They make a base valid whose own
// values no run uses, such as the model of a preset, which a sweep over model.init can't set.
func (p *planner) inEveryArm(arm int) []config.Flag {
	return slices.DeleteFunc(p.arms[arm].flags(), func(f config.Flag) bool {
		return slices.ContainsFunc(p.arms, func(a plannedArm) bool { return !a.sets(f.Key) })
	})
}

// replaced explains problems that may come from -c in place of the ablation's own configuration.
func (p *planner) replaced() []string {
	if p.opts.Path == "" || p.req.Config == "" {
		return nil
	}
	return []string{"-c takes the place of this ablation's configuration; to keep it, put this before: " +
		textutil.CommandLine([]string{"-c", p.req.Config})}
}

// resolveArms resolves the base and every arm. No rule and no other key depends on
// the seed, so one resolution serves all seeds.
func (p *planner) resolveArms() error {
	var err error
	if p.base, err = p.load(nil); err != nil {
		for i := 0; p.base == nil && i < len(p.arms); i++ {
			p.base, _ = p.load(p.inEveryArm(i))
		}
		if p.base == nil {
			return planError(append(problemsOf(err), p.replaced()...)...)
		}
	}
	var problems []string
	for _, a := range p.arms {
		r, err := p.load(a.flags())
		if err != nil {
			for _, text := range problemsOf(err) {
				if arm := "arm " + textutil.Quote(a.Name) + ": "; !strings.Contains(text, arm) {
					text = arm + text
				}
				problems = append(problems, text)
			}
			continue
		}
		for _, g := range r.Given { // values of the base that contradict the arm's own settings
			p.notes = append(p.notes, fmt.Sprintf("The arm %q does not have %s %s (%s), which contradicts its %s.",
				a.Label, g.Key, g.Value, g.From, g.To))
		}
		r.Config.Name, r.Config.Seed = a.Name, p.seeds[0]
		p.configs = append(p.configs, r.Config)
		p.lengthFollows = append(p.lengthFollows, r.Origin("eval.max_tokens").From != "")
	}
	if len(problems) > maxProblems {
		problems = append(problems[:maxProblems], "further problems are not listed")
	}
	if len(problems) > 0 {
		problems = append(problems, p.replaced()...)
	}
	return planError(problems...)
}
