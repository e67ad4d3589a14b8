package sweep

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"grpo/pkg/config"
	"grpo/pkg/sweepdir"
)

// maxDifferences bounds a message: two unrelated sweeps differ in everything.
const maxDifferences = 8

// differences says in what two sweeps differ: arms, seeds, and for runs that
// both have the keys of their configurations.
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

func atMost(differences []string) []string {
	if n := len(differences) - maxDifferences; n > 0 {
		return append(differences[:maxDifferences], fmt.Sprintf("and %d more differences", n))
	}
	return differences
}

func sameSet[T cmp.Ordered](a, b []T) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// runDifferences compares the runs of the same arm and seed. What changed for
// all of them is said once; what changed for some, with the arm's name.
func runDifferences(old, now sweepdir.Manifest) []string {
	type name struct {
		arm  string
		seed uint64
	}
	before := map[name]sweepdir.Entry{}
	for _, e := range old.Runs {
		before[name{old.Arms[e.Arm].Name, e.Seed}] = e
	}
	common := 0
	var lines []string // in the order of their first appearance
	count, arms := map[string]int{}, map[string]map[string]bool{}
	for _, e := range now.Runs {
		arm := now.Arms[e.Arm].Name
		o, ok := before[name{arm, e.Seed}]
		if !ok {
			continue
		}
		common++
		for _, line := range entryDifferences(o, e) {
			if count[line]++; count[line] == 1 {
				lines = append(lines, line)
				arms[line] = map[string]bool{}
			}
			arms[line][arm] = true
		}
	}
	var out []string
	for _, line := range lines {
		if count[line] < common {
			line = "arm " + strings.Join(slices.Sorted(maps.Keys(arms[line])), ", ") + ": " + line
		}
		out = append(out, line)
	}
	return out
}

func entryDifferences(old, now sweepdir.Entry) []string {
	switch {
	case old.Config == "" && now.Config == "" && old.Error == now.Error, old.Config != "" && now.Config != "" && old.Hash == now.Hash:
		return nil
	case now.Config == "":
		return []string{"now it has no valid configuration: " + now.Error}
	case old.Config == "":
		return []string{"now it has a valid configuration; before: " + old.Error}
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
