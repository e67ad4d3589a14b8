package analysis

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"grpo/internal/textutil"
	"grpo/pkg/config"
	"grpo/pkg/rundir"
	"grpo/pkg/sweepdir"
)

// Side is one side of a test of two configurations: runs that differ in their seed alone.
type Side struct {
	Name    string   `json:"name"`    // as readers see it
	Folders []string `json:"folders"` // as the command names them
	Arm     string   `json:"arm"`     // of a sweep; empty for folders of runs

	Runs  []sweepdir.RunState `json:"-"`
	Added bool                `json:"-"` // seeds were added when there were results
	Looks bool                `json:"-"` // looks at the results decided how many seeds there are
	// Chosen are the seeds on which the points of tuned arms were chosen. A test leaves them out, as a verdict does.
	Chosen []uint64 `json:"-"`
}

// Fresh is the side without the runs with the seeds of Chosen.
func (s Side) Fresh() Side {
	s.Runs = slices.DeleteFunc(slices.Clone(s.Runs), func(r sweepdir.RunState) bool { return slices.Contains(s.Chosen, r.Seed) })
	return s
}

// Differing is a key in which the two sides differ, with its values.
type Differing struct {
	Key string `json:"key"`
	A   string `json:"a"`
	B   string `json:"b"`
}

func (d Differing) String() string { return fmt.Sprintf("%s (%s and %s)", d.Key, d.A, d.B) }

// Versus is a test of two configurations.
type Versus struct {
	Seeds     []uint64    `json:"seeds"` // the pairs: seeds of which both sides have a result
	Differing []Differing `json:"differing"`
	Analysis  *Analysis   `json:"-"` // of a sweep of two arms: the sides
}

// Final is the comparison of the final rewards, a - b.
func (v *Versus) Final() *Comparison { return v.Analysis.Find(FinalMetric.Name, 0, 1) }

// Identical reports whether the pairs of runs are equal to the bit.
func (v *Versus) Identical() bool { return v.Analysis.identical(0, 1) }

// Against compares two configurations as [Analyse] compares an arm with the reference, over the seeds of
// which both have a result and on which no point was chosen. margin is the difference that counts as none; 0 means
// report.margin of a.
//
// It is an error if the runs of a side are not seeds of one configuration, if the sides were evaluated
// on other problems or in other ways, or if they share fewer than two seeds.
func Against(a, b Side, margin float64) (*Versus, error) {
	v := &Versus{Differing: []Differing{}}
	a, b = a.Fresh(), b.Fresh()
	runs, err := finishedRuns(a, b)
	if err != nil {
		return nil, err
	}
	if v.Differing, err = sidesDiffer(a, b, runs); err != nil {
		return nil, err
	}
	if other := otherEvaluation(v.Differing, runs[0]); len(other) > 0 {
		var keys []string
		for _, d := range other {
			keys = append(keys, d.String())
		}
		return nil, config.Invalid(fmt.Errorf("%s and %s were not evaluated alike, so their rewards are not comparable: "+
			"they differ in %s", a.Name, b.Name, strings.Join(keys, ", ")))
	}
	inA, inB := seedsOf(a), seedsOf(b)
	v.Seeds = slices.DeleteFunc(slices.Clone(inA), func(seed uint64) bool { return !slices.Contains(inB, seed) })
	if len(v.Seeds) < 2 {
		return nil, config.Invalid(fmt.Errorf("%s has results of %s, %s of %s: %w", a.Name, SeedsText(inA), b.Name,
			SeedsText(inB), ErrFewPairs))
	}
	sw := v.sweep(a, b)
	v.Analysis, err = analyseWithin(sw, cmp.Or(margin, marginOf(sw)))
	return v, err
}

// ErrFewPairs reports that there are not enough pairs for a test.
var ErrFewPairs = errors.New("a test needs pairs of runs with the same seed, two at least")

// seedsOf are the seeds of the runs that have a result.
func seedsOf(s Side) (seeds []uint64) {
	for _, r := range s.Runs {
		if r.Finished() {
			seeds = append(seeds, r.Seed)
		}
	}
	slices.Sort(seeds)
	return seeds
}

// finishedRuns are the runs with a result, of each side.
func finishedRuns(a, b Side) (sides [2][]*rundir.Run, err error) {
	var dirs []string
	for i, side := range []Side{a, b} {
		for _, s := range side.Runs {
			if !s.Finished() {
				continue
			}
			if len(s.Run.Config) == 0 {
				return sides, config.Invalid(fmt.Errorf("%s has no %s, so it is not known what would be compared",
					s.Run.Dir, rundir.ConfigFile))
			}
			sides[i] = append(sides[i], s.Run)
			dirs = append(dirs, s.Run.Dir)
		}
		if len(sides[i]) == 0 {
			which := ""
			if len(side.Chosen) > 0 {
				which = ", besides those with the seeds on which points were chosen"
			}
			return sides, config.Invalid(fmt.Errorf("%s has no finished run%s", side.Name, which))
		}
	}
	if len(Distinct(dirs)) < len(dirs) {
		return sides, config.Invalid(errors.New("a run is there twice: name each run once, on one side"))
	}
	return sides, nil
}

