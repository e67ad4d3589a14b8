package sweep

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"grpo/pkg/config"
	"grpo/pkg/sweepdir"
)

// withSeeds returns the manifest with the runs of these seeds alone.
func withSeeds(m sweepdir.Manifest, seeds []uint64) sweepdir.Manifest {
	m.Seeds = seeds
	isOther := func(e sweepdir.Entry) bool { return !slices.Contains(seeds, e.Seed) }
	m.Runs = slices.DeleteFunc(slices.Clone(m.Runs), isOther)
	return m
}

// extends returns the seeds that now has in addition to those of old; ok is false
// if the two differ in anything else.
func extends(old, now sweepdir.Manifest) (added []uint64, ok bool) {
	had := func(s uint64) bool { return slices.Contains(old.Seeds, s) }
	added = slices.DeleteFunc(slices.Clone(now.Seeds), had)
	return added, len(added) > 0 && withSeeds(now, old.Seeds).Identity() == old.Hash
}

// extended appends the runs of now's additional seeds to those of old, the manifest
// in dir, which keep their indices and folders.
func extended(dir string, old, now sweepdir.Manifest) (sweepdir.Manifest, bool) {
	added, ok := extends(old, now)
	if !ok {
		return old, false
	}
	m := old
	m.Argv = now.Argv // the command that continues it from now on
	m.Added = additions(dir, old, added)
	m.Seeds = slices.Concat(old.Seeds, added)
	m.Runs = slices.Clone(old.Runs)
	for _, seed := range added {
		for i, arm := range old.Arms {
			e := *runOf(now, arm.Name, seed)
			e.Index, e.Arm = len(m.Runs), i
			m.Runs = append(m.Runs, e)
		}
	}
	m.Hash = m.Identity()
	return m, true
}

// runOf returns the run of an arm and a seed; nil if there is none.
func runOf(m sweepdir.Manifest, arm string, seed uint64) *sweepdir.Entry {
	for i, e := range m.Runs {
		if e.Seed == seed && m.Arms[e.Arm].Name == arm {
			return &m.Runs[i]
		}
	}
	return nil
}

// additions are those of the sweep old in dir, and these seeds. Seeds that are added
// before any run has finished are not listed.
func additions(dir string, old sweepdir.Manifest, added []uint64) []sweepdir.Addition {
	last := sweepdir.Addition{Seeds: added, Runs: len(old.Runs)}
	for _, e := range old.Runs {
		if sweepdir.StateOf(dir, e).Finished() {
			last.Finished++
		}
	}
	if last.Finished == 0 {
		return old.Added
	}
	return append(slices.Clone(old.Added), last)
}

// addedTo finds the largest sibling that is this sweep with fewer seeds, and returns the seeds added
// since.
func addedTo(siblings []string, now sweepdir.Manifest) (out []sweepdir.Addition) {
	most := 0
	for _, dir := range siblings {
		m, err := sweepdir.ReadManifest(dir)
		if err != nil || len(m.Seeds) <= most {
			continue
		}
		if added, ok := extends(m, now); ok {
			if a := additions(dir, m, added); len(a) > 0 {
				most, out = len(m.Seeds), a
			}
		}
	}
	return out
}

// addedLast puts the seeds that were added last, as [extended] does: claims are made from the first ones.
func addedLast(m sweepdir.Manifest) sweepdir.Manifest {
	addition := func(seed uint64) int { // -1: none
		return slices.IndexFunc(m.Added, func(a sweepdir.Addition) bool { return slices.Contains(a.Seeds, seed) })
	}
	m.Seeds = slices.SortedStableFunc(slices.Values(m.Seeds), func(a, b uint64) int { return addition(a) - addition(b) })
	m.Runs = slices.SortedStableFunc(slices.Values(m.Runs), func(a, b sweepdir.Entry) int {
		return addition(a.Seed) - addition(b.Seed)
	})
	for i := range m.Runs {
		m.Runs[i].Index = i
	}
	return m
}

// seedsFlag writes seeds as --seeds takes them.
func seedsFlag(seeds []uint64) string {
	if slices.Equal(seeds, FirstSeeds(len(seeds))) {
		return fmt.Sprint(len(seeds))
	}
	return "[" + joinSeeds(seeds, ",") + "]"
}

func joinSeeds(seeds []uint64, separator string) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(seeds), "[]"), " ", separator)
}

// differences lists how two sweeps differ: in arms, in seeds, and in keys of the
// runs that both have.
func differences(old, now sweepdir.Manifest) []string {
	var out []string
	arms := func(m sweepdir.Manifest) (names []string) {
		for _, a := range m.Arms {
			names = append(names, a.Name)
		}
		return names
	}
	if a, b := arms(old), arms(now); !sameSet(a, b) {
		out = append(out, fmt.Sprintf("arms: %s, now %s", strings.Join(a, ", "), strings.Join(b, ", ")))
	}
	if !sameSet(old.Seeds, now.Seeds) {
		out = append(out, fmt.Sprintf("seeds: %s, now %s", joinSeeds(old.Seeds, ", "), joinSeeds(now.Seeds, ", ")))
	}
	return atMost(append(out, runDifferences(old, now)...))
}

// atMost bounds a message: two unrelated sweeps differ in everything.
func atMost(differences []string) []string {
	const most = 8
	if n := len(differences) - most; n > 0 {
		return append(differences[:most], fmt.Sprintf("and %d more differences", n))
	}
	return differences
}

func sameSet[T cmp.Ordered](a, b []T) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// runDifferences compares the runs of the same arm and seed. A difference that not
// all arms have is listed with the arms' names.
func runDifferences(old, now sweepdir.Manifest) []string {
	var lines []string            // in the order of their first appearance
	arms := map[string][]string{} // that have the difference
	common := map[string]bool{}   // arms of both
	for _, e := range now.Runs {
		arm := now.Arms[e.Arm].Name
		was := runOf(old, arm, e.Seed)
		if was == nil {
			continue
		}
		common[arm] = true
		for _, line := range entryDifferences(*was, e) {
			if arms[line] == nil {
				lines = append(lines, line)
			}
			if !slices.Contains(arms[line], arm) {
				arms[line] = append(arms[line], arm)
			}
		}
	}
	for i, line := range lines {
		if len(arms[line]) < len(common) {
			lines[i] = "arm " + strings.Join(slices.Sorted(slices.Values(arms[line])), ", ") + ": " + line
		}
	}
	return lines
}

func entryDifferences(old, now sweepdir.Entry) []string {
	if old.Hash == now.Hash {
		return nil
	}
	a, err := frozen(old)
	if err != nil {
		return []string{err.Error()}
	}
	b, err := frozen(now)
	if err != nil {
		return []string{err.Error()}
	}
	return config.Diff(a, b)
}
