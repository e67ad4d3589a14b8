package sweep

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"grpo/internal/suggest"
	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"
)

// evaluateAlike ensures that all arms are evaluated in the same way. Arms whose
// maximum length of an evaluation follows from that of the rollouts get the largest.
func (p *planner) evaluateAlike() error {
	longest, note := 0, ""
	for _, c := range p.configs {
		longest = max(longest, c.Eval.MaxTokens)
	}
	for i, follows := range p.lengthFollows {
		if c := &p.configs[i]; follows && c.Eval.MaxTokens != longest {
			c.Eval.MaxTokens = longest
			note = fmt.Sprintf("All arms are evaluated with at most %d tokens (eval.max_tokens), "+
				"the largest sampling_max_tokens of any arm.", longest)
		}
	}
	if note != "" {
		p.notes = append(p.notes, note)
	}
	for i, c := range p.configs[1:] {
		for _, d := range config.Diff(p.configs[0], c) {
			key, values, _ := strings.Cut(d, ": ")
			if ofEvaluation(key) {
				return planErrorf("the arms %s and %s differ in %s (%s): "+
					"arms are compared by their evaluations, which must be the same for all "+
					"(set it with --set, or in the file's set, for all arms; the settings of the rollouts are in the "+
					"section rollout)",
					textutil.Quote(p.arms[0].Name), textutil.Quote(p.arms[i+1].Name), key,
					strings.Replace(values, ", now ", " and ", 1))
			}
		}
	}
	return nil
}

// ofEvaluation says whether a key affects only how a run is evaluated.
func ofEvaluation(key string) bool {
	ofData := []string{"data.val_file", "data.val_size", "data.test_file", "data.test_size", "data.unseen_size"}
	return strings.HasPrefix(key, "eval.") || slices.Contains(ofData, key)
}

// checkEffect refuses a setting of an arm that has no effect in it.
func (p *planner) checkEffect() error {
	var problems []string
	for i, a := range p.arms {
		inert := config.InertSettings(p.configs[i])
		for j, o := range a.Set {
			for _, s := range inert {
				if s.Key == o.Key {
					problems = append(problems, armAt(a.from[j], a.Name)+": "+s.Text)
				}
			}
		}
	}
	return planError(problems...)
}

// checkArms refuses arms that are the same, and an unknown reference.
func (p *planner) checkArms() error {
	seen := map[string]int{}
	var names []string
	for i, a := range p.arms {
		names = append(names, a.Name)
		h := config.Hash(config.Experiment(p.configs[i]))
		if j, ok := seen[h]; ok {
			return planErrorf("the arms %s and %s have the same configuration: %s",
				textutil.Quote(p.arms[j].Name), textutil.Quote(a.Name), whyAlike(p.configs[j], p.configs[i]))
		}
		seen[h] = i
	}
	if ref := p.req.Reference; ref != "" && !slices.Contains(names, ref) {
		return planErrorf("reference: there is no arm %s%s; there are %s",
			textutil.Quote(ref), suggest.DidYouMean(ref, names), strings.Join(names, ", "))
	}
	return nil
}

// whyAlike explains that two configurations are the same experiment.
func whyAlike(a, b config.Config) string {
	a.Name, b.Name = "", ""
	different := config.Diff(a, b)
	if len(different) == 0 {
		return "their settings differ in nothing that has an effect"
	}
	why := fmt.Sprintf("they differ in %s, which has no effect here", strings.Join(different, "; "))
	onPolicy := a.Train.EpochsPerRolloutBatch == 1 && a.Train.TrainBatchSize == a.Rollout.RolloutBatchSize
	if onPolicy && a.Algorithm.LossType != b.Algorithm.LossType {
		why += " (with one update on each rollout batch every importance ratio is 1, and the losses differ " +
			"in name only; set a smaller train_batch_size, or epochs_per_rollout_batch to 2 or more)"
	}
	return why
}