// sidesDiffer lists the keys in which the sides differ. It is an error if the runs of one side do, in
// more than the version.
func sidesDiffer(a, b Side, runs [2][]*rundir.Run) ([]Differing, error) {
	all := slices.Concat(runs[0], runs[1])
	values, keys, err := differingKeys(all, configTexts(all))
	if err != nil {
		return nil, config.Invalid(err)
	}
	value := func(i int, key string) string {
		if v, ok := values[i][key]; ok {
			return v
		}
		return "(absent)"
	}
	out := []Differing{}
	var mixed [2][]string
	for _, key := range keys {
		first := [2]string{value(0, key), value(len(runs[0]), key)}
		unlike := [2]bool{}
		for i := range all {
			side := 0
			if i >= len(runs[0]) {
				side = 1
			}
			unlike[side] = unlike[side] || value(i, key) != first[side]
		}
		if key == VersionKey && (unlike[0] || unlike[1]) {
			continue // [VersionsNote] says it
		}
		for side := range mixed {
			if unlike[side] {
				mixed[side] = append(mixed[side], key)
			}
		}
		shown := textutil.Alike(first[:])
		out = append(out, Differing{key, shown[0], shown[1]})
	}
	for i, side := range []Side{a, b} {
		if len(mixed[i]) > 0 {
			return nil, config.Invalid(fmt.Errorf("the runs of %s are not seeds of one configuration: they differ in %s",
				side.Name, strings.Join(mixed[i], ", ")))
		}
		seen := map[uint64]bool{}
		for _, s := range side.Runs {
			if s.Finished() && seen[s.Seed] {
				return nil, config.Invalid(fmt.Errorf("%s has two runs with seed %d: leave one of them out", side.Name, s.Seed))
			}
			seen[s.Seed] = seen[s.Seed] || s.Finished()
		}
	}
	return out, nil
}

// otherEvaluation are the differing keys because of which rewards are shares of other problems, or of
// answers that were sampled in another way. The hash of the problems decides where runs have it; then
// the keys of the data explain it.
func otherEvaluation(differing []Differing, runs []*rundir.Run) []Differing {
	hashed := runs[0].Meta != nil && runs[0].Meta.ProblemsHash != ""
	otherProblems := slices.ContainsFunc(differing, func(d Differing) bool {
		return d.Key == problemsKey || d.Key == validationKey
	})
	return slices.DeleteFunc(slices.Clone(differing), func(d Differing) bool {
		switch {
		case d.Key == problemsKey, d.Key == validationKey, isEvalKey(d.Key):
			return false
		case strings.HasPrefix(d.Key, "data."):
			return !otherProblems && (hashed || !slices.Contains(problemKeys, d.Key))
		}
		return true
	})
}

// isEvalKey: the key changes how the last validation is sampled or what is right in it. Others say how often there are
// evaluations, of what else, and what is kept of them.
func isEvalKey(key string) bool {
	of := []string{"eval.final_size", "eval.final_samples", "eval.samples"}
	for _, k := range evalKeys {
		of = append(of, k.key)
	}
	return slices.Contains(of, key)
}

// problemKeys select the problems of an evaluation.
var problemKeys = []string{
	"data.source", "data.generator_seed", "data.weight_add", "data.weight_sub", "data.weight_mul",
	"data.val_file", "data.val_size", "data.test_file", "data.test_size", "data.unseen_size",
}

// sweep is a sweep of two arms with the seeds of the pairs; b is the reference.
func (v *Versus) sweep(a, b Side) *sweepdir.Sweep {
	sw := &sweepdir.Sweep{Dir: a.Name}
	m := &sw.Manifest
	m.Format, m.Command, m.Name, m.Reference = sweepdir.FormatVersion, "compare", "versus", b.Name
	m.Title, m.Seeds = a.Name+" against "+b.Name, v.Seeds
	for i, side := range []Side{a, b} {
		arm := sweepdir.Arm{Name: side.Name, Label: side.Name}
		for _, d := range v.Differing {
			arm.Set = append(arm.Set, sweepdir.Override{Key: d.Key, Value: []string{d.A, d.B}[i]})
		}
		m.Arms = append(m.Arms, arm)
		for _, s := range side.Runs {
			if s.Finished() && slices.Contains(v.Seeds, s.Seed) {
				s.Entry = sweepdir.Entry{Index: len(m.Runs), Arm: i, Seed: s.Seed, Dir: s.Run.Dir, Config: string(s.Run.Config)}
				m.Runs, sw.Runs = append(m.Runs, s.Entry), append(sw.Runs, s)
			}
		}
	}
	for _, d := range v.Differing {
		m.Varied = append(m.Varied, d.Key)
	}
	m.Hash = m.Identity()
	return sw
}
