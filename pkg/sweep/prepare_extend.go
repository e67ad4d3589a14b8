package sweep

import (
	"fmt"
	"slices"
	"strings"

	"grpo/pkg/sweepdir"
)

// A sweep can be given more seeds: the runs that it has keep their indices and
// folders, and those of the new seeds come after them.

// withSeeds returns the manifest with the runs of these seeds alone.
func withSeeds(m sweepdir.Manifest, seeds []uint64) sweepdir.Manifest {
	m.Seeds = seeds
	m.Runs = slices.DeleteFunc(slices.Clone(m.Runs), func(e sweepdir.Entry) bool { return !slices.Contains(seeds, e.Seed) })
	return m
}

// extends returns the seeds that now has in addition to those of old; ok is false
// unless that is all in which the two differ.
func extends(old, now sweepdir.Manifest) (added []uint64, ok bool) {
	for _, s := range now.Seeds {
		if !slices.Contains(old.Seeds, s) {
			added = append(added, s)
		}
	}
	return added, len(added) > 0 && withSeeds(now, old.Seeds).Identity() == old.Hash
}

// extended appends the runs of now's additional seeds to those of old, which is
// the manifest in dir.
func extended(dir string, old, now sweepdir.Manifest) (sweepdir.Manifest, bool) {
	added, ok := extends(old, now)
	if !ok {
		return old, false
	}
	m := old
	m.Argv = now.Argv // the command that continues it from here on
	m.Added = additions(dir, old, added)
	m.Seeds = slices.Concat(old.Seeds, added)
	m.Runs = slices.Clone(old.Runs)
	for _, seed := range added {
		for i, arm := range old.Arms {
			k := slices.IndexFunc(now.Runs, func(e sweepdir.Entry) bool { return e.Seed == seed && now.Arms[e.Arm].Name == arm.Name })
			e := now.Runs[k]
			e.Index, e.Arm = len(m.Runs), i
			m.Runs = append(m.Runs, e)
		}
	}
	m.Hash = m.Identity()
	return m, true
}

// additions are those of the sweep old in dir with these seeds as the last. To
// add seeds before any run has finished is only another request.
func additions(dir string, old sweepdir.Manifest, added []uint64) []sweepdir.Addition {
	finished := 0
	for _, e := range old.Runs {
		if isFinished(sweepdir.StateOf(dir, e)) {
			finished++
		}
	}
	if finished == 0 {
		return old.Added
	}
	return append(slices.Clone(old.Added), sweepdir.Addition{Seeds: added, Finished: finished, Runs: len(old.Runs)})
}

// addedTo finds the largest of the siblings that is the sweep now with fewer
// seeds, and returns the additions that lead from there to now.
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

// seedsFlag writes seeds as --seeds takes them.
func seedsFlag(seeds []uint64) string {
	if slices.Equal(seeds, FirstSeeds(len(seeds))) {
		return fmt.Sprint(len(seeds))
	}
	return "[" + joinSeeds(seeds, ",") + "]"
}

func joinSeeds(seeds []uint64, separator string) string {
	texts := make([]string, len(seeds))
	for i, s := range seeds {
		texts[i] = fmt.Sprint(s)
	}
	return strings.Join(texts, separator)
}