// checkBestOver finds the axis that best_over names, which must leave something
// to compare.
func (p *planner) checkBestOver() error {
	if p.req.BestOver == "" {
		return nil
	}
	k, err := config.FindKey(p.req.BestOver)
	if err != nil {
		return planError("best_over: " + err.Error())
	}
	i := slices.IndexFunc(p.axes, func(a sweepdir.Axis) bool { return a.Key == k.Path })
	switch {
	case i < 0:
		return planErrorf("best_over: %s is no axis of this sweep", k.Path)
	case len(p.arms) == len(p.axes[i].Values):
		return planErrorf("best_over: all arms are points of the axis %s: nothing is left to compare "+
			"(remove best_over)", k.Path)
	}
	p.bestOver = k.Path
	p.addFreshSeeds()
	if runs := len(p.seeds) * len(p.arms); runs > maxRuns {
		return planErrorf("%d runs with the fresh seeds of the comparison (best_over): a sweep has at most %d (give fewer "+
			"seeds, or --reuse-choice)", runs, maxRuns)
	}
	return nil
}

// addFreshSeeds plans to choose the point of each tuned arm on the seeds that were asked for, or the first ones of
// them ([Request.ChoiceSeeds]), or on those of the first look, and to compare the chosen points on as many fresh
// seeds, or at all looks on fresh seeds: rewards that won a choice flatter, and one arm more than another.
func (p *planner) addFreshSeeds() {
	if p.opts.ReuseChoice || p.req.ReuseChoice {
		return
	}
	if len(p.looks) == 0 {
		n, choice := len(p.seeds), p.seeds
		if c := p.req.ChoiceSeeds; c > 0 {
			choice = p.seeds[:min(c, n)]
		}
		p.seeds = slices.Concat(choice, freshSeeds(choice, n))
		p.looks = []sweepdir.Look{{Seeds: len(choice), Choice: true}, {Seeds: len(choice) + n, Level: stats.Alpha}}
		return
	}
	n := p.looks[0].Seeds
	looks := []sweepdir.Look{{Seeds: n, Choice: true}}
	for _, l := range p.looks {
		looks = append(looks, sweepdir.Look{Seeds: n + l.Seeds, Level: l.Level})
	}
	p.looks, p.seeds = looks, FirstSeeds(n+len(p.seeds))
}

