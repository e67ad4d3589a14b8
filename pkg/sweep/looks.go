package sweep

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"grpo/internal/textutil"
	"grpo/internal/yamldoc"
	"grpo/pkg/analysis"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/stats"
	"grpo/pkg/sweepdir"
)

// Planned looks (--seeds 4..16): the runs of the first 4 seeds are trained, then the arms are compared, and
// those that are still in question get the seeds up to 8, and so on. The looks with their levels are in the
// manifest before the first result, and so is each decision as soon as it is made, once: it depends on
// nothing but final rewards, which are reproducible to the bit. The statistics are in package analysis.

// ParseLooks reads the value of --seeds as a plan: "4..16" means looks at 4, 8 and 16 of the seeds 1 to 16.
// ok is false for a count or a list of seeds ([ParseSeeds]).
func ParseLooks(text string) (seeds []uint64, looks []sweepdir.Look, ok bool, err error) {
	first, last, ok := strings.Cut(strings.TrimSpace(text), "..")
	if !ok {
		return nil, nil, false, nil
	}
	from, err1 := strconv.Atoi(strings.TrimSpace(first))
	to, err2 := strconv.Atoi(strings.TrimSpace(last))
	problem := ""
	switch {
	case err1 != nil || err2 != nil:
		problem = fmt.Sprintf("%s is no plan of looks (4..16 looks at 4, 8 and 16 of the seeds 1 to 16)", textutil.Quote(text))
	case from < 2:
		problem = fmt.Sprintf("%s: the first look needs two seeds or more, because one shows no spread", textutil.Quote(text))
	case to <= from || to > maxRuns:
		problem = fmt.Sprintf("%s: the last look must have more seeds than the first, and at most %d",
			textutil.Quote(text), maxRuns)
	}
	if problem != "" {
		return nil, nil, true, configError("read seeds", problem)
	}
	for _, l := range stats.PlannedLooks(from, to) {
		looks = append(looks, sweepdir.Look{Seeds: l.Seeds, Level: l.Level})
	}
	return FirstSeeds(to), looks, true, nil
}

// LooksText is a plan as --seeds takes it: "4..16", or "4" for a choice with one comparison on 4 seeds after it.
func LooksText(looks []sweepdir.Look) string {
	first, last := looks[0], looks[len(looks)-1].Seeds
	if first.Choice {
		last -= first.Seeds
		if len(looks) == 2 {
			return strconv.Itoa(last)
		}
	}
	return fmt.Sprintf("%d..%d", first.Seeds, last)
}

// checkLooks refuses a plan of looks that the sweep can't have.
func (p *planner) checkLooks(m sweepdir.Manifest) error {
	switch {
	case len(m.Looks) == 0:
		return nil
	case p.opts.Halving && (m.ChosenOn() == 0 || len(m.Looks) > 2):
		return planErrorf("--halving and planned looks (--seeds %s) both stop arms, by rules that do not go together: "+
			"give one of them", LooksText(m.Looks))
	case len(m.Arms) < 2:
		return planErrorf("planned looks (--seeds %s) compare arms, and this sweep has one: give a number of seeds",
			LooksText(m.Looks))
	case m.BestOver != "" && m.ChosenOn() == 0:
		return planErrorf("planned looks (--seeds %s) need arms that stay the same from look to look, but with --reuse-choice "+
			"each is compared at the point that is best so far: leave one of them out", LooksText(m.Looks))
	}
	return nil
}

// withLooks is the manifest m that the folder dir of the sweep old would get, with the looks that are asked for
// now. A plan counts only if it is made before the first result, and does not change afterwards.
func withLooks(dir string, old, now, m sweepdir.Manifest) (sweepdir.Manifest, error) {
	same := slices.EqualFunc(old.Looks, now.Looks, func(a, b sweepdir.Look) bool {
		return a.Seeds == b.Seeds && a.Level == b.Level
	})
	// Results of the seeds of a choice are no results of the comparison after it.
	chosenOn := now.Seeds[:now.ChosenOn()]
	switch {
	case same:
		if now.LooksTaken() > old.LooksTaken() { // decided where the sweep was prepared
			m.Looks = now.Looks
		}
		return m, nil
	case old.ChosenOn() > 0:
		return m, fmt.Errorf("%w: %s holds a sweep that compares on fresh seeds after a choice: give --seeds %s without "+
			"--reuse-choice to continue it; %s", config.ErrConfig, dir, LooksText(old.Looks), elsewhereHint)
	case len(old.Looks) > 0:
		return m, fmt.Errorf("%w: %s holds a sweep with looks that were planned before its first result, and the plan can't "+
			"change: give --seeds %s to continue it; %s", config.ErrConfig, dir, LooksText(old.Looks), elsewhereHint)
	case now.ChosenOn() > 0 && hasResult(dir, old, chosenOn):
		return m, fmt.Errorf("%w: %s has results of a sweep that compares on the seeds of the choice: give --seeds %s "+
			"--reuse-choice to continue it; %s", config.ErrConfig, dir, seedsFlag(old.Seeds), elsewhereHint)
	case hasResult(dir, old, chosenOn):
		return m, fmt.Errorf("%w: %s has results of a sweep without planned looks, and a plan counts only if it is made before "+
			"the first result: give --seeds %s, which tests added seeds alone", config.ErrConfig, dir, seedsFlag(now.Seeds))
	}
	m.Looks, m.Argv = now.Looks, now.Argv
	if m.ChosenOn() > 0 {
		m.Added = old.Added
	}
	return m, nil
}