// plan makes the manifest and the request of the resolved arms.
func (p *planner) plan() (*Plan, error) {
	m := sweepdir.Manifest{
		Format: sweepdir.FormatVersion, Command: cmp.Or(p.opts.Command, "ablate"),
		Name: p.req.Name, Title: cmp.Or(p.req.Title, p.req.Name),
		Question:  cmp.Or(p.req.Question, "How do the arms compare in validation answer reward?"),
		Reference: p.req.Reference, BestOver: p.bestOver, Notes: append(append([]string{}, p.req.Notes...), p.notes...),
		Axes: append([]sweepdir.Axis{}, p.axes...), Seeds: p.seeds, Looks: p.looks,
		Argv: append([]string{}, p.opts.Argv...), Base: string(config.Marshal(p.base.Config)), Fresh: p.opts.Fresh,
	}
	for _, a := range p.arms {
		m.Arms = append(m.Arms, a.Arm)
	}
	m.Varied = p.varied()
	var err error
	if m.Fixed, err = p.fixed(m.Varied); err != nil {
		return nil, err
	}
	if err := p.checkLooks(m); err != nil {
		return nil, err
	}
	if p.opts.Halving {
		if m.Halving, err = p.halvingOf(m); err != nil {
			return nil, err
		}
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
	plan := &Plan{Manifest: m, Request: text, Launcher: p.base.Config.Launcher, Notes: p.notes}
	for _, dir := range p.opts.Reuse {
		sweeps, err := sweepsIn(dir)
		if err != nil {
			return nil, fmt.Errorf("--reuse: %w", err)
		}
		plan.Reuse = append(plan.Reuse, sweeps...)
	}
	return plan, nil
}

// varied lists the keys in which the arms' configurations differ, sorted. The
// name is a label, and the definitions of custom reward functions belong to
// reward.functions if that differs.
func (p *planner) varied() []string {
	out := []string{}
	for _, c := range p.configs[1:] {
		for _, d := range config.Diff(p.configs[0], c) {
			if key, _, _ := strings.Cut(d, ": "); key != "name" {
				out = append(out, key)
			}
		}
	}
	slices.Sort(out)
	if slices.Contains(out, "reward.functions") {
		out = slices.DeleteFunc(out, func(key string) bool { return strings.HasPrefix(key, "reward.custom.") })
	}
	return slices.Compact(out)
}

// fixed returns the values of the keys that a reader must know. A key that an arm
// or an axis sets is a contradiction; one that differs only because it follows
// from another is left out, since Varied has it, and so is one that an arm of DPO
// does not read. A schedule of the learning rate belongs to the rate: a reader must
// know it too, and so must one of DPO its beta and who samples the pairs.
func (p *planner) fixed(varied []string) ([]sweepdir.Override, error) {
	var keys []string
	c := p.configs[0]
	isDPO := func(c config.Config) bool { return c.Algorithm.Type == "dpo" }
	some := slices.ContainsFunc(p.configs, isDPO)
	all := !slices.ContainsFunc(p.configs, func(c config.Config) bool { return !isDPO(c) })
	for _, name := range p.req.Fixed {
		k, err := config.FindKey(name)
		if err != nil {
			return nil, planError("fixed: " + err.Error())
		}
		for _, a := range p.arms {
			if a.sets(k.Path) {
				return nil, planErrorf("fixed: %s is not fixed: arm %q sets it", k.Path, a.Name)
			}
		}
		if !some || !slices.Contains(policyLossKeys, k.Path) {
			keys = append(keys, k.Path)
		}
	}
	if c.Train.LRScheduler != "constant" {
		keys = append(keys, "train.lr_scheduler")
	}
	if c.Train.WarmupSteps != 0 {
		keys = append(keys, "train.warmup_steps")
	}
	if all {
		keys = append(keys, "algorithm.dpo.loss_type", "algorithm.dpo.beta", "rollout.resample_every_n_steps")
	}
	out := []sweepdir.Override{}
	for i, key := range keys {
		if slices.Contains(varied, key) || slices.Contains(keys[:i], key) {
			continue
		}
		v, err := config.Get(c, key)
		if err != nil {
			return nil, planError("fixed: " + err.Error())
		}
		out = append(out, sweepdir.Override{Key: key, Value: v})
	}
	return out, nil
}

// policyLossKeys are the keys among those of [AxesRequest] that DPO does not read.
var policyLossKeys = []string{
	"algorithm.loss_type", "algorithm.length_normalization", "algorithm.use_std_normalization",
}

// maxFolder bounds the name of a run's folder, in bytes, so that it fits into tables.
const maxFolder = 100

// folder is the name of a run's folder: arm and seed, in characters that are safe in
// shells, file systems and URLs, and the hash, which identifies the run.
func folder(arm string, seed uint64, hash string) string {
	tail := fmt.Sprintf("_seed-%d-%s", seed, hash)
	name := safeName(arm)
	if room := maxFolder - len(tail); len(name) > room {
		name = strings.TrimRight(name[:room], "._-")
	}
	return name + tail
}

// safeName keeps letters, digits and ".-", writes "=" as "-", and replaces other
// characters, also several in a row, by an underscore.
func safeName(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-':
			b.WriteRune(r)
		case r == '=':
			b.WriteByte('-')
		case !strings.HasSuffix(b.String(), "_"):
			b.WriteByte('_')
		}
	}
	name := strings.TrimLeft(b.String(), ".-_")
	if name = strings.TrimRight(name, "_"); name == "" {
		return "arm"
	}
	return name
}