// hasResult reports whether the sweep m in dir has a run with a result, seeds in except aside.
func hasResult(dir string, m sweepdir.Manifest, except []uint64) bool {
	return slices.ContainsFunc(m.Runs, func(e sweepdir.Entry) bool {
		return !slices.Contains(except, e.Seed) && trained(dir, e) != nil
	})
}

// unseen returns an error if a sibling has results of a sweep whose looks are planned only now.
func unseen(siblings []string, now sweepdir.Manifest) error {
	if now.ChosenOn() > 0 {
		return nil // they have chosen, not compared
	}
	for _, dir := range siblings {
		m, err := sweepdir.ReadManifest(dir)
		if err != nil || len(m.Looks) > 0 {
			continue
		}
		_, more := extends(m, now)
		if (more || m.Hash == now.Hash) && hasResult(dir, m, nil) {
			return fmt.Errorf("%w: %s has results of this sweep, and planned looks (--seeds %s) count only if they are planned "+
				"before the first result: give --seeds %s, which tests added seeds alone", config.ErrConfig, dir,
				LooksText(now.Looks), seedsFlag(now.Seeds))
		}
	}
	return nil
}

// TakeLook takes the next look of the sweep in dir, if all runs up to it have ended, and writes the decision into
// the manifest, unless another process has done so. Runs that gaveUp reports count as ended without a result.
// text describes the decision; it is empty if no look was taken.
func TakeLook(dir string, gaveUp func(sweepdir.RunState) bool) (m sweepdir.Manifest, text string, err error) {
	unlock, err := claim(dir, rundir.KindSweep, nil)
	if err != nil {
		return m, "", err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	s, err := sweepdir.Open(dir)
	if err != nil {
		return m, "", err
	}
	m = s.Manifest
	k := m.NextLook()
	if k < 0 {
		return m, "", nil
	}
	for _, run := range s.Runs {
		if m.LookOf(run.Entry) <= k && !sweepdir.Ended(run.State) && !gaveUp(run) {
			return m, "", nil
		}
	}
	d, err := analysis.Decide(s)
	if err != nil {
		return m, "", err
	}
	m.Looks = slices.Clone(m.Looks)
	m.Looks[k].Taken = &d
	return m, decisionText(m, k), sweepdir.WriteManifest(dir, m)
}

// decisionText describes the decision at a look.
func decisionText(m sweepdir.Manifest, k int) string {
	d := m.Looks[k].Taken
	var out, on []string
	for _, arm := range d.GoOn {
		on = append(on, m.NameOf(arm))
	}
	if m.Looks[k].Choice {
		return fmt.Sprintf("chosen on %d seeds, and compared on fresh ones: %s", m.Looks[k].Seeds, strings.Join(on, ", "))
	}
	if m.ChosenOn() > 0 && len(m.Looks) == 2 {
		return "" // the comparison after a choice, which nothing follows
	}
	for _, o := range d.Out {
		why := map[string]string{
			sweepdir.OutBeaten: "beaten by ", sweepdir.OutSeparated: "separated from ", sweepdir.OutSame: "the same as ",
		}[o.Why]
		if why == "" {
			out = append(out, m.NameOf(o.Arm)+" ("+o.Why+")")
			continue
		}
		out = append(out, m.NameOf(o.Arm)+" ("+why+m.NameOf(o.By)+")")
	}
	text := fmt.Sprintf("look at %d seeds: ", m.Looks[k].Seeds-m.ChosenOn())
	switch d.Ended {
	case "":
		text += strings.Join(on, ", ") + " go on"
	case sweepdir.EndAnswered:
		text += "no comparison is left open, and the sweep ends"
	case sweepdir.EndFutile:
		text += "more seeds are not expected to show a difference, and the sweep ends"
	case sweepdir.EndLast:
		text += "it was the last"
	}
	if len(out) > 0 {
		text += "; no more seeds: " + strings.Join(out, ", ")
	}
	return text
}

// TakeLook is [TakeLook] in the plan's folder, whose manifest it takes over, where gaveUp has the runs, by their
// index, that failed for good.
func (p *Located) TakeLook(gaveUp map[int]bool, note func(string)) (bool, error) {
	m, text, err := TakeLook(p.Dir, func(s sweepdir.RunState) bool { return gaveUp[s.Index] })
	if err != nil || m.NextLook() == p.Manifest.NextLook() {
		return false, err
	}
	p.Plan = p.with(m)
	if text != "" {
		note(text)
	}
	return true, nil
}

// Due takes the looks that are due and returns the runs, by their index, that are to be trained before the next. Runs
// that have failed are given up if no other is left, and the look can be taken without them.
func (p *Located) Due(note func(string)) (due []int, err error) {
	for {
		sw, err := sweepdir.Open(p.Dir)
		if err != nil {
			return nil, err
		}
		due = []int{} // not null in JSON
		gone := map[int]bool{}
		for _, s := range sw.Runs {
			if !sweepdir.Ended(s.State) && s.State != sweepdir.Planned {
				due = append(due, s.Index)
				gone[s.Index] = s.State == rundir.StateFailed
			}
		}
		if slices.ContainsFunc(due, func(index int) bool { return !gone[index] }) {
			return due, nil
		}
		taken, err := p.TakeLook(gone, note)
		if err != nil && len(due) > 0 {
			note(fmt.Sprintf("%v: the failed runs have to be trained again", err))
			return due, nil
		}
		if !taken || err != nil {
			return due, err
		}
	}
}

// takeLook is [TakeLook] for the runs of this process, and returns whether runs can be started, or another look
// may be due.
func (r *scan) takeLook() (bool, error) {
	if r.manifest.NextLook() < 0 || len(r.in(queued, stopped, paused)) > 0 {
		return false, nil
	}
	gone := map[int]bool{}
	for _, j := range r.in(failed) {
		gone[j.entry.Index] = true
	}
	m, text, err := TakeLook(r.dir, func(s sweepdir.RunState) bool { return gone[s.Index] })
	if err != nil || m.NextLook() == r.manifest.NextLook() {
		return false, err
	}
	if text != "" {
		r.note("%s", text)
	}
	r.followLooks(m)
	r.reuseRuns()
	return true, nil
}

// followLooks takes the decisions of a newer manifest: runs that waited for them can be trained, or are stopped.
func (r *scan) followLooks(m sweepdir.Manifest) {
	r.manifest = m
	for _, j := range r.in(planned) {
		switch {
		case m.IsStopped(j.entry):
			j.phase = halved
			r.emit(Event{Kind: Found, State: sweepdir.RunState{Entry: j.entry, State: sweepdir.Stopped}}, j)
		case !m.IsPlanned(j.entry):
			j.phase = waiting
		}
	}
}

// LooksLine describes the planned looks that are not taken yet, for a preview; empty without any.
func LooksLine(m sweepdir.Manifest) string {
	k := m.NextLook()
	if k < 0 {
		return ""
	}
	var seeds []string
	if c := m.ChosenOn(); k == 0 && c > 0 {
		n := 0
		for _, e := range m.Runs {
			if mayTrain(m)(e) {
				n++
			}
		}
		return fmt.Sprintf("the best %s of each arm is chosen on %s and compared on %s: %d runs at most (--reuse-choice "+
			"takes %d, and is biased)", yamldoc.LastPart(m.BestOver), analysis.SeedsText(m.Seeds[:c]),
			analysis.SeedsText(m.Seeds[c:]), n, len(m.Arms)*c)
	}
	if m.ChosenOn() > 0 && len(m.Looks) == 2 {
		return ""
	}
	for _, l := range m.Looks[k:] {
		seeds = append(seeds, strconv.Itoa(l.Seeds-m.ChosenOn()))
	}
	return fmt.Sprintf("looks at %s seeds end the sweep, or stop arms, as soon as the runs up to them answer: %d runs at "+
		"most, %d at least", strings.Join(seeds, ", "), len(m.Runs), len(m.Arms)*m.Looks[0].Seeds)
}

// mayTrain reports which runs may be trained: after a choice that is not made yet, those of one point of each tuned
// arm, the first for all.
func mayTrain(m sweepdir.Manifest) func(sweepdir.Entry) bool {
	if m.ChosenOn() == 0 || m.LooksTaken() > 0 {
		return func(sweepdir.Entry) bool { return true }
	}
	first := map[int]bool{}
	for _, points := range analysis.PointsOver(&m, m.BestOver) {
		first[points[0]] = true
	}
	return func(e sweepdir.Entry) bool { return first[e.Arm] || m.LookOf(e) == 0 }
}
